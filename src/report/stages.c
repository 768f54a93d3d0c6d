#include "stages.h"

#include <stdlib.h>
#include <string.h>

#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "base/json.h"
#include "base/max.h"
#include "base/quantity.h"
#include "base/utf8.h"
#include "parts.h"
#include "text_table.h"

#define MOST_ROWS 40   /* of the table; of more stages come the first and the last */
#define MOST_LISTED 32 /* bytes of operators in full */
#define MOST_NAME 24
#define MOST_WORKERS 24 /* bytes of a list of workers */

/* ---- one stage ---- */

int orr_members_init(struct orr_members *m, const struct orr_pipeline *p, struct orr_error *err)
{
	int n = p->graph ? p->graph->n_operators : 0, code;

	*m = (struct orr_members){.pipeline = p};
	orr_arrays_make(&m->all, m->first, (size_t)p->n_stages + 2);
	orr_arrays_make(&m->all, m->operators, (size_t)n + 1);
	if ((code = orr_arrays_check(&m->all, "stages", err)))
		return code;
	for (int i = 0; i < n; i++)
		m->first[p->stage_of[i] + 2]++;
	for (int s = 0; s < p->n_stages; s++)
		m->first[s + 2] += m->first[s + 1];
	for (int i = 0; i < n; i++)
		m->operators[m->first[p->stage_of[i] + 1]++] = i;
	return 0;
}

static const char *name_of(const struct orr_members *m, int i)
{
	return m->pipeline->graph->operators[m->operators[i]].name;
}

const char *orr_members_text(size_t size, const struct orr_members *m, int s)
{
	int first = m->first[s], n = m->first[s + 1] - first;
	const char *text = "";
	size_t length = 0;

	for (int i = first; i < first + n; i++)
		length += strlen(name_of(m, i)) + 2;
	if (n > 1 && length > MOST_LISTED) {
		const char *a = name_of(m, first), *z = name_of(m, first + n - 1);

		return orr_text("%.*s .. %.*s (%d)", orr_utf8_fit(a, MOST_NAME), a,
				orr_utf8_fit(z, MOST_NAME), z, n);
	}
	for (int i = first; i < first + n; i++)
		text = orr_text("%s%s%.*s", text, i > first ? ", " : "",
				orr_utf8_fit(name_of(m, i), size - 3), name_of(m, i));
	return text;
}

const char *orr_workers_text(size_t size, const int *workers, int n)
{
	int low = workers[0], high = workers[0];
	const char *text = "";

	for (int i = 1; i < n; i++) {
		low = (int)smaller(workers[i], low);
		high = (int)larger(workers[i], high);
	}
	if (n > 1 && high - low == n - 1)
		return orr_text("%d-%d", low, high);
	for (int i = 0; i < n && strlen(text) < size; i++)
		text = orr_text("%s%s%d", text, i ? "," : "", workers[i]);
	return orr_text("%.*s", (int)size - 1, text);
}

/* The workers that compute stage s, each once, in the order of the first microbatch that they
 * serve; how many. workers and seen hold n_workers; seen is all false, before and after. */
static int find_workers(int *workers, bool *seen, const struct orr_jobs *jobs, int s)
{
	int n = 0;

	for (int b = 0; b < jobs->pipeline->n_microbatches; b++)
		for (int d = 0; d < jobs->n_passes; d++) {
			int j = orr_jobs_index(jobs, s, b, (enum orr_pass)d);

			for (int i = 0; i < orr_jobs_n_at(jobs, j); i++) {
				int w = orr_jobs_worker(jobs, j, i);

				if (!seen[w])
					workers[n++] = w;
				seen[w] = true;
			}
		}
	for (int i = 0; i < n; i++)
		seen[workers[i]] = false;
	return n;
}

bool orr_stages_are_apart(const struct orr_jobs *jobs, int s)
{
	for (int b = 0; b < jobs->pipeline->n_microbatches; b++)
		for (int d = 0; d < jobs->n_passes; d++) {
			int j = orr_jobs_index(jobs, s, b, (enum orr_pass)d);

			if (jobs->weights[j] != jobs->compute[j])
				return true;
		}
	return false;
}

/* Of the first microbatch; where they differ, the mean. */
static int64_t duration_ns(const struct orr_jobs *jobs, int s, enum orr_pass d)
{
	int n = jobs->pipeline->microbatches ? jobs->pipeline->n_microbatches : 1;
	double sum = 0;

	for (int b = 0; b < n; b++)
		sum += (double)jobs->duration_ns[orr_jobs_index(jobs, s, b, d)];
	return (int64_t)(sum / n + 0.5);
}

