#include "export.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "command.h"
#include "open/exchange.h"
#include "schedule/table.h"
#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "base/json.h"
#include "base/quantity.h"
#include "output_file.h"
#include "orrery/pipeline.h"
#include "orrery/try.h"
#include "report/stages.h"
#include "orrery/timeline.h"

#define FORMAT "stages of a schedule by orrery"

/* ---- what a CSV cannot say: it has rows of stage, pass and microbatch, and nothing else ---- */

#define MOST_LOSSES 8
#define LOSS_TEXT 112
struct losses {
	int n;
	char text[MOST_LOSSES][LOSS_TEXT]; /* "recomputation of 3 stages" */
};

__attribute__((format(printf, 2, 3))) static void add(struct losses *losses, const char *format,
						      ...)
{
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(losses->text[losses->n++], LOSS_TEXT, format, arguments);
	va_end(arguments);
}

/* An edge from every stage to the next, and no other. */
static bool is_chain(const struct orr_pipeline *p)
{
	bool chain = p->n_edges == p->n_stages - 1;

	for (int e = 0; e < p->n_edges && chain; e++)
		chain = p->edges[e].from == e && p->edges[e].to == e + 1;
	return chain;
}

static bool recomputes(const struct orr_jobs *jobs, int s)
{
	return jobs->recompute[s];
}

static bool is_ganged(const struct orr_jobs *jobs, int s)
{
	return orr_pipeline_n_at(jobs->pipeline, s) > 1;
}

static bool is_replicated(const struct orr_jobs *jobs, int s)
{
	int first = jobs->compute[orr_jobs_index(jobs, s, 0, ORR_PASS_F)];

	for (int b = 0; b < jobs->pipeline->n_microbatches; b++)
		for (int d = 0; d < jobs->n_passes; d++)
			if (jobs->compute[orr_jobs_index(jobs, s, b, (enum orr_pass)d)] != first)
				return true;
	return false;
}

/* No row implies its cap: F and the job that it waits for are on two workers. */
static bool is_capped(const struct orr_jobs *jobs, int s)
{
	int cap = orr_jobs_cap(jobs, s);

	for (int b = cap; cap && b < jobs->pipeline->n_microbatches; b++)
		if (jobs->compute[orr_jobs_index(jobs, s, b, ORR_PASS_F)] !=
		    jobs->compute[orr_jobs_index(jobs, s, b - cap, orr_jobs_last_pass(jobs, s))])
			return true;
	return false;
}

static int count_stages(const struct orr_jobs *jobs, bool (*is)(const struct orr_jobs *, int))
{
	int n = 0;

	for (int s = 0; s < jobs->pipeline->n_stages; s++)
		n += is(jobs, s);
	return n;
}

static void find_losses(struct losses *losses, const struct orr_jobs *jobs)
{
	int recomputing = count_stages(jobs, recomputes),
	    apart = count_stages(jobs, orr_stages_are_apart);
	int replicated = count_stages(jobs, is_replicated), capped = count_stages(jobs, is_capped);
	int ganged = count_stages(jobs, is_ganged);

	losses->n = 0;
	if (!is_chain(jobs->pipeline))
		add(losses, "the graph of the stages, which PyTorch takes for a chain");
	if (recomputing)
		add(losses, "recomputation of %s", orr_count_text(recomputing, "stage"));
	if (jobs->async)
		add(losses, "that it never flushes, and its updates");
	if (replicated)
		add(losses, "that %s %s several workers, where PyTorch wants one",
		    orr_count_text(replicated, "stage"), replicated == 1 ? "has" : "have");
	if (ganged)
		add(losses, "%s on several workers at once, each in the row of the first",
		    orr_count_text(ganged, "stage"));
	if (apart)
		add(losses, "who owns the parameters of %s", orr_count_text(apart, "stage"));
	if (capped)
		add(losses, "the cap of %s", orr_count_text(capped, "stage"));
	if (jobs->order == ORR_ORDER_GREEDY)
		add(losses, "that its order is greedy: it is fixed as it came out");
}

/* ---- before the work ---- */

/* "v-half.stages.json" of "v-half.csv"; NULL where there is none, or with code no memory. The
 * caller frees it. */
static int name_list(char **list, const char *csv, struct orr_error *err)
{
	size_t length = csv ? strlen(csv) : 0;

	*list = NULL;
	if (length < 5 || strcmp(csv + length - 4, ".csv"))
		return 0;
	if (asprintf(list, "%.*s.stages.json", (int)length - 4, csv) >= 0)
		return 0;
	*list = NULL;
	return orr_fail(err, ORR_E_NOMEM, "%s: no memory for its path", csv);
}

/* One that is there must be one of ours. */
static int check_list(const char *list, struct orr_error *err)
{
	struct stat status;
	bool there = !stat(list, &status);
	json_t *json = there && S_ISREG(status.st_mode) ? json_load_file(list, 0, NULL) : NULL;
	const char *format = json_string_value(json_object_get(json, "format"));
	bool ours = format && !strcmp(format, FORMAT);

	json_decref(json);
	if (there && !ours)
		return orr_fail(err, ORR_E_INPUT,
				"%s: is there, and is no list of stages that --csv wrote: move it, "
				"or name another --csv",
				list);
	return output_check_file("--csv", list, err);
}

int export_check(const char *csv, bool strict, struct orr_error *err)
{
	char *list = NULL;
	int code;

	if (strict && !csv)
		return orr_fail(err, ORR_E_INPUT, "--strict-csv is about --csv: give both");
	if ((code = output_check_file("--csv", csv, err)) || (code = name_list(&list, csv, err)))
		return code;
	if (list)
		code = check_list(list, err);
	free(list);
	return code;
}

