#include "clip.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/graph.h"
#include "orrery/ranks.h"

/* As PyTorch's clip_grad_norm_ has it. */
#define EPSILON 1e-6

/* The tensors of one operator; an operator has two. */
#define MOST_TENSORS 2

static int tensors_of(const struct orr_work *work, int k, struct orr_extent tensors[MOST_TENSORS])
{
	const struct orr_operator *o = &work->pipeline->graph->operators[k];
	int64_t at = orr_program_first_parameter(work->programs[work->pipeline->stage_of[k]], k);
	int64_t bias = at + o->n_parameters - o->width;

	if (at < 0 || o->frozen || (o->tied >= 0 && o->tied != k))
		return 0;
	tensors[0] = (struct orr_extent){at, bias};
	tensors[1] = (struct orr_extent){bias, at + o->n_parameters};
	return 2;
}

/* In the order of the graph, each stage has its own together and in the order of their places. */
static void find_tensors(struct orr_clip *clip)
{
	const struct orr_work *work = clip->work;
	const struct orr_graph *g = work->pipeline->graph;
	struct orr_extent tensors[MOST_TENSORS];
	int *place = clip->place, n = 0;

	for (int s = 0; s < work->pipeline->n_stages; s++) {
		int before = 0;

		clip->first[s] = n;
		for (int k = 0; k < g->n_operators; k++) {
			int m = tensors_of(work, k, tensors);

			for (int i = 0; i < m && work->pipeline->stage_of[k] == s; i++) {
				place[n] = before + i;
				clip->tensors[n++] = tensors[i];
			}
			before += m;
		}
	}
	clip->first[work->pipeline->n_stages] = clip->n = n;
}

static int make_tasks(struct orr_clip *clip, const struct orr_slots *slots, struct orr_error *err)
{
	const struct orr_work *work = clip->work;
	int n_stages = work->pipeline->n_stages;

	clip->tasks = calloc((size_t)work->window * (size_t)n_stages, sizeof(*clip->tasks));
	if (!clip->tasks)
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for the norm of %d stages",
				n_stages);
	for (int i = 0; i < work->window * n_stages; i++) {
		int s = i % n_stages, first = clip->first[s];
		const struct orr_owned *o = &slots->data->owned[work->jobs->first_owner[s]];
		struct orr_task *t = &clip->tasks[i];

		if (!orr_clip_counts(clip, s))
			continue;
		orr_task_init(t, slots->submitter, &slots->slots[i / n_stages].flight, o->w);
		t->arg.n_floats = orr_work_n_trained(work, s);
		t->arg.tensors = clip->tensors + first;
		t->arg.n_tensors = clip->first[s + 1] - first;
		t->arg.squares = clip->squares + first;
	}
	return 0;
}

int orr_clip_init(struct orr_clip *clip, const struct orr_slots *slots, double limit,
		  struct orr_error *err)
{
	const struct orr_work *work = slots->data->work;
	size_t n_stages = (size_t)work->pipeline->n_stages,
	       most = (size_t)work->pipeline->graph->n_operators * MOST_TENSORS;

	*clip = (struct orr_clip){.work = work, .limit = limit};
	if (!(limit > 0))
		return 0;
	clip->tensors = calloc(most, sizeof(*clip->tensors));
	clip->place = calloc(most, sizeof(*clip->place));
	clip->all = calloc(most, sizeof(*clip->all));
	clip->first = calloc(n_stages + 1, sizeof(*clip->first));
	if (!clip->tensors || !clip->place || !clip->all || !clip->first ||
	    starpu_malloc_flags((void **)&clip->squares, most * sizeof(*clip->squares),
				STARPU_MALLOC_PINNED))
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for the norm of %zu tensors",
				most);
	find_tensors(clip);
	return make_tasks(clip, slots, err);
}

void orr_clip_fini(struct orr_clip *clip)
{
	if (clip->squares)
		starpu_free_flags(clip->squares,
				  (size_t)clip->work->pipeline->graph->n_operators * MOST_TENSORS *
					  sizeof(*clip->squares),
				  STARPU_MALLOC_PINNED);
	free(clip->tensors);
	free(clip->place);
	free(clip->all);
	free(clip->first);
	free(clip->tasks);
}

bool orr_clip_counts(const struct orr_clip *clip, int s)
{
	const struct orr_jobs *jobs = clip->work->jobs;

	return clip->first[s] < clip->first[s + 1] &&
	       orr_work_has(clip->work, jobs->owners[jobs->first_owner[s]]);
}

struct orr_task *orr_clip_task(const struct orr_clip *clip, const struct orr_slot *slot, int s)
{
	return &clip->tasks[slot->number * clip->work->pipeline->n_stages + s];
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