const char *orr_part_text(const struct orr_pipeline *p, int s)
{
	const struct orr_split *split = p->split;

	return !split ? ""
		      : orr_text("stage %d, worker %d of %d, level %d", split->stage[s],
				 split->shard[s], split->width[split->stage[s]], split->level[s]);
}

static json_t *part_json(const struct orr_pipeline *p, int s)
{
	const struct orr_split *split = p->split;

	return json_pack("{s:i, s:i, s:i, s:i}", "stage", split->stage[s], "worker",
			 split->shard[s], "workers", split->width[split->stage[s]], "level",
			 split->level[s]);
}

/* ---- text ---- */

enum { STAGE, PART, WORKER, OWNER, FORWARD, BACKWARD, WEIGHT, PARAMETERS, OPERATORS, N_COLUMNS };

struct list {
	const struct orr_jobs *jobs;
	struct orr_members members;
	int *workers; /* [n_workers], as are those seen */
	bool *seen;
	struct orr_column columns[N_COLUMNS];
	bool again; /* some stage recomputes */
};

static const char *pass_text(const struct orr_jobs *jobs, int s, enum orr_pass d)
{
	return orr_jobs_has(jobs, orr_jobs_index(jobs, s, 0, d))
		       ? orr_duration_text(duration_ns(jobs, s, d), jobs->pipeline->units)
		       : "-";
}

static void fill_row(void *user, int s, const char **cells)
{
	struct list *x = user;
	const struct orr_jobs *jobs = x->jobs;
	const struct orr_pipeline *p = jobs->pipeline;
	int n = find_workers(x->workers, x->seen, jobs, s);

	cells[STAGE] = orr_text("s%d", s);
	cells[PART] = orr_part_text(p, s);
	cells[WORKER] = orr_workers_text(MOST_WORKERS, x->workers, n);
	cells[OWNER] = orr_workers_text(MOST_WORKERS, jobs->owners + jobs->first_owner[s],
					jobs->first_owner[s + 1] - jobs->first_owner[s]);
	cells[FORWARD] = pass_text(jobs, s, ORR_PASS_F);
	cells[BACKWARD] =
		orr_text("%s%s", pass_text(jobs, s, ORR_PASS_B), jobs->recompute[s] ? " *" : "");
	cells[WEIGHT] = jobs->n_passes == 3 ? pass_text(jobs, s, ORR_PASS_W) : "-";
	cells[PARAMETERS] = orr_text("%s%s", orr_size_text(p->stages[s].parameter_bytes),
				     p->stages[s].frozen ? " frozen" : "");
	cells[OPERATORS] = orr_members_text(72, &x->members, s);
	x->again = x->again || jobs->recompute[s];
	x->columns[OWNER].hidden = x->columns[OWNER].hidden && !orr_stages_are_apart(jobs, s);
	x->columns[PARAMETERS].hidden =
		x->columns[PARAMETERS].hidden && !p->stages[s].parameter_bytes;
}

/* Owners and parameters have a column where some stage has any that differ. */
static void write_table(FILE *file, struct list *x)
{
	const struct orr_rows rows = {x->columns, N_COLUMNS, x->jobs->pipeline->n_stages,
				      MOST_ROWS,  fill_row,  x};
	const struct orr_column columns[N_COLUMNS] = {
		[STAGE] = {{"stage"}, .width = 7},
		[PART] = {{"part of"}, .left = true, .hidden = !x->jobs->groups},
		[WORKER] = {.heading = {"worker"}},
		[OWNER] = {{"owner"}, .hidden = true},
		[FORWARD] = {.heading = {"forward"}},
		[BACKWARD] = {.heading = {"backward"}},
		[WEIGHT] = {{"weight"}, .hidden = x->jobs->n_passes < 3},
		[PARAMETERS] = {{"parameters"}, .hidden = true},
		[OPERATORS] = {{"operators"}, .left = true, .hidden = !x->jobs->pipeline->graph}};

	memcpy(x->columns, columns, sizeof(columns));
	orr_rows_write(file, &rows);
	if (x->again)
		fputs("*: and the forward again before it (recomputed)\n", file);
}

