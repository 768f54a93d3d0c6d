#include "spared.h"

#include "orrery/graph.h"

/* Of all stages. Frozen ones lie behind the others. */
static void find(struct orr_spared *spared, const struct orr_work *work, bool none)
{
	const struct orr_pipeline *p = work->pipeline;
	struct orr_parameter_place at;
	int n = 0;

	for (int s = 0; s < p->n_stages; s++) {
		for (int k = 0; k < p->graph->n_operators; k++)
			for (int i = 0; !p->graph->operators[k].frozen &&
					orr_program_parameter(work->programs[s], k, i, &at);
			     i++)
				if (none ? at.averaged : !at.decays)
					spared->extents[n++] =
						(struct orr_exempt){at.first, at.end, at.momentum};
		spared->first[s + 1] = n;
	}
}

void orr_spared_init(struct orr_spared *spared, const struct orr_work *work, bool none)
{
	size_t most = (size_t)work->pipeline->graph->n_operators * ORR_MOST_PARAMETER_TENSORS;
	size_t n_stages = (size_t)work->pipeline->n_stages;

	orr_arrays_make(work->arrays, spared->first, n_stages + 1);
	orr_arrays_make(work->arrays, spared->extents, most);
	if (!orr_work_fails(work))
		find(spared, work, none);
}

const struct orr_exempt *orr_spared_of(const struct orr_spared *spared, int s, int *n)
{
	*n = spared->first[s + 1] - spared->first[s];
	return *n ? spared->extents + spared->first[s] : NULL;
}
