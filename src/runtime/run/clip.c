#include "clip.h"

#include <math.h>
#include <string.h>

#include "orrery/graph.h"
#include "orrery/run.h"

/* As PyTorch's clip_grad_norm_ has it. */
#define EPSILON 1e-6

/* Each stage has its own together and in the order of their places; frozen ones lie behind them. */
static void find_tensors(struct orr_clip *clip, bool none)
{
	const struct orr_work *work = clip->work;
	const struct orr_graph *g = work->pipeline->graph;
	struct orr_parameter_place at;
	int n_spared = 0;

	for (int s = 0; s < work->pipeline->n_stages; s++) {
		for (int k = 0; k < g->n_operators; k++)
			for (int i = 0; !g->operators[k].frozen &&
					orr_program_parameter(work->programs[s], k, i, &at);
			     i++) {
				if (none ? at.averaged : !at.decays)
					clip->spared[n_spared++] =
						(struct orr_exempt){at.first, at.end, at.momentum};
				if (at.averaged || !orr_operator_counts(&g->operators[k], k))
					continue;
				clip->place[clip->n] = k * ORR_MOST_PARAMETER_TENSORS + i;
				clip->tensors[clip->n++] = (struct orr_extent){at.first, at.end};
			}
		clip->first_spared[s + 1] = n_spared;
		clip->first[s + 1] = clip->n;
	}
}

void orr_clip_init(struct orr_clip *clip, struct orr_data *data, double limit, bool none)
{
	const struct orr_work *work = data->work;
	struct orr_arrays *all = work->arrays;
	int most = work->pipeline->graph->n_operators * ORR_MOST_PARAMETER_TENSORS;
	size_t n_stages = (size_t)work->pipeline->n_stages;

	*clip = (struct orr_clip){.work = work, .limit = limit, .most = most};
	orr_arrays_make(all, clip->first_spared, n_stages + 1);
	orr_arrays_make(all, clip->spared, most);
	orr_arrays_make(all, clip->first, n_stages + 1);
	orr_arrays_make(all, clip->tensors, most);
	orr_arrays_make(all, clip->place, most);
	orr_arrays_make(all, clip->all, most);
	if (orr_work_fails(work))
		return;
	find_tensors(clip, none);
	if (limit > 0)
		clip->squares = orr_handles_pinned(&data->handles, (size_t)clip->n + 1,
						   sizeof(*clip->squares));
}

const struct orr_exempt *orr_clip_spared(const struct orr_clip *clip, int s, int *n)
{
	*n = clip->first_spared[s + 1] - clip->first_spared[s];
	return *n ? clip->spared + clip->first_spared[s] : NULL;
}

bool orr_clip_counts(const struct orr_clip *clip, int s)
{
	const struct orr_jobs *jobs = clip->work->jobs;

	return clip->first[s] < clip->first[s + 1] &&
	       orr_work_has(clip->work, jobs->owners[jobs->first_owner[s]]);
}

void orr_clip_count(const struct orr_clip *clip, int s, struct orr_codelet_arg *arg)
{
	int first = clip->first[s];

	arg->n_floats = orr_work_n_trained(clip->work, s);
	arg->tensors = clip->tensors + first;
	arg->n_tensors = clip->first[s + 1] - first;
	arg->squares = clip->squares + first;
}

int orr_clip_judge(struct orr_clip *clip, double *norm, double *scale, struct orr_error *err)
{
	double sum = 0;
	int code;

	memset(clip->all, 0, (size_t)clip->most * sizeof(*clip->all));
	for (int s = 0; s < clip->work->pipeline->n_stages; s++)
		for (int i = clip->first[s]; i < clip->first[s + 1] && orr_clip_counts(clip, s);
		     i++)
			clip->all[clip->place[i]] = clip->squares[i];
	/* zeros of all ranks but one are added to each */
	if ((code = orr_ranks_sum(clip->all, clip->most, err)))
		return code;
	for (int i = 0; i < clip->most; i++)
		sum += clip->all[i];
	*norm = sqrt(sum);
	*scale = fmin(1, clip->limit / (*norm + EPSILON));
	return 0;
}
