#include "clip.h"

#include <math.h>
#include <string.h>

#include "orrery/graph.h"
#include "orrery/run.h"

/* As PyTorch's clip_grad_norm_ has it. */
#define EPSILON 1e-6

/* In the order of the graph; each stage has its own together and in the order of their places. */
static void find_tensors(struct orr_clip *clip)
{
	const struct orr_work *work = clip->work;
	const struct orr_pipeline *p = work->pipeline;
	struct orr_parameter_place at;

	for (int s = 0; s < p->n_stages; s++) {
		int number = 0;

		for (int k = 0; k < p->graph->n_operators; k++) {
			const struct orr_operator *o = &p->graph->operators[k];

			for (int i = 0;
			     !o->frozen && orr_operator_counts(o, k) &&
			     orr_program_parameter(work->programs[p->stage_of[k]], k, i, &at);
			     i++) {
				if (at.averaged)
					continue;
				if (p->stage_of[k] == s) {
					clip->place[clip->n] = number;
					clip->tensors[clip->n++] =
						(struct orr_extent){at.first, at.end};
				}
				number++;
			}
		}
		clip->first[s + 1] = clip->n;
	}
}

void orr_clip_init(struct orr_clip *clip, struct orr_data *data, double limit)
{
	const struct orr_work *work = data->work;
	struct orr_arrays *all = work->arrays;
	size_t most = (size_t)work->pipeline->graph->n_operators * ORR_MOST_PARAMETER_TENSORS + 1;

	*clip = (struct orr_clip){.work = work, .limit = limit};
	if (!(limit > 0))
		return;
	orr_arrays_make(all, clip->first, (size_t)work->pipeline->n_stages + 1);
	orr_arrays_make(all, clip->tensors, most);
	orr_arrays_make(all, clip->place, most);
	orr_arrays_make(all, clip->all, most);
	if (orr_work_fails(work))
		return;
	find_tensors(clip);
	clip->squares =
		orr_handles_pinned(&data->handles, (size_t)clip->n + 1, sizeof(*clip->squares));
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

	memset(clip->all, 0, (size_t)clip->n * sizeof(*clip->all));
	for (int s = 0; s < clip->work->pipeline->n_stages; s++)
		for (int i = clip->first[s]; i < clip->first[s + 1] && orr_clip_counts(clip, s);
		     i++)
			clip->all[clip->place[i]] = clip->squares[i];
	/* zeros of all ranks but one are added to each */
	if ((code = orr_ranks_sum(clip->all, clip->n, err)))
		return code;
	for (int i = 0; i < clip->n; i++)
		sum += clip->all[i];
	*norm = sqrt(sum);
	*scale = fmin(1, clip->limit / (*norm + EPSILON));
	return 0;
}