static const char *print_losses(char *text, size_t size, const struct losses *losses)
{
	size_t length = 0;

	text[0] = '\0';
	for (int i = 0; i < losses->n && length < size; i++)
		length += (size_t)snprintf(text + length, size - length, "%s%s", i ? "; " : "",
					   losses->text[i]);
	return text;
}

/* What a schedule says, and so a CSV of it: of a graph that was split, of the stages before. */
static const struct orr_jobs *said(const struct orr_jobs *jobs)
{
	return jobs->groups ? jobs->groups->jobs : jobs;
}

int export_check_jobs(const char *csv, bool strict, const struct orr_jobs *jobs,
		      struct orr_error *err)
{
	struct losses losses;
	char text[120];

	if (!csv || !strict)
		return 0;
	find_losses(&losses, said(jobs));
	if (!losses.n)
		return 0;
	return orr_fail(
		err, ORR_E_INPUT,
		"--strict-csv: %.40s would not say: %s: `simulate -o FILE.json` says all of it",
		csv, print_losses(text, sizeof(text), &losses));
}

/* ---- reading it back ---- */

static int write_csv(FILE *file, const void *timeline, struct orr_error *err)
{
	return orr_exchange_write(file, timeline, err);
}

static int read_back(struct orr_table **table, const struct orr_timeline *t, struct orr_error *err)
{
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);
	int code = file ? orr_exchange_write(file, t, err) : 0;

	if (!file || (fclose(file) && !code))
		code = orr_fail(err, ORR_E_NOMEM, "no memory for a CSV");
	if (!code)
		code = orr_exchange_parse(table, "csv", text, size, err);
	free(text);
	return code;
}

static int compare(bool *same, const struct orr_timeline *t, const struct orr_table *table,
		   struct orr_error *err)
{
	size_t bytes = (size_t)t->jobs->n_jobs * sizeof(*t->start_ns);
	struct orr_schedule schedule;
	struct orr_try again;
	int code;

	orr_table_schedule(&schedule, table);
	if (!(code = orr_try_init(&again, t->jobs->pipeline, &schedule, NULL, err)) &&
	    !(code = orr_try_time(&again, err)))
		*same = !memcmp(again.timeline->start_ns, t->start_ns, bytes) &&
			!memcmp(again.timeline->end_ns, t->end_ns, bytes);
	orr_try_fini(&again);
	return code;
}

int export_check_timeline(const char *csv, bool strict, const struct orr_timeline *t,
			  struct orr_error *err)
{
	static const char why[] = "which transfer goes first where several are asked for at once";
	struct orr_table *table = NULL;
	struct losses losses;
	char text[512];
	bool same = true;
	int code;

	if (!csv)
		return 0;
	find_losses(&losses, said(t->jobs));
	if (losses.n) /* said, or refused */
		return 0;
	if (!(code = read_back(&table, t, err)))
		code = compare(&same, t, table, err);
	orr_table_destroy(table);
	if (code || same)
		return code;
	if (strict)
		return orr_fail(err, ORR_E_INPUT,
				"--strict-csv: %.60s would not say %s, which changes the timeline: "
				"`simulate -o FILE.json` says it",
				csv, why);
	(void)snprintf(text, sizeof(text), "%.300s does not say %s%s", csv, why,
		       t->jobs->groups ? "" : ": `simulate -o FILE.json` does");
	command_say(text);
	return 0;
}

/* ---- writing ---- */

static int write_list(const char *list, const struct orr_jobs *jobs, const struct losses *losses,
		      struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;
	json_t *stages = orr_stages_json(jobs, err), *edges, *lost, *json;
	int code;

	if (!stages)
		return ORR_E_NOMEM;
	edges = json_array();
	lost = json_array();
	for (const struct orr_edge *e = p->edges; e < p->edges + p->n_edges; e++)
		orr_json_append(&edges, json_pack("[i, i]", e->from, e->to));
	for (int i = 0; i < losses->n; i++)
		orr_json_append(&lost, json_string(losses->text[i]));
	json = json_pack("{s:s, s:s, s:s?, s:s, s:o, s:o, s:o}", "format", FORMAT, "schedule",
			 jobs->schedule, "model", p->graph ? p->graph->name : NULL, "unit",
			 orr_stages_unit(p), "stages", stages, "edges", edges, "not_in_csv", lost);
	code = json ? output_file(list, output_write_json, json, err)
		    : orr_fail(err, ORR_E_NOMEM, "%s: no memory for its stages", list);
	json_decref(json);
	return code;
}

int export_write(const char *csv, const struct orr_timeline *t, struct orr_error *err)
{
	struct losses losses;
	char text[MOST_LOSSES * LOSS_TEXT], line[1024], *list = NULL;
	int code;

	if (!csv)
		return 0;
	find_losses(&losses, said(t->jobs));
	if (!(code = output_file(csv, write_csv, t, err)) && !(code = name_list(&list, csv, err)) &&
	    list)
		code = write_list(list, said(t->jobs), &losses, err);
	free(list);
	if (!code && losses.n) {
		(void)snprintf(line, sizeof(line), "%.300s does not say: %s%s", csv,
			       print_losses(text, sizeof(text), &losses),
			       t->jobs->groups ? "" : ". `simulate -o FILE.json` says all of it");
		command_say(line);
	}
	return code;
}
