#include "footprint.h"

#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/max.h"
#include "orrery/jobs.h"
#include "pipeline/parameter_cost.h"
#include "orrery/timeline.h"
#include "schedule/versions.h"

/* ---- data that lives as long as a microbatch ---- */

/* From then on a rank holds so much more. */
struct change {
	int rank;
	int64_t time_ns, bytes;
};

struct changes {
	struct change *at;
	size_t n;
};

static void hold(struct changes *changes, int rank, int64_t from_ns, int64_t to_ns, int64_t bytes)
{
	if (!bytes || from_ns >= to_ns)
		return;
	changes->at[changes->n++] = (struct change){rank, from_ns, bytes};
	changes->at[changes->n++] = (struct change){rank, to_ns, -bytes};
}

/* A release and an allocation at one instant release first. */
static int compare(const void *a, const void *b)
{
	const struct change *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* What job `from` makes and job `to` reads: with the one while it runs, then, with the other until
 * that has ended; on one rank there is one of it. Of jobs on several workers, bytes on each. */
static void pass_on(struct changes *changes, const struct orr_timeline *t, const int *rank_of,
		    int from, int to, int64_t bytes)
{
	const struct orr_jobs *jobs = t->jobs;

	for (int i = 0; i < orr_jobs_n_at(jobs, to); i++) {
		int there = rank_of[orr_jobs_worker(jobs, to, i)],
		    here = rank_of[orr_jobs_worker(jobs, from, i % orr_jobs_n_at(jobs, from))];

		if (here != there)
			hold(changes, here, t->start_ns[from], t->end_ns[from], bytes);
		hold(changes, there, here == there ? t->start_ns[from] : t->end_ns[from],
		     t->end_ns[to], bytes);
	}
}

static void pass_stash(struct changes *changes, const struct orr_timeline *t, const int *rank_of,
		       int j)
{
	const struct orr_jobs *jobs = t->jobs;
	struct orr_job job = orr_jobs_at(jobs, j);
	int64_t bytes = orr_jobs_stash_bytes(jobs, j), inputs;
	int next = orr_jobs_next_pass(jobs, j);

	if (next >= 0)
		pass_on(changes, t, rank_of, j, next, bytes);
	/* the backward makes what is recomputed; what F kept goes at its end */
	inputs = orr_jobs_stash_bytes(jobs, j - j % jobs->n_passes);
	if (next < 0 && job.d != ORR_PASS_F && job.d == orr_jobs_first_backward(jobs, job.s))
		for (int i = 0; i < orr_jobs_n_at(jobs, j); i++)
			hold(changes, rank_of[orr_jobs_worker(jobs, j, i)], t->start_ns[j],
			     t->end_ns[j], bytes > inputs ? bytes - inputs : 0);
}

/* F of (s,b), or where s gathers the one of all microbatches that ends last. */
static int last_reader(const struct orr_timeline *t, int s, int b)
{
	const struct orr_pipeline *p = t->jobs->pipeline;
	int last = orr_jobs_index(t->jobs, s, b, ORR_PASS_F);

	for (b = 0; p->stages[s].gather && b < p->n_microbatches; b++) {
		int j = orr_jobs_index(t->jobs, s, b, ORR_PASS_F);

		last = t->end_ns[j] > t->end_ns[last] ? j : last;
	}
	return last;
}

/* Does the rank of stage s, which reads an output of microbatch b, keep it for another reader? */
static bool stays(const struct orr_timeline *t, const int *rank_of, int number, int s, int b)
{
	const struct orr_pipeline *p = t->jobs->pipeline;
	const struct orr_fanout *x = &p->outputs[number - p->n_edges];
	int j = last_reader(t, s, b);

	for (int i = 0; i < x->n_readers; i++) {
		int k = last_reader(t, x->readers[i], b);

		if (rank_of[t->jobs->compute[k]] == rank_of[t->jobs->compute[j]] &&
		    (t->end_ns[k] != t->end_ns[j] ? t->end_ns[k] > t->end_ns[j] : k > j))
			return true;
	}
	return false;
}

static void pass_edges(struct changes *changes, const struct orr_timeline *t, const int *rank_of,
		       int j)
{
	const struct orr_jobs *jobs = t->jobs;
	const struct orr_pipeline *p = jobs->pipeline;
	struct orr_job job = orr_jobs_at(jobs, j);
	const struct orr_stage *stage = &p->stages[job.s];

	for (int i = 0; i < stage->n_out && job.d == ORR_PASS_F; i++) {
		int after = orr_stage_after(p, job.s, i);

		int64_t bytes = orr_pipeline_edge_bytes(p, stage->out[i], job.b, false);

		for (int k = 0; k < stage->n_sent; k++)
			if (orr_pipeline_reads(p, after, stage->sent[k]) &&
			    stays(t, rank_of, stage->sent[k], after, job.b))
				bytes -= orr_pipeline_output_bytes(p, stage->sent[k], job.b);
		pass_on(changes, t, rank_of, j, last_reader(t, after, job.b), bytes);
	}
	for (int i = 0; i < stage->n_in && job.d == ORR_PASS_B; i++) {
		int before = orr_stage_before(p, job.s, i);

		if (!p->edges[stage->in[i]].detached)
			pass_on(changes, t, rank_of, j,
				orr_jobs_index(jobs, before, job.b,
					       orr_jobs_first_backward(jobs, before)),
				orr_pipeline_edge_bytes(p, stage->in[i], job.b, true));
	}
}

static int add_passing(struct orr_footprint *footprint, const struct orr_timeline *t,
		       const int *rank_of, struct orr_error *err)
{
	const struct orr_jobs *jobs = t->jobs;
	const struct orr_pipeline *p = jobs->pipeline;
	size_t most = 4 * (size_t)jobs->most_at *
			      ((size_t)jobs->n_jobs +
			       2 * (size_t)p->n_edges * (size_t)p->n_microbatches) +
		      1;
	struct changes changes = {.at = malloc(most * sizeof(*changes.at))};
	int64_t held = 0;

	if (!changes.at)
		return orr_no_memory(err, "footprint");
	for (int j = 0; j < jobs->n_jobs; j++) {
		if (!orr_jobs_has(jobs, j))
			continue;
		pass_stash(&changes, t, rank_of, j);
		pass_edges(&changes, t, rank_of, j);
	}
	qsort(changes.at, changes.n, sizeof(*changes.at), compare);
	for (size_t i = 0; i < changes.n; i++) {
		struct orr_footprint *f = &footprint[changes.at[i].rank];

		held += changes.at[i].bytes; /* zero again after a rank's last */
		f->passing = larger(f->passing, held);
	}
	free(changes.at);
	return 0;
}

/* ---- data of other owners ---- */

/* Without ranks a worker counts as one. */
static int rank_at(const int *rank_of, int w)
{
	return rank_of ? rank_of[w] : w;
}

/* What worker w has of another rank's parameters for job j. last: it makes their gradient, too. */
static int64_t foreign_bytes(const struct orr_jobs *jobs, const int *rank_of, int w, int j,
			     bool last)
{
	struct orr_job job = orr_jobs_at(jobs, j);

	if (jobs->compute[j] != w ||
	    rank_at(rank_of, jobs->weights[j]) == rank_at(rank_of, jobs->compute[j]) ||
	    (last && !orr_jobs_makes_gradient(jobs, j)))
		return 0;
	return last ? orr_stage_trained_bytes(&jobs->pipeline->stages[job.s])
		    : jobs->pipeline->stages[job.s].parameter_bytes;
}

/* The most that n jobs of worker w have at once, one after the other among those that have
 * anything. */
static int64_t most_foreign(const struct orr_jobs *jobs, const int *rank_of, int w, bool last,
			    int n)
{
	int behind = jobs->first[w], n_held = 0;
	int64_t held = 0, most = 0;

	for (int i = jobs->first[w]; i < jobs->first[w + 1]; i++) {
		int64_t bytes = foreign_bytes(jobs, rank_of, w, jobs->by_worker[i], last);

		held += bytes;
		n_held += bytes > 0;
		for (; n_held > n; behind++) {
			bytes = foreign_bytes(jobs, rank_of, w, jobs->by_worker[behind], last);
			held -= bytes;
			n_held -= bytes > 0;
		}
		most = held > most ? held : most;
	}
	return most;
}

/* Gradients that come from other ranks, and those that are made here by more workers than one. */
static void add_incoming(struct orr_footprint *footprint, int64_t *from_others, int64_t *own,
			 const struct orr_jobs *jobs, const int *rank_of, int n_ranks)
{
	const struct orr_pipeline *p = jobs->pipeline;

	for (int j = 0; j < jobs->n_jobs; j++) {
		struct orr_job job = orr_jobs_at(jobs, j);
		int64_t bytes = orr_stage_trained_bytes(&p->stages[job.s]);
		int by = jobs->compute[j], of = jobs->weights[j], k = rank_at(rank_of, of);

		if (!orr_jobs_makes_gradient(jobs, j) || by == of)
			continue;
		if (rank_at(rank_of, by) != k)
			from_others[k] = larger(from_others[k], bytes);
		own[k] = larger(own[k], bytes); /* then the owner's own are apart as well */
	}
	for (int k = 0; k < n_ranks; k++)
		footprint[k].partial += 2 * from_others[k] + own[k];
}

/* ---- data that a rank owns ---- */

/* A set of parameters: of a stage, or tied ones. */
static bool is_spread(const struct orr_jobs *jobs, const int *rank_of, int set)
{
	if (jobs->pipeline->alike > 1)
		return true;
	for (int i = jobs->first_owner[set] + 1; i < jobs->first_owner[set + 1]; i++)
		if (rank_at(rank_of, jobs->owners[i]) != rank_at(rank_of, jobs->owners[i - 1]))
			return true;
	return false;
}

/* What worker w, the i-th owner of a set, keeps the optimizer's state of. Tied parameters are
 * divided among the replicas of each stage that has them. */
static int64_t state_bytes(const struct orr_jobs *jobs, int set, int i, int w, int64_t trained)
{
	const struct orr_pipeline *p = jobs->pipeline;
	const int *first = jobs->first_owner;
	const struct orr_tied *tied = set < p->n_stages ? NULL : &p->tied[set - p->n_stages];
	int64_t most = 0;

	if (!tied)
		return orr_parameters_part(&p->numerics, trained, orr_jobs_ring_size(jobs, set),
					   i * p->alike);
	for (int k = 0; k < tied->n_stages; k++)
		for (int at = first[tied->stages[k]]; at < first[tied->stages[k] + 1]; at++) {
			int r = orr_jobs_ring_size(jobs, tied->stages[k]);
			int64_t part = orr_parameters_part(
				&p->numerics, trained, r, (at - first[tied->stages[k]]) * p->alike);

			most = jobs->owners[at] == w && part > most ? part : most;
		}
	return most;
}

static void add_owned(struct orr_footprint *footprint, const struct orr_jobs *jobs,
		      const int *rank_of)
{
	const struct orr_pipeline *p = jobs->pipeline;

	for (int set = 0; set < orr_pipeline_n_sets(p); set++) {
		int64_t bytes = orr_set_share(p, set, orr_set_bytes(p, set));
		int64_t trained = orr_set_share(p, set, orr_set_trained_bytes(p, set));
		int n_at = orr_set_n_at(p, set);
		bool spread = is_spread(jobs, rank_of, set);
		/* what is tied is not trained where there are versions */
		int n_versions =
			jobs->versions && set < p->n_stages ? jobs->versions->peak[set] : 1;

		for (int i = jobs->first_owner[set] * n_at; i < jobs->first_owner[set + 1] * n_at;
		     i++) {
			int w = orr_set_at(p, set, jobs->owners[i / n_at], i % n_at);
			struct orr_footprint *f = &footprint[rank_at(rank_of, w)];
			int64_t part = state_bytes(jobs, set, i / n_at - jobs->first_owner[set],
						   jobs->owners[i / n_at], trained);

			f->owned += orr_parameters_owned(&p->numerics, bytes, trained, part);
			f->state += orr_parameters_owned(&p->numerics, 0, 0, part);
			f->ring += spread ? trained : 0;
			f->versions += (n_versions - 1) * bytes;
		}
	}
}

/* Every worker rounds the parameters that it computes with, once for all passes. computed: [sets],
 * the last worker found with it. */
static void add_rounded(struct orr_footprint *footprint, int *computed, const struct orr_jobs *jobs,
			const int *rank_of)
{
	const struct orr_pipeline *p = jobs->pipeline;

	for (int set = 0; set < orr_pipeline_n_sets(p); set++)
		computed[set] = -1;
	for (int w = 0; w < p->n_workers; w++)
		for (int i = jobs->first[w]; i < jobs->first[w + 1]; i++) {
			int s = orr_jobs_at(jobs, jobs->by_worker[i]).s;

			if (computed[s] == w)
				continue;
			for (int set = s; set >= 0; set = orr_set_after(p, s, set)) {
				if (computed[set] == w)
					continue;
				computed[set] = w;
				footprint[rank_at(rank_of, w)].rounded += orr_parameters_rounded(
					&p->numerics, orr_set_share(p, set, orr_set_bytes(p, set)));
			}
		}
}

/* ---- all of it ---- */

static void add_up(struct orr_footprint *f)
{
	f->all = f->owned + f->rounded + f->fetched + f->partial + f->ring + f->versions +
		 f->passing;
}

int orr_footprint_keep(struct orr_footprint *footprint, const struct orr_jobs *jobs,
		       const int *rank_of, int n_ranks, struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;
	struct orr_arrays all = {0};
	int64_t *incoming = orr_arrays_add(&all, 2 * (size_t)n_ranks, sizeof(*incoming));
	int *computed = orr_arrays_add(&all, (size_t)orr_pipeline_n_sets(p), sizeof(*computed)),
	    code = orr_arrays_check(&all, "footprint", err);

	if (code)
		return code;
	memset(footprint, 0, (size_t)n_ranks * sizeof(*footprint));
	add_owned(footprint, jobs, rank_of);
	add_rounded(footprint, computed, jobs, rank_of);
	for (int w = 0; w < p->n_workers; w++) {
		struct orr_footprint *f = &footprint[rank_at(rank_of, w)];

		f->fetched += most_foreign(jobs, rank_of, w, false, p->prefetch + 1);
		f->partial += most_foreign(jobs, rank_of, w, true, p->prefetch + 1);
	}
	add_incoming(footprint, incoming, incoming + n_ranks, jobs, rank_of, n_ranks);
	for (int k = 0; k < n_ranks; k++)
		add_up(&footprint[k]);
	orr_arrays_free(&all);
	return 0;
}

int orr_footprint_predict(struct orr_footprint *footprint, const struct orr_timeline *t,
			  const int *rank_of, int n_ranks, struct orr_error *err)
{
	int code = orr_footprint_keep(footprint, t->jobs, rank_of, n_ranks, err);

	if (code || (code = add_passing(footprint, t, rank_of, err)))
		return code;
	for (int k = 0; k < n_ranks; k++)
		add_up(&footprint[k]);
	return 0;
}
