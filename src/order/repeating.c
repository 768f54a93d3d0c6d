#include "repeating.h"

#include "cyclic.h"

#define LEAST_REPEATS 4 /* in the whole step, and more: with fewer of them it hardly repeats */
#define MORE_TIMED 8    /* jobs are timed of repetitions, for each one of whole steps */
#define LEAST_TIMED \
	5000 /* times that all jobs of a repetition are: with fewer it finds nothing \
	      */

struct visiting {
	struct orr_cyclic *cyclic;
	struct orr_starts *starts;
	const struct orr_local_search *local;
};

static int found(void *user)
{
	const struct visiting *x = user;
	bool fits;

	orr_cyclic_number(x->cyclic, x->starts->n);
	x->cyclic->timed->n_timed +=
		x->cyclic->p->n_microbatches * x->cyclic->p->n_stages * ORR_N_PASSES;
	return x->starts->visit(x->starts->user, &fits);
}

static void watch(void *user)
{
	const struct visiting *x = user;

	x->local->watch(x->local->user);
}

int orr_repeating_visit(struct orr_starts *starts, const struct orr_local_search *local, int k,
			struct orr_error *err)
{
	const struct orr_timed *timed = local->timed;
	struct orr_local_search search = *local;
	struct visiting visiting = {.starts = starts, .local = local};
	int code;

	if (timed->jobs.most_at > 1 || starts->p->microbatches || orr_pipeline_gathers(starts->p) ||
	    starts->p->n_microbatches < LEAST_REPEATS * (k + 1) ||
	    MORE_TIMED * local->n_timed / LEAST_TIMED <
		    (int64_t)k * starts->p->n_stages * ORR_N_PASSES)
		return 0;
	if ((code = orr_cyclic_create(&visiting.cyclic, timed, k, err)) || !visiting.cyclic)
		return code;
	search.n_timed *= MORE_TIMED;
	search.stop *= MORE_TIMED;
	search.timed = visiting.cyclic->timed;
	search.cyclic = visiting.cyclic;
	search.best_ns = INT64_MAX;
	search.found = found;
	search.watch = local->watch ? watch : NULL;
	search.user = &visiting;
	code = orr_local_search(&search, err);
	orr_cyclic_destroy(visiting.cyclic);
	return code;
}
