#include "cross.h"

#include <limits.h>

struct asking {
	const struct orr_work *work;
	int s;
	struct orr_error *err;
};

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

static int check(void *user, const struct orr_handover *h)
{
	const struct asking *x = user;

	if (orr_work_rank(x->work, h->from) == orr_work_rank(x->work, h->to))
		return 0;
	return orr_fits(h->floats,
			h->tag == ORR_TRANSFER_ACTIVATION ? "a microbatch's activation of"
			: h->tag == ORR_TRANSFER_GRADIENT ? "a microbatch's gradient of"
							  : "a microbatch's stash of",
			x->s, "take more [microbatches] or a smaller batch", x->err);
}

static int check_parameters(const struct orr_work *work, int j, struct orr_error *err)
{
	int s = orr_jobs_at(work->jobs, j).s;

	if (!orr_jobs_has(work->jobs, j) || !orr_work_reads(work, j) ||
	    orr_work_rank(work, j) == work->rank_of[work->jobs->weights[j]])
		return 0;
	return orr_fits(orr_work_n_parameters(work, s), "a copy of the parameters of", s,
			"cut the graph into more stages", err);
}

int orr_fits_check(const struct orr_work *work, struct orr_error *err)
{
	struct asking x = {work, 0, err};
	int code = 0;

	for (int j = 0; j < work->jobs->n_jobs && !code; j++)
		code = check_parameters(work, j, err);
	for (x.s = 0; x.s < work->pipeline->n_stages; x.s++)
		for (int b = 0; b < work->pipeline->n_microbatches && !code; b++)
			code = orr_cross_visit(work, x.s, b, check, &x);
	return code;
}
