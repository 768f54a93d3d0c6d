#include "split.h"

#include <stdio.h>
#include <string.h>

#include "orrery/figures.h"
#include "orrery/graph.h"
#include "orrery/plan.h"
#include "orrery/quantity.h"

bool split_is_said(const struct orr_graph *g)
{
	for (int i = 0; i < g->n_operators; i++)
		if (g->operators[i].split > 1)
			return true;
	return false;
}

static void print_tries(const struct orr_split_plan *plan)
{
	char makespan[32], memory[32];

	printf("\n%-40s %7s %7s %12s %10s\n", "split", "groups", "stages", "step", "memory");
	for (int i = 0; i < plan->n_tries; i++) {
		const struct orr_split_try *t = &plan->tries[i];

		orr_duration_print(makespan, sizeof(makespan), t->makespan_ns,
				   plan->plan->graph->units);
		orr_size_print(memory, sizeof(memory), t->memory_bytes);
		printf("%-40s %7d %7d %12s %10s%s\n", t->splits, t->n_groups, t->n_stages, makespan,
		       memory, strcmp(t->splits, plan->splits) ? "" : "  <- shortest");
	}
}

void split_print(const struct orr_split_plan *plan)
{
	char makespan[32];

	if (plan->graph) {
		orr_duration_print(makespan, sizeof(makespan), plan->tried.figures->makespan_ns,
				   plan->graph->units);
		printf("\nSplit: %s. The workers above are %d group%s of the %d workers; on these "
		       "a "
		       "step takes %s.\n",
		       *plan->splits ? plan->splits : "as the file says", plan->n_groups,
		       plan->n_groups == 1 ? "" : "s", plan->pipeline->n_workers, makespan);
	} else {
		printf("\nSplit: none is shorter.\n");
	}
	if (plan->n_tries > 1)
		print_tries(plan);
}
