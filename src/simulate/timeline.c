#include "orrery/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/max.h"
#include "gaps.h"
#include "orrery/jobs.h"
#include "schedule/versions.h"

int orr_timeline_create(struct orr_timeline **out, const struct orr_jobs *jobs,
			struct orr_error *err)
{
	struct orr_timeline *t = calloc(1, sizeof(*t));
	size_t n = (size_t)jobs->n_jobs;

	if (!t || !(t->start_ns = malloc(n * sizeof(*t->start_ns))) ||
	    !(t->end_ns = malloc(n * sizeof(*t->end_ns)))) {
		orr_timeline_destroy(t);
		return orr_no_memory(err, "timeline");
	}
	t->jobs = jobs;
	for (size_t j = 0; j < n; j++)
		t->start_ns[j] = t->end_ns[j] = -1;
	*out = t;
	return 0;
}

void orr_timeline_destroy(struct orr_timeline *t)
{
	if (!t)
		return;
	free(t->start_ns);
	free(t->end_ns);
	free(t->updates);
	free(t->transfers);
	free(t);
}

const char *orr_transfer_name(enum orr_transfer_kind kind)
{
	static const char *const names[] = {"activation",      "gradient",   "stash", "parameter",
					    "weight_gradient", "all_reduce", "park"};

	return names[kind];
}

static void *copy_array(const void *from, int n, size_t size)
{
	void *to = n ? malloc((size_t)n * size) : NULL;

	return to ? memcpy(to, from, (size_t)n * size) : NULL;
}

int orr_timeline_copy(struct orr_timeline **out, const struct orr_timeline *t,
		      struct orr_error *err)
{
	struct orr_timeline *copy = NULL;
	int n_jobs = t->jobs->n_jobs, code = orr_timeline_create(&copy, t->jobs, err);

	if (code)
		return code;
	memcpy(copy->start_ns, t->start_ns, (size_t)n_jobs * sizeof(*t->start_ns));
	memcpy(copy->end_ns, t->end_ns, (size_t)n_jobs * sizeof(*t->end_ns));
	copy->updates = copy_array(t->updates, t->n_updates, sizeof(*t->updates));
	copy->transfers = copy_array(t->transfers, t->n_transfers, sizeof(*t->transfers));
	if ((t->n_updates && !copy->updates) || (t->n_transfers && !copy->transfers)) {
		orr_timeline_destroy(copy);
		return orr_no_memory(err, "timeline");
	}
	copy->n_updates = t->n_updates;
	copy->n_transfers = t->n_transfers;
	copy->measured = t->measured;
	*out = copy;
	return 0;
}

/* ---- what a worker did ---- */

int64_t orr_timeline_end(const struct orr_timeline *t, int number)
{
	int u = number - t->jobs->n_jobs;

	return u < 0 ? t->end_ns[number] : t->updates[u].end_ns;
}

int orr_timeline_list(struct orr_keyed *items, int *n, const struct orr_timeline *t, int w,
		      struct orr_error *err)
{
	const struct orr_jobs *jobs = t->jobs;

	*n = 0;
	for (int longer = 0; longer < 2; longer++) {
		for (int i = jobs->first[w]; i < jobs->first[w + 1]; i++) {
			int j = jobs->by_worker[i];

			if ((t->end_ns[j] > t->start_ns[j]) == longer)
				items[(*n)++] = (struct orr_keyed){t->start_ns[j], j};
		}
		for (int u = 0; u < t->n_updates; u++) {
			const struct orr_update *x = &t->updates[u];

			if (x->w == w && (x->end_ns > x->start_ns) == longer)
				items[(*n)++] = (struct orr_keyed){x->start_ns, jobs->n_jobs + u};
		}
	}
	return orr_sort(items, *n, err);
}

static void extend(struct orr_interval *x, int64_t start_ns, int64_t end_ns)
{
	x->start_ns = smaller(x->start_ns, start_ns);
	x->end_ns = larger(x->end_ns, end_ns);
	x->busy_ns += end_ns - start_ns;
}

struct orr_interval orr_timeline_interval(const struct orr_timeline *t, int w)
{
	struct orr_interval x = {INT64_MAX, INT64_MIN, 0};
	const struct orr_jobs *jobs = t->jobs;