static void write_tied(FILE *file, const struct orr_jobs *jobs)
{
	const struct orr_pipeline *p = jobs->pipeline;

	for (int t = 0; t < p->n_tied && t < MOST_ROWS; t++) {
		const struct orr_tied *tied = &p->tied[t];
		int first = jobs->first_owner[p->n_stages + t];
		int n = jobs->first_owner[p->n_stages + t + 1] - first;

		fprintf(file, "s%s share %s of %sparameters: %s on worker%s %s%s\n",
			orr_workers_text(MOST_WORKERS, tied->stages, tied->n_stages),
			orr_size_text(tied->bytes), tied->frozen ? "frozen " : "",
			n == 1 ? "one copy" : "a copy each", n == 1 ? "" : "s",
			orr_workers_text(MOST_WORKERS, jobs->owners + first, n),
			n == 1 || tied->frozen ? "" : ", which add up its gradients");
	}
	if (p->n_tied > MOST_ROWS)
		fprintf(file, "... %d more\n", p->n_tied - MOST_ROWS);
}

static int list_init(struct list *x, const struct orr_jobs *jobs, struct orr_error *err)
{
	size_t n_workers = (size_t)jobs->pipeline->n_workers;
	int code;

	*x = (struct list){.jobs = jobs};
	if ((code = orr_members_init(&x->members, jobs->pipeline, err)))
		return code;
	orr_arrays_make(&x->members.all, x->workers, n_workers);
	orr_arrays_make(&x->members.all, x->seen, n_workers);
	return orr_arrays_check(&x->members.all, "stages", err);
}

int orr_stages_write(FILE *file, const struct orr_jobs *jobs, struct orr_error *err)
{
	struct list x;
	int code = list_init(&x, jobs, err);

	if (!code) {
		write_table(file, &x);
		write_tied(file, jobs);
	}
	orr_arrays_free(&x.members.all);
	return code;
}

/* ---- JSON ---- */

static json_t *operators_json(const struct orr_members *m, int s)
{
	json_t *array = json_array();

	for (int i = m->first[s]; i < m->first[s + 1]; i++)
		orr_json_append(&array, json_string(name_of(m, i)));
	return array;
}

static json_t *stage_json(struct list *x, int s)
{
	const struct orr_jobs *jobs = x->jobs;
	const struct orr_stage *stage = &jobs->pipeline->stages[s];
	int n = find_workers(x->workers, x->seen, jobs, s);
	json_t *json = json_pack(
		"{s:o, s:o, s:o, s:o, s:b, s:b, s:o, s:o, s:o, s:o, s:I}", "operators",
		operators_json(&x->members, s), "worker",
		n == 1 ? json_integer(x->workers[0]) : json_null(), "workers",
		orr_json_integers(x->workers, n), "owners",
		orr_json_integers(jobs->owners + jobs->first_owner[s],
				  jobs->first_owner[s + 1] - jobs->first_owner[s]),
		"frozen", stage->frozen, "recompute", jobs->recompute[s], "forward",
		orr_json_time(duration_ns(jobs, s, ORR_PASS_F)), "backward",
		orr_json_time(duration_ns(jobs, s, ORR_PASS_B)), "weight",
		jobs->n_passes == 3 ? orr_json_time(duration_ns(jobs, s, ORR_PASS_W)) : json_null(),
		"update", orr_json_time(stage->update_ns), "parameter_bytes",
		(json_int_t)stage->parameter_bytes);

	if (jobs->pipeline->split)
		orr_json_set(&json, "part", part_json(jobs->pipeline, s));
	return json;
}

static const char failed[] = "stages: no JSON: no memory, or a name that is no UTF-8";

json_t *orr_stages_json(const struct orr_jobs *jobs, struct orr_error *err)
{
	struct list x;
	json_t *array = list_init(&x, jobs, err) ? NULL : json_array();

	for (int s = 0; s < jobs->pipeline->n_stages && array; s++)
		orr_json_append(&array, stage_json(&x, s));
	orr_arrays_free(&x.members.all);
	return orr_json_check(array, failed, err);
}

json_t *orr_stages_cut_json(const struct orr_pipeline *p, struct orr_error *err)
{
	struct orr_members m;
	json_t *array = orr_members_init(&m, p, err) ? NULL : json_array();

	for (int s = 0; s < p->n_stages && array; s++) {
		const struct orr_stage *stage = &p->stages[s];

		orr_json_append(
			&array,
			json_pack("{s:o, s:b, s:o, s:o, s:o, s:o, s:I, s:I}", "operators",
				  operators_json(&m, s), "frozen", stage->frozen, "forward",
				  orr_json_time(stage->forward_ns), "backward",
				  orr_json_time(stage->backward_ns), "weight",
				  p->has_weight ? orr_json_time(stage->weight_ns) : json_null(),
				  "update", orr_json_time(stage->update_ns), "parameter_bytes",
				  (json_int_t)stage->parameter_bytes, "stash_bytes",
				  (json_int_t)stage->stash_bytes));
	}
	orr_arrays_free(&m.all);
	return orr_json_check(array, failed, err);
}

