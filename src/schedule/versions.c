#include "versions.h"

#include <stdlib.h>
#include <string.h>

#include "async.h"
#include "base/max.h"
#include "base/nearest.h"
#include "orrery/jobs.h"

static const char *const names[] = {"stashing", "vertical", "none"};

const char *orr_sync_name(enum orr_sync sync)
{
	return names[sync];
}

int orr_sync_parse(enum orr_sync *sync, const char *text, struct orr_error *err)
{
	struct orr_nearest near = orr_nearest_to(text);

	for (int i = 0; i < (int)(sizeof(names) / sizeof(names[0])); i++)
		if (!strcmp(text, names[i])) {
			*sync = (enum orr_sync)i;
			return 0;
		}
	orr_nearest_try_all(&near, "stashing, vertical, none");
	return orr_fail(err, ORR_E_INPUT, "[sync]: '%.60s'%s: give stashing, vertical or none",
			text, orr_nearest_hint(&near));
}

/* The version that F reads, of any microbatch, as if rounds had no beginning. */
static int64_t read_endless(const struct orr_versions *v, int s, int64_t b)
{
	int64_t at = modulo(b, v->n_microbatches);

	return floor_of(b, v->every[s]) - v->behind[(at * v->n_stages + s) * v->n_passes];
}

/* The first microbatch whose F reads this version or a newer one: later ones read no older. */
static int64_t first_reader(const struct orr_versions *v, int s, int64_t version)
{
	int64_t low = version * v->every[s], high = (version + v->most[s] + 1) * v->every[s];

	while (low < high) {
		int64_t b = low + (high - low) / 2;

		if (read_endless(v, s, b) < version)
			low = b + 1;
		else
			high = b;
	}
	return low;
}

/* ---- which version a pass reads ---- */

/* Updates between the latest version at job j and the one that the update of its microbatch starts
 * from. It is at least that of no later one: no B precedes its F. */
static int behind_latest(const struct orr_versions *v, const struct orr_jobs *jobs, int j)
{
	struct orr_job job = orr_jobs_at(jobs, j);
	int u = v->every[job.s];
	int64_t ended =
		orr_async_before(jobs, job.s, orr_jobs_last_pass(jobs, job.s), jobs->priority[j]);

	return (int)(job.b / u - floor_of(ended, u));
}

/* Microbatches that the version has seen that b meets at the input: at the stages that are trained
 * and before which nothing is. */
static int64_t seen_at_input(const struct orr_versions *v, const struct orr_jobs *jobs, int b)
{
	const struct orr_pipeline *p = jobs->pipeline;
	int64_t least = INT64_MAX;

	for (int s = 0; s < p->n_stages; s++) {
		int64_t seen;

		if ((p->stages[s].n_in && p->stages[s].has_input_gradient) ||
		    v->every[s] == ORR_NEVER)
			continue;
		seen = v->every[s] *
		       ((int64_t)b / v->every[s] -
			behind_latest(v, jobs, orr_jobs_index(jobs, s, b, ORR_PASS_F)));
		least = smaller(least, seen);
	}
	return least;
}

static void find_behind(struct orr_versions *v, const struct orr_jobs *jobs)
{
	enum orr_sync sync = jobs->pipeline->sync;

	for (int b = 0; b < v->n_microbatches; b++) {
		int64_t seen = sync == ORR_SYNC_VERTICAL ? seen_at_input(v, jobs, b) : 0;

		for (int i = 0; i < v->n_stages * v->n_passes; i++) {
			int s = i / v->n_passes, d = i % v->n_passes;
			int j = orr_jobs_index(jobs, s, b, (enum orr_pass)d);

			if (v->every[s] == ORR_NEVER)
				continue;
			if (sync == ORR_SYNC_VERTICAL)
				v->behind[j] = b / v->every[s] - (int)floor_of(seen, v->every[s]);
			else if (sync == ORR_SYNC_STASHING && d != ORR_PASS_F)
				v->behind[j] = v->behind[j - 1];
			else
				v->behind[j] = behind_latest(v, jobs, j);
		}
	}
	for (int s = 0; s < v->n_stages; s++) {
		v->least[s] = INT32_MAX;
		for (int b = 0; b < v->n_microbatches; b++) {
			int behind = v->behind[orr_jobs_index(jobs, s, b, ORR_PASS_F)];

			v->least[s] = (int)smaller(v->least[s], behind);
			v->most[s] = (int)larger(v->most[s], behind);
		}
	}
}

/* ---- for how long it is held ---- */

/* The microbatches of a stage that one worker computes, counted from 0. */
struct share {
	int n;     /* in a round */
	int *of;   /* [n_microbatches + 1] those before b */
	int *news; /* [n + 1] how many before it read another version than the one before them */
};

static void find_share(struct share *share, const struct orr_versions *v,
		       const struct orr_jobs *jobs, int s, int w)
{
	int64_t before = 0;

	share->n = 0;
	for (int b = -v->n_microbatches; b < v->n_microbatches; b++) {
		int at = (int)modulo(b, v->n_microbatches);

		if (b >= 0)
			share->of[b] = share->n;
		if (jobs->compute[orr_jobs_index(jobs, s, at, ORR_PASS_F)] != w)
			continue;
		if (b >= 0) { /* the round before is only met */
			share->news[share->n + 1] =
				share->news[share->n] + (read_endless(v, s, b) != before);
			share->n++;
		}
		before = read_endless(v, s, b);
	}
	share->of[v->n_microbatches] = share->n;
}