	for (int i = jobs->first[w]; i < jobs->first[w + 1]; i++)
		extend(&x, t->start_ns[jobs->by_worker[i]], t->end_ns[jobs->by_worker[i]]);
	for (int u = 0; u < t->n_updates; u++)
		if (t->updates[u].w == w)
			extend(&x, t->updates[u].start_ns, t->updates[u].end_ns);
	return x;
}

/* ---- check ---- */

#define JOB_FORMAT "%d%c%d"
#define JOB(job) (job).s, orr_pass_letter((job).d), (job).b

static int check_predecessors(const struct orr_timeline *t, int *around, struct orr_error *err)
{
	for (int j = 0; j < t->jobs->n_jobs; j++) {
		struct orr_job job = orr_jobs_at(t->jobs, j);
		int n = orr_jobs_predecessors(t->jobs, j, around);

		if (!orr_jobs_has(t->jobs, j))
			continue;
		if (t->start_ns[j] < 0 || t->end_ns[j] < t->start_ns[j])
			return orr_fail(err, ORR_E_RUNTIME,
					"timeline: job " JOB_FORMAT " never ran", JOB(job));
		for (int i = 0; i < n; i++)
			if (t->start_ns[j] < t->end_ns[around[i]])
				return orr_fail(err, ORR_E_RUNTIME,
						"timeline: job " JOB_FORMAT
						" starts before job " JOB_FORMAT
						", which it waits for, ends",
						JOB(job), JOB(orr_jobs_at(t->jobs, around[i])));
	}
	return 0;
}

/* What F makes on another worker has come before the jobs start that read it there. */
static int check_arrivals(const struct orr_timeline *t, struct orr_error *err)
{
	const struct orr_jobs *jobs = t->jobs;
	const struct orr_pipeline *p = jobs->pipeline;

	for (int i = 0; i < t->n_transfers; i++) {
		const struct orr_transfer *x = &t->transfers[i];
		int j = x->producer, s = j < 0 ? 0 : orr_jobs_at(jobs, j).s;

		for (int e = 0; x->kind == ORR_TRANSFER_ACTIVATION && e < p->stages[s].n_out; e++) {
			int k = orr_jobs_receiver(jobs, j, orr_stage_after(p, s, e), x->to);

			if (k >= 0 && t->start_ns[k] < x->end_ns &&
			    orr_jobs_awaits(jobs, j, k, x->consumer, x->to))
				return orr_fail(err, ORR_E_RUNTIME,
						"timeline: job " JOB_FORMAT
						" starts before what job " JOB_FORMAT
						" sends its worker has come",
						JOB(orr_jobs_at(jobs, k)),
						JOB(orr_jobs_at(jobs, j)));
		}
	}
	return 0;
}

/* Parked stashes leave, and are back, as the order says. */
static int check_parked(const struct orr_timeline *t, struct orr_error *err)
{
	const struct orr_jobs *jobs = t->jobs;
	int n = 0;

	for (int j = 0; j < jobs->n_jobs && !t->measured; j++)
		n += orr_jobs_parked(jobs, j) ? 2 : 0;
	for (int i = 0; i < t->n_transfers; i++) {
		const struct orr_transfer *x = &t->transfers[i];
		int64_t from_ns;

		if (x->kind != ORR_TRANSFER_PARK)
			continue;
		n--;
		from_ns = x->to == jobs->compute[x->consumer] ? t->start_ns[x->producer]
							      : t->end_ns[x->producer];
		if (x->start_ns < from_ns || x->end_ns > t->start_ns[x->consumer])
			return orr_fail(err, ORR_E_RUNTIME,
					"timeline: a parked stash moves before job " JOB_FORMAT
					", or after job " JOB_FORMAT " has started",
					JOB(orr_jobs_at(jobs, x->producer)),
					JOB(orr_jobs_at(jobs, x->consumer)));
	}
	return !n ? 0
		  : orr_fail(err, ORR_E_RUNTIME,
			     "timeline: %d transfers of parked stashes are missing", n);
}

