#include "fits.h"

#include <limits.h>

static const char fewer_samples[] = "take more [microbatches] or a smaller batch";
static const char smaller_stages[] = "cut the graph into more stages";

int orr_fits(int64_t floats, const char *what, int s, const char *cure, struct orr_error *err)
{
	int64_t bytes = floats * (int64_t)sizeof(float);

	if (bytes <= INT_MAX)
		return 0;
	return orr_fail(err, ORR_E_UNSUPPORTED,
			"run: %s stage %d, %.2f GiB, goes to another rank, and MPI takes less than "
			"2 GiB in a message: %s",
			what, s, (double)bytes / (1 << 30), cure);
}

static int rank_of(const struct orr_work *work, int s, int b, enum orr_pass d)
{
	return work->rank_of[work->jobs->compute[orr_jobs_index(work->jobs, s, b, d)]];
}

/* What F of (s,b) leaves for the stages after it, and what these give back. */
static int check_edges(const struct orr_work *work, int s, int b, struct orr_error *err)
{
	const struct orr_stage *stage = &work->pipeline->stages[s];
	const struct orr_program *program = work->programs[s];
	int64_t n = orr_work_samples(work, b);
	int code = 0;

	for (int i = 0; i < stage->n_out && !code; i++) {
		int to = orr_stage_after(work->pipeline, s, i);

		if (rank_of(work, s, b, ORR_PASS_F) != rank_of(work, to, b, ORR_PASS_F))
			code = orr_fits(orr_program_out_floats(program, i, n),
					"a microbatch's activation of", s, fewer_samples, err);
		if (!code && orr_program_out_gradient_floats(program, i, n) &&
		    rank_of(work, s, b, orr_jobs_first_backward(work->jobs, s)) !=
			    rank_of(work, to, b, ORR_PASS_B))
			code = orr_fits(orr_program_out_gradient_floats(program, i, n),
					"a microbatch's gradient of", s, fewer_samples, err);
	}
	return code;
}

/* What F keeps for the backward, and B for W. */
static int check_stash(const struct orr_work *work, int s, int b, struct orr_error *err)
{
	const struct orr_program *program = work->programs[s];
	enum orr_pass first = orr_jobs_first_backward(work->jobs, s),
		      last = orr_jobs_last_pass(work->jobs, s);
	int64_t n = orr_work_samples(work, b);
	int code = 0;

	if (!orr_work_has_backward(work, s))
		return 0;
	if (rank_of(work, s, b, ORR_PASS_F) != rank_of(work, s, b, first))
		code = orr_fits(work->jobs->recompute[s]
					? orr_program_input_floats(program, n)
					: orr_program_stash_floats(program, n, false),
				"a microbatch's stash of", s, fewer_samples, err);
	if (!code && rank_of(work, s, b, first) != rank_of(work, s, b, last))
		code = orr_fits(orr_program_left_floats(program, n, true),
				"a microbatch's stash of", s, fewer_samples, err);
	return code;
}

static int check_parameters(const struct orr_work *work, int j, struct orr_error *err)
{
	const struct orr_jobs *jobs = work->jobs;
	int s = orr_jobs_at(jobs, j).s;

	if (!orr_jobs_has(jobs, j) || !orr_work_reads(work, j) ||
	    work->rank_of[jobs->compute[j]] == work->rank_of[jobs->weights[j]])
		return 0;
	return orr_fits(orr_work_n_parameters(work, s), "a copy of the parameters of", s,
			smaller_stages, err);
}

int orr_fits_check(const struct orr_work *work, struct orr_error *err)
{
	int code = 0;

	for (int j = 0; j < work->jobs->n_jobs && !code; j++)
		code = check_parameters(work, j, err);
	for (int s = 0; s < work->pipeline->n_stages; s++)
		for (int b = 0; b < work->pipeline->n_microbatches && !code; b++)
			if (!(code = check_edges(work, s, b, err)))
				code = check_stash(work, s, b, err);
	return code;
}
