#include "credits.h"

#include <stdlib.h>
#include <string.h>

/* Flow control by credits. A credit is a handle without data. The job that fetches parameters, or
 * makes a weight gradient for another rank, has it from when that block of memory is made until it
 * is dropped; so a worker has as many blocks as credits, and no message is asked for earlier. A
 * receive has no place for a second handle: an empty task takes the credit for it.
 *
 * Nothing can deadlock: there is one order of all jobs, with every gradient added right after the
 * last job that it waits for, and a job that waits for a credit comes in it after the job that
 * holds it. */

static struct starpu_codelet in_order = {
	.where = STARPU_NOWHERE,
	.nbuffers = STARPU_VARIABLE_NBUFFERS,
	.name = "credit",
};

/* ---- which job takes which credit ---- */

struct places {
	int *sequence; /* [n_jobs] all jobs in their order */
	int *of;       /* [n_jobs] the job's place in it */
	int *added;    /* [n_jobs] the place after which the job's gradient can be added: after
			  those of the microbatches before it as well */
	int *last;     /* [owners] the largest of those so far */
	int *n_taken;  /* [n_workers] */
	int *holder;   /* [n_workers * n] the last job that took the credit, or -1 */
};

static int places_init(struct places *at, const struct orr_work *work, int n_handles,
		       struct orr_error *err)
{
	size_t n_jobs = (size_t)work->jobs->n_jobs;

	at->sequence = calloc(n_jobs, sizeof(int));
	at->of = calloc(n_jobs, sizeof(int));
	at->added = calloc(n_jobs, sizeof(int));
	at->last = calloc((size_t)work->jobs->first_owner[work->pipeline->n_stages], sizeof(int));
	at->n_taken = calloc((size_t)work->pipeline->n_workers, sizeof(int));
	at->holder = calloc((size_t)n_handles, sizeof(int));
	if (!at->sequence || !at->of || !at->added || !at->last || !at->n_taken || !at->holder)
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for the credits of %zu jobs",
				n_jobs);
	return orr_jobs_sequence(work->jobs, at->sequence, err);
}

static void places_fini(struct places *at)
{
	free(at->sequence);
	free(at->of);
	free(at->added);
	free(at->last);
	free(at->n_taken);
	free(at->holder);
}

static void find_places(const struct orr_jobs *jobs, const struct places *at)
{
	for (int i = 0; i < jobs->n_jobs; i++)
		at->of[at->sequence[i]] = i;
	/* Jobs are numbered by microbatch first, as gradients are added. */
	for (int j = 0; j < jobs->n_jobs; j++) {
		struct orr_job job = orr_jobs_at(jobs, j);
		int i = jobs->first_owner[job.s];

		if (!orr_jobs_makes_gradient(jobs, j))
			continue;
		while (jobs->owners[i] != jobs->weights[j])
			i++;
		at->last[i] = at->of[j] > at->last[i] ? at->of[j] : at->last[i];
		at->added[j] = at->last[i];
	}
}

/* In the order of all jobs. */
static void take_credits(const struct orr_credits *credits, const struct orr_work *work,
			 const struct places *at, bool leaves)
{
	const struct orr_jobs *jobs = work->jobs;
	int n = credits->n;

	for (int i = 0; i < credits->n_handles; i++)
		at->holder[i] = -1;
	for (int i = 0; i < jobs->n_jobs; i++) {
		int j = at->sequence[i], w = jobs->compute[j], credit, before;

		credits->of[j] = -1;
		if (!orr_jobs_has(jobs, j) || !orr_work_computes(work, j) ||
		    orr_work_has(work, jobs->weights[j]) ||
		    !(leaves ? orr_work_makes_gradient(work, j) : orr_work_reads(work, j)))
			continue;
		credit = w * n + at->n_taken[w] % n;
		before = at->holder[credit];
		/* A gradient may have to wait for one that this job is needed for. */
		if (leaves && before >= 0 && at->added[before] >= at->of[j])
			continue;
		at->n_taken[w]++;
		at->holder[credit] = j;
		credits->of[j] = credit;
	}
}

/* ---- the handles ---- */

int orr_credits_init(struct orr_credits *credits, const struct orr_work *work, int prefetch,
		     bool leaves, struct orr_error *err)
{
	struct places at = {0};
	int n_jobs = work->jobs->n_jobs, code;

	credits->n = prefetch + 1;
	credits->n_handles = work->pipeline->n_workers * credits->n;
	credits->handles = calloc((size_t)credits->n_handles, sizeof(*credits->handles));
	credits->of = calloc((size_t)n_jobs, sizeof(*credits->of));
	if (!credits->handles || !credits->of)
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for %d credits",
				credits->n_handles);
	if (!(code = places_init(&at, work, credits->n_handles, err))) {
		find_places(work->jobs, &at);
		take_credits(credits, work, &at, leaves);
	}
	places_fini(&at);
	for (int j = 0; j < n_jobs && !code; j++)
		if (credits->of[j] >= 0 && !credits->handles[credits->of[j]])
			starpu_void_data_register(&credits->handles[credits->of[j]]);
	return code;
}

void orr_credits_fini(struct orr_credits *credits)
{
	for (int i = 0; credits->handles && i < credits->n_handles; i++)
		if (credits->handles[i])
			starpu_data_unregister(credits->handles[i]);
	free(credits->handles);
	free(credits->of);
}

starpu_data_handle_t orr_credit_of(const struct orr_credits *credits, int j)
{
	return credits->of[j] < 0 ? NULL : credits->handles[credits->of[j]];
}

int orr_credit_take(const struct orr_credits *credits, int j, starpu_data_handle_t block,
		    enum starpu_data_access_mode mode, struct orr_error *err)
{
	starpu_data_handle_t credit = orr_credit_of(credits, j);
	struct starpu_task *task;
	int code;

	if (!credit)
		return 0;
	task = starpu_task_create();
	task->cl = &in_order;
	task->nbuffers = 2;
	task->handles[0] = block;
	task->modes[0] = mode;
	task->handles[1] = credit;
	task->modes[1] = STARPU_RW;
	if (!(code = starpu_task_submit(task)))
		return 0;
	task->destroy = 0;
	starpu_task_destroy(task);
	return orr_fail(err, ORR_E_RUNTIME, "run: StarPU refuses an empty task: %s",
			strerror(-code));
}