static int refuse_update(const struct orr_timeline *t, const struct orr_update *u, int j,
			 bool reads, struct orr_error *err)
{
	return orr_fail(err, ORR_E_RUNTIME,
			reads ? "timeline: the update of stage %d on worker %d ends after the "
				"start of job " JOB_FORMAT ", which reads what it makes"
			      : "timeline: the update of stage %d on worker %d starts before "
				"job " JOB_FORMAT " ends",
			u->s, u->w, JOB(orr_jobs_at(t->jobs, j)));
}

/* Of stage s, for the version that u makes. */
static int check_gradients(const struct orr_timeline *t, const struct orr_update *u, int s,
			   struct orr_error *err)
{
	const struct orr_jobs *jobs = t->jobs;
	int every = orr_jobs_each_update(jobs, s);

	for (int b = (u->version - 1) * every; b < u->version * every; b++) {
		int j = orr_jobs_index(jobs, s, b, orr_jobs_last_pass(jobs, s));

		if (u->start_ns < t->end_ns[j])
			return refuse_update(t, u, j, false, err);
	}
	return 0;
}

/* An update without a flush: before the passes that read its version. */
static int check_readers(const struct orr_timeline *t, const struct orr_update *u,
			 struct orr_error *err)
{
	const struct orr_jobs *jobs = t->jobs;
	const struct orr_versions *v = jobs->versions;
	int every = v->every[u->s];

	for (int b = u->version * every;
	     b < (u->version + v->most[u->s] + 1) * every && b < v->n_microbatches; b++)
		for (int d = 0; d < jobs->n_passes; d++) {
			int j = orr_jobs_index(jobs, u->s, b, (enum orr_pass)d);

			if (orr_jobs_has(jobs, j) && jobs->compute[j] == u->w &&
			    t->start_ns[j] < u->end_ns &&
			    orr_versions_read(v, u->s, b, (enum orr_pass)d) == u->version)
				return refuse_update(t, u, j, true, err);
		}
	return 0;
}

/* With a flush: after the gradients of the stages that share trained parameters with it, and after
 * the rings of these and its own. summed_ns: [sets] when the last of them ends. */
static int check_sums(const struct orr_timeline *t, const struct orr_update *u,
		      const int64_t *summed_ns, struct orr_error *err)
{
	const struct orr_pipeline *p = t->jobs->pipeline;
	int code = 0;

	for (int set = u->s; set >= 0 && !code; set = orr_set_after(p, u->s, set)) {
		const struct orr_tied *tied =
			set < p->n_stages ? NULL : &p->tied[set - p->n_stages];

		if (u->start_ns < summed_ns[set])
			return orr_fail(err, ORR_E_RUNTIME,
					"timeline: the update of stage %d on worker %d starts "
					"before its gradients are added up",
					u->s, u->w);
		for (int i = 0; tied && !tied->frozen && i < tied->n_stages && !code; i++)
			code = check_gradients(t, u, tied->stages[i], err);
	}
	return code;
}

static int check_updates(const struct orr_timeline *t, struct orr_error *err)
{
	size_t n_sets = (size_t)orr_pipeline_n_sets(t->jobs->pipeline);
	int64_t *summed_ns = calloc(n_sets, sizeof(*summed_ns));
	int code = 0;

	if (!summed_ns)
		return orr_no_memory(err, "timeline");
	for (int i = 0; i < t->n_transfers; i++) {
		const struct orr_transfer *x = &t->transfers[i];

		if (x->kind == ORR_TRANSFER_ALL_REDUCE && x->ring != ORR_RING_ALL_GATHER)
			summed_ns[x->set] = larger(summed_ns[x->set], x->end_ns);
	}
	for (int i = 0; !code && i < t->n_updates; i++) {
		const struct orr_update *u = &t->updates[i];

		if (!(code = check_gradients(t, u, u->s, err)))
			code = t->jobs->versions ? check_readers(t, u, err)
						 : check_sums(t, u, summed_ns, err);
	}
	free(summed_ns);
	return code;
}

/* What was on each worker; zero-length jobs cannot overlap anything. */
static int check_overlap(const struct orr_timeline *t, struct orr_keyed *keyed,
			 struct orr_error *err)
{
	const struct orr_jobs *jobs = t->jobs;