json_t *orr_tied_json(const struct orr_jobs *jobs)
{
	const struct orr_pipeline *p = jobs->pipeline;
	json_t *array = json_array();

	for (int t = 0; t < p->n_tied; t++) {
		const struct orr_tied *tied = &p->tied[t];
		const int *first = &jobs->first_owner[p->n_stages + t];

		orr_json_append(
			&array,
			json_pack("{s:o, s:o, s:I, s:b}", "stages",
				  orr_json_integers(tied->stages, tied->n_stages), "owners",
				  orr_json_integers(jobs->owners + first[0], first[1] - first[0]),
				  "bytes", (json_int_t)tied->bytes, "frozen", tied->frozen));
	}
	return array;
}

const char *orr_stages_unit(const struct orr_pipeline *p)
{
	return p->units ? "units" : "seconds";
}

/* ---- exchanges ---- */

#define N_COLLECTIVES (ORR_COLLECTIVE_ALL_TO_ALL + 1)
static const char *const collectives[N_COLLECTIVES] = {
	[ORR_COLLECTIVE_REDUCE_SCATTER] = "reduce-scatter",
	[ORR_COLLECTIVE_ALL_GATHER] = "all-gather",
	[ORR_COLLECTIVE_ALL_TO_ALL] = "all-to-all",
};

struct exchanges {
	int n[N_COLLECTIVES]; /* forward; each has an operator on the first worker */
	int64_t bytes;        /* between workers of a group, forward and backward */
};

static struct exchanges find_exchanges(const struct orr_pipeline *p)
{
	struct exchanges x = {{0}, 0};

	for (int i = 0; p->graph && i < p->graph->n_operators; i++)
		x.n[p->graph->operators[i].collective] += p->graph->operators[i].shard == 0;
	for (int e = 0; e < p->n_edges; e++) {
		const struct orr_edge *edge = &p->edges[e];

		if (p->split->stage[edge->from] == p->split->stage[edge->to] &&
		    p->split->shard[edge->from] != p->split->shard[edge->to])
			x.bytes += edge->bytes + edge->gradient_bytes;
	}
	return x;
}

void orr_groups_write(FILE *file, const struct orr_jobs *jobs)
{
	const struct orr_groups *groups = jobs->groups;
	struct exchanges x;
	int64_t least = INT64_MAX, most = 0;
	int busy = 0, n = 0; /* busy: those that compute */

	if (!groups)
		return;
	x = find_exchanges(jobs->pipeline);
	for (int g = 0; g < groups->n; g++) {
		busy += groups->jobs->first[g + 1] > groups->jobs->first[g];
		least = smaller(groups->first[g + 1] - groups->first[g], least);
		most = larger(groups->first[g + 1] - groups->first[g], most);
	}
	fprintf(file, "split        %s on ", orr_count_text(groups->pipeline.n_stages, "stage"));
	if (busy < groups->n)
		fprintf(file, "%d of ", busy);
	fprintf(file, "%s of ", orr_count_text(groups->n, "group"));
	if (least < most)
		fprintf(file, "%lld to ", (long long)least);
	fprintf(file, "%lld workers; forward of a microbatch ", (long long)most);
	for (int c = 0; c < N_COLLECTIVES; c++)
		if (collectives[c] && x.n[c])
			fprintf(file, "%s%s", n++ ? ", " : "",
				orr_count_text(x.n[c], collectives[c]));
	fprintf(file, "%s, %s both ways\n", n ? "" : "no exchange", orr_size_text(x.bytes));
}

json_t *orr_groups_json(const struct orr_jobs *jobs)
{
	const struct orr_groups *groups = jobs->groups;
	struct exchanges x = find_exchanges(jobs->pipeline);

	return json_pack("{s:i, s:o, s:i, s:i, s:i, s:I}", "stages", groups->pipeline.n_stages,
			 "groups", orr_json_integers(groups->first, groups->n), "reduce_scatters",
			 x.n[ORR_COLLECTIVE_REDUCE_SCATTER], "all_gathers",
			 x.n[ORR_COLLECTIVE_ALL_GATHER], "all_to_alls",
			 x.n[ORR_COLLECTIVE_ALL_TO_ALL], "bytes", (json_int_t)x.bytes);
}
