#include "runtime/run/engine.h"

#include <stdlib.h>
#include <string.h>

/* Flow control by credits. A credit is a handle without data. The job that fetches parameters, or
 * makes a weight gradient for another rank, has it from when that block of memory is made until it
 * is dropped; so a worker has as many blocks as credits, and no message is asked for earlier. A
 * receive has no room for a second handle: an empty task takes the credit for it.
 *
 * Nothing can deadlock: there is one order of all jobs, with every gradient added right after the
 * last job that it waits for, and who waits for a credit comes in it after who holds that. */

static struct starpu_codelet in_order = {
	.where = STARPU_NOWHERE,
	.nbuffers = STARPU_VARIABLE_NBUFFERS,
	.name = "credit",
};

static int n_credits(const struct orr_run *run)
{
	return run->options.prefetch + 1;
}

/* ---- who takes which credit ---- */

struct places {
	int *of;      /* [n_jobs] in the order of all jobs */
	int *added;   /* [n_jobs] where the job's gradient can be added: after those of the
			 microbatches before it as well */
	int *n_taken; /* [n_workers] */
	int *holder;  /* [n_workers * n_credits] the last job that took the credit, or -1 */
};

static void find_places(const struct orr_run *run, const struct places *at, int *last)
{
	const struct orr_jobs *jobs = run->jobs;

	for (int i = 0; i < jobs->n_jobs; i++)
		at->of[run->sequence[i]] = i;
	for (int i = 0; i < jobs->first_owner[run->pipeline->n_stages]; i++)
		last[i] = 0;
	/* Jobs are numbered by microbatch first, as gradients are added. */
	for (int j = 0; j < jobs->n_jobs; j++) {
		struct orr_job job = orr_jobs_at(jobs, j);
		int i = jobs->first_owner[job.s];

		if (job.d != orr_jobs_last_pass(jobs, job.s))
			continue;
		while (jobs->owners[i] != jobs->weights[j])
			i++;
		last[i] = at->of[j] > last[i] ? at->of[j] : last[i];
		at->added[j] = last[i];
	}
}

/* In the order of all jobs. leaves: what the credit is for goes to another rank. */
static void take_credits(const struct orr_run *run, const struct places *at, int *of, bool leaves)
{
	const struct orr_jobs *jobs = run->jobs;
	int n = n_credits(run);

	for (int w = 0; w < run->pipeline->n_workers; w++)
		at->n_taken[w] = 0;
	for (int i = 0; i < run->pipeline->n_workers * n; i++)
		at->holder[i] = -1;
	for (int i = 0; i < jobs->n_jobs; i++) {
		int j = run->sequence[i], w = jobs->compute[j], credit, before;

		of[j] = -1;
		if (!orr_run_computes(run, j) || orr_run_has(run, jobs->weights[j]) ||
		    !orr_run_learns(run, j) ||
		    (leaves &&
		     orr_jobs_at(jobs, j).d != orr_jobs_last_pass(jobs, orr_jobs_at(jobs, j).s)))
			continue;
		credit = w * n + at->n_taken[w] % n;
		before = at->holder[credit];
		/* A gradient may have to wait for one that this job is needed for. */
		if (leaves && before >= 0 && at->added[before] >= at->of[j])
			continue;
		at->n_taken[w]++;
		at->holder[credit] = j;
		of[j] = credit;
	}
}

int orr_credits_plan(struct orr_run *run, struct orr_error *err)
{
	size_t n_jobs = (size_t)run->jobs->n_jobs, n_workers = (size_t)run->pipeline->n_workers;
	size_t n_owners = (size_t)run->jobs->first_owner[run->pipeline->n_stages];
	int *last = calloc(n_owners, sizeof(*last));
	struct places at = {
		.of = calloc(n_jobs, sizeof(int)),
		.added = calloc(n_jobs, sizeof(int)),
		.n_taken = calloc(n_workers, sizeof(int)),
		.holder = calloc(n_workers * (size_t)n_credits(run), sizeof(int)),
	};
	int code = 0;

	run->arriving.of = calloc(n_jobs, sizeof(int));
	run->leaving.of = calloc(n_jobs, sizeof(int));
	if (!last || !at.of || !at.added || !at.n_taken || !at.holder || !run->arriving.of ||
	    !run->leaving.of) {
		code = orr_fail(err, ORR_E_NOMEM, "run: no memory for the credits of %zu jobs",
				n_jobs);
		goto out;
	}
	find_places(run, &at, last);
	take_credits(run, &at, run->arriving.of, false);
	take_credits(run, &at, run->leaving.of, true);
out:
	free(last);
	free(at.of);
	free(at.added);
	free(at.n_taken);
	free(at.holder);
	return code;
}

/* ---- the handles ---- */

static int register_handles(struct orr_run *run, struct orr_credits *credits, struct orr_error *err)
{
	int n = run->pipeline->n_workers * n_credits(run);

	if (!(credits->handles = calloc((size_t)n, sizeof(*credits->handles))))
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for %d credits", n);
	for (int j = 0; j < run->jobs->n_jobs; j++) {
		int credit = credits->of[j];

		if (credit >= 0 && !credits->handles[credit])
			starpu_void_data_register(&credits->handles[credit]);
	}
	return 0;
}

static void unregister_handles(struct orr_run *run, struct orr_credits *credits)
{
	int n = run->pipeline->n_workers * n_credits(run);

	for (int i = 0; credits->handles && i < n; i++)
		if (credits->handles[i])
			starpu_data_unregister(credits->handles[i]);
	free(credits->handles);
}

int orr_credits_init(struct orr_run *run, struct orr_error *err)
{
	int code = register_handles(run, &run->arriving, err);

	return code ? code : register_handles(run, &run->leaving, err);
}

void orr_credits_fini(struct orr_run *run)
{
	unregister_handles(run, &run->arriving);
	unregister_handles(run, &run->leaving);
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