	for (int w = 0; w < jobs->pipeline->n_workers; w++) {
		int64_t end = -1;
		int n, code = orr_timeline_list(keyed, &n, t, w, err);

		if (code)
			return code;
		for (int i = jobs->first[w] + 1;
		     i < jobs->first[w + 1] && jobs->order == ORR_ORDER_STRICT; i++)
			if (t->start_ns[jobs->by_worker[i]] < t->end_ns[jobs->by_worker[i - 1]])
				return orr_fail(err, ORR_E_RUNTIME,
						"timeline: worker %d starts job " JOB_FORMAT
						" before the one before it in the order of n ends",
						w, JOB(orr_jobs_at(jobs, jobs->by_worker[i])));
		for (int i = 0; i < n; i++) {
			int64_t start = keyed[i].key, until = orr_timeline_end(t, keyed[i].value);

			if (until > start && start < end)
				return orr_fail(err, ORR_E_RUNTIME,
						"timeline: worker %d runs two jobs at %lld ns", w,
						(long long)start);
			end = until > start ? until : end;
		}
	}
	return 0;
}

static void keep_last(void *user, int64_t time_ns, int stashes, int64_t bytes)
{
	int64_t *last = user;

	(void)time_ns;
	last[0] = stashes;
	last[1] = bytes;
}

static int check_memory(const struct orr_timeline *t, struct orr_error *err)
{
	for (int w = ORR_HOST; w < t->jobs->pipeline->n_workers; w++) {
		int64_t last[2] = {0, 0};
		int code = orr_timeline_stash(t, w, keep_last, last, err);

		if (code)
			return code;
		if (last[0] || last[1])
			return orr_fail(err, ORR_E_RUNTIME,
					"timeline: worker %d still holds %lld stashes at the end",
					w, (long long)last[0]);
	}
	return 0;
}

int orr_timeline_check(const struct orr_timeline *t, struct orr_error *err)
{
	struct orr_arrays all = {0};
	int *around = orr_arrays_add(&all, orr_jobs_most_around(t->jobs), sizeof(*around)), code;
	struct orr_keyed *keyed = orr_arrays_add(
		&all, (size_t)t->jobs->n_jobs + (size_t)t->n_updates, sizeof(*keyed));

	if ((code = orr_arrays_check(&all, "timeline", err)))
		return code;
	if (!(code = check_predecessors(t, around, err)) && !(code = check_arrivals(t, err)) &&
	    !(code = check_parked(t, err)) && !(code = check_updates(t, err)) &&
	    !(code = check_overlap(t, keyed, err)))
		code = check_memory(t, err);
	orr_arrays_free(&all);
	return code;
}

/* ---- stash ---- */

struct change {
	int stashes;
	int64_t bytes;
};

struct changes {
	const struct orr_timeline *t;
	int w;
	struct orr_keyed *keyed;
	struct change *list;
	int n;
};

static void add_change(struct changes *x, int64_t time_ns, int stashes, int64_t bytes)
{
	x->keyed[x->n] = (struct orr_keyed){time_ns, x->n};
	x->list[x->n++] = (struct change){stashes, bytes};
}

/* Parked ones that have left w or, with `comes`, set out for it. */
static void add_parked(struct changes *x, bool comes)
{
	for (int i = 0; i < x->t->n_transfers && x->t->jobs->park; i++) {
		const struct orr_transfer *transfer = &x->t->transfers[i];

		if (transfer->kind != ORR_TRANSFER_PARK ||
		    x->w != (comes ? transfer->to : transfer->from))
			continue;
		add_change(x, comes ? transfer->start_ns : transfer->end_ns, comes ? 1 : -1,
			   comes ? transfer->bytes : -transfer->bytes);
	}
}

static void add_released(struct changes *x, int j)
{
	const struct orr_jobs *jobs = x->t->jobs;
	int next = orr_jobs_next_pass(jobs, j);

	if (orr_jobs_last_pass(jobs, orr_jobs_at(jobs, j).s) != ORR_PASS_F &&
	    (next < 0 || orr_jobs_number_at(jobs, next, x->w) < 0))
		add_change(x, next < 0 ? x->t->end_ns[j] : x->t->start_ns[next], -1,
			   -orr_jobs_stash_bytes(jobs, j));
}