/* So many of them come before microbatch b, also of a later round. */
static int64_t shared_before(const struct share *share, const struct orr_versions *v, int64_t b)
{
	return b / v->n_microbatches * share->n + share->of[b % v->n_microbatches];
}

static int64_t news_before(const struct share *share, int64_t i)
{
	return i / share->n * share->news[share->n] + share->news[i % share->n];
}

/* Versions that the worker holds when the update of b, which closes one, has run: the one that it
 * made, and older ones that a pass still to come reads. */
static int64_t held_after(const struct orr_versions *v, const struct share *share, int s, int b)
{
	int64_t end = first_reader(v, s, b / v->every[s] + 1);
	int64_t i = shared_before(share, v, b + 1), i_end = shared_before(share, v, end);

	return i_end > i ? 2 + news_before(share, i_end) - news_before(share, i + 1) : 1;
}

static int find_peak(struct orr_versions *v, const struct orr_jobs *jobs, struct orr_error *err)
{
	size_t n = (size_t)v->n_microbatches + 1;
	struct orr_arrays all = {0};
	struct share share = {.of = orr_arrays_add(&all, n, sizeof(int)),
			      .news = orr_arrays_add(&all, n, sizeof(int))};
	int code = orr_arrays_check(&all, "versions", err);

	for (int s = 0; s < v->n_stages && !code; s++) {
		v->peak[s] = 1;
		if (jobs->pipeline->sync == ORR_SYNC_NONE)
			continue; /* nothing older than the latest is ever read */
		for (int i = jobs->first_owner[s]; i < jobs->first_owner[s + 1]; i++) {
			find_share(&share, v, jobs, s, jobs->owners[i]);
			for (int b = v->every[s] - 1; b < v->n_microbatches; b += v->every[s])
				v->peak[s] = (int)larger(v->peak[s], held_after(v, &share, s, b));
		}
	}
	orr_arrays_free(&all);
	return code;
}

int64_t orr_versions_last_reader(const struct orr_versions *v, const struct orr_jobs *jobs, int s,
				 int w, int64_t version)
{
	int64_t b = first_reader(v, s, version + 1) - 1;

	for (; b >= 0 && orr_versions_read(v, s, b, ORR_PASS_F) >= version; b--) {
		int at = (int)(b % v->n_microbatches);

		if (orr_versions_read(v, s, b, ORR_PASS_F) == version &&
		    jobs->compute[orr_jobs_index(jobs, s, at, ORR_PASS_F)] == w)
			return b;
	}
	return -1;
}

int64_t orr_versions_full(const struct orr_versions *v, int s)
{
	return first_reader(v, s, 0);
}

int orr_versions_step(const struct orr_versions *v)
{
	int step = 1;

	for (int s = 0; s < v->n_stages; s++)
		if (v->every[s] != ORR_NEVER)
			step = step / (int)common_divisor(step, v->every[s]) * v->every[s];
	return step;
}

/* ---- */

/* As many microbatches on each replica, and whole updates in a round. */
static int find_every(struct orr_versions *v, const struct orr_jobs *jobs, struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;

	for (int s = 0; s < p->n_stages; s++) {
		int r = jobs->first_owner[s + 1] - jobs->first_owner[s];
		int64_t every = (int64_t)p->accumulate * r;

		v->every[s] = ORR_NEVER;
		if (!p->stages[s].has_weight_gradient)
			continue;
		if (p->n_microbatches % every)
			return orr_fail(err, ORR_E_INPUT,
					"stage %d updates every %lld microbatches ([accumulate] %d "
					"on %d replica%s) and a round has %d: take a multiple "
					"([microbatches])",
					s, (long long)every, p->accumulate, r, r == 1 ? "" : "s",
					p->n_microbatches);
		v->every[s] = (int)every;
	}
	return 0;
}

int orr_versions_create(struct orr_versions **out, const struct orr_jobs *jobs,
			struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;
	struct orr_versions *v = calloc(1, sizeof(*v));
	size_t n = (size_t)p->n_stages;
	int code;

	if (!v)
		return orr_no_memory(err, "versions");
	orr_arrays_make(&v->all, v->every, n);
	orr_arrays_make(&v->all, v->peak, n);
	orr_arrays_make(&v->all, v->least, n);
	orr_arrays_make(&v->all, v->most, n);
	orr_arrays_make(&v->all, v->behind, jobs->n_jobs);
	if ((code = orr_arrays_check(&v->all, "versions", err)))
		goto out;
	v->n_stages = p->n_stages;
	v->n_microbatches = p->n_microbatches;
	v->n_passes = jobs->n_passes;
	if ((code = find_every(v, jobs, err)))
		goto out;
	find_behind(v, jobs);
	if ((code = find_peak(v, jobs, err)))
		goto out;
	*out = v;
	v = NULL;
out:
	orr_versions_destroy(v);
	return code;
}

void orr_versions_destroy(struct orr_versions *v)
{
	if (!v)
		return;
	orr_arrays_free(&v->all);
	free(v);
}