static void add_taken(struct changes *x, int j)
{
	const struct orr_jobs *jobs = x->t->jobs;
	int before = orr_jobs_pass_before(jobs, j);
	bool here = before >= 0 && orr_jobs_number_at(jobs, before, x->w) >= 0;
	int64_t bytes =
		orr_jobs_stash_bytes(jobs, j) - (here ? orr_jobs_stash_bytes(jobs, before) : 0);

	if (orr_jobs_last_pass(jobs, orr_jobs_at(jobs, j).s) != ORR_PASS_F && (!here || bytes))
		add_change(x, x->t->start_ns[j], !here, bytes);
}

/* A stash comes to w with F, or with the first pass after one elsewhere; it leaves at the end of
 * the last pass, or when the next pass starts elsewhere; in between a pass may change its size, or
 * it is parked. Releases are written first: the sort is stable. */
static void collect_changes(struct changes *x)
{
	const struct orr_jobs *jobs = x->t->jobs;
	int first = x->w < 0 ? 0 : jobs->first[x->w], end = x->w < 0 ? 0 : jobs->first[x->w + 1];

	for (int i = first; i < end; i++)
		add_released(x, jobs->by_worker[i]);
	add_parked(x, false);
	for (int i = first; i < end; i++)
		add_taken(x, jobs->by_worker[i]);
	add_parked(x, true);
}

int orr_timeline_stash(const struct orr_timeline *t, int w,
		       void (*visit)(void *user, int64_t time_ns, int stashes, int64_t bytes),
		       void *user, struct orr_error *err)
{
	size_t n_jobs = w < 0 ? 0 : (size_t)(t->jobs->first[w + 1] - t->jobs->first[w]),
	       room = 2 * n_jobs + (t->jobs->park ? (size_t)t->n_transfers : 0) + 1;
	struct orr_arrays all = {0};
	struct changes x = {t, w, orr_arrays_add(&all, room, sizeof(*x.keyed)),
			    orr_arrays_add(&all, room, sizeof(*x.list)), 0};
	struct change now = {0, 0};
	int code = orr_arrays_check(&all, "timeline", err);

	if (code)
		return code;
	collect_changes(&x);
	code = orr_sort(x.keyed, x.n, err);
	for (int i = 0; i < x.n && !code; i++) {
		now.stashes += x.list[x.keyed[i].value].stashes;
		now.bytes += x.list[x.keyed[i].value].bytes;
		visit(user, x.keyed[i].key, now.stashes, now.bytes);
	}
	orr_arrays_free(&all);
	return code;
}

int64_t orr_timeline_gathered(const struct orr_timeline *t, int w)
{
	int64_t last = INT64_MIN;

	for (int i = 0; i < t->n_transfers && t->jobs->pipeline->numerics.shard_optimizer; i++)
		if (t->transfers[i].ring == ORR_RING_ALL_GATHER && t->transfers[i].end_ns > last &&
		    (w < 0 || orr_jobs_owner_number(t->jobs, t->transfers[i].set, w) >= 0))
			last = t->transfers[i].end_ns;
	return last;
}

int64_t orr_timeline_makespan(const struct orr_timeline *t)
{
	int64_t first = INT64_MAX, last = orr_timeline_gathered(t, -1);

	for (int j = 0; j < t->jobs->n_jobs; j++) {
		if (!orr_jobs_has(t->jobs, j))
			continue;
		first = smaller(first, t->start_ns[j]);
		last = larger(last, t->end_ns[j]);
	}
	for (int u = 0; u < t->n_updates; u++)
		last = larger(last, t->updates[u].end_ns);
	return last - first;
}

int64_t orr_timeline_span(const struct orr_timeline *t)
{
	int64_t span = 0;

	for (int w = 0; w < t->jobs->pipeline->n_workers; w++) {
		struct orr_interval x = orr_timeline_interval(t, w);

		if (x.end_ns >= x.start_ns)
			span = larger(span,
				      larger(x.end_ns, orr_timeline_gathered(t, w)) - x.start_ns);
	}
	return span;
}
