/* An order of all jobs that extends their dependencies, or the cycle that forbids one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/sort.h"
#include "deal.h"
#include "orrery/jobs.h"
#include "room.h"

/* What j waits for in the orders of its workers; with step 1, what waits for it. */
static int on_workers(const struct orr_jobs *jobs, int j, int step, int *list)
{
	int n = 0;

	if (jobs->order != ORR_ORDER_STRICT || !orr_jobs_has(jobs, j))
		return 0;
	for (int i = 0; i < orr_jobs_n_at(jobs, j); i++) {
		int k = orr_jobs_beside(jobs, j, i, step);

		if (k >= 0)
			list[n++] = k;
	}
	return n;
}

/* All that j waits for; with step 1, all that waits for it. */
static int all_around(const struct orr_jobs *jobs, int j, int step, int *around)
{
	int n = step < 0 ? orr_jobs_predecessors(jobs, j, around)
			 : orr_jobs_successors(jobs, j, around);

	return n + on_workers(jobs, j, step, around + n);
}

/* A predecessor of j that has not been placed; there is one for every job that is left over. */
static int find_waiting(const struct orr_jobs *jobs, int j, const int *waits, int *around)
{
	int n = all_around(jobs, j, -1, around), i = 0;

	while (i < n - 1 && waits[around[i]] <= 0)
		i++;
	return around[i];
}

/* What to change: a schedule from a file is called as the file is. */
static const char *what_orders(const char *schedule)
{
	const char *end = strrchr(schedule, '.');

	if (end && !strcmp(end, ".csv"))
		return "the order of its cells";
	if (strpbrk(schedule, "./"))
		return "\"order\" of its workers";
	return "their order (priority())";
}

/* Every job left over waits for another: walking back must come round. */
static int refuse_cycle(const struct orr_jobs *jobs, const int *waits, int *around,
			struct orr_error *err)
{
	struct orr_arrays all = {0};
	/* at which step it was met, from 1 */
	int *step = orr_arrays_add(&all, (size_t)jobs->n_jobs, sizeof(*step));
	int *walk = orr_arrays_add(&all, (size_t)jobs->n_jobs + 1, sizeof(*walk));
	int j = 0, n = 0, code = orr_arrays_check(&all, "jobs", err);
	char text[320] = "", hint[160] = "";
	struct orr_job closing;
	size_t used = 0;

	if (code)
		return code;
	while (!(waits[j] > 0))
		j++;
	while (!step[j]) {
		walk[n++] = j;
		step[j] = n;
		j = find_waiting(jobs, j, waits, around);
	}
	/* walk[step[j]-1 .. n-1] is the cycle, last job first; print it in running order */
	for (int i = n; i >= step[j]; i--) {
		struct orr_job job = orr_jobs_at(jobs, walk[i - 1]);

		if (used > sizeof(text) - 64) {
			used += (size_t)snprintf(text + used, sizeof(text) - used,
						 "... (%d more) -> ", i - step[j] + 1);
			break;
		}
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%d%c%d -> ", job.s,
					 orr_pass_letter(job.d), job.b);
	}
	closing = orr_jobs_at(jobs, walk[n - 1]);
	orr_arrays_free(&all);
	for (int s = 0; s < jobs->pipeline->n_stages && !*hint; s++)
		if (jobs->pipeline->stages[s].gather)
			(void)snprintf(hint, sizeof(hint),
				       "; stage %d gathers the minibatch (gather=), so nothing "
				       "before it may wait for a backward first: gpipe and auto "
				       "serve that",
				       s);
	return orr_fail(
		err, ORR_E_INPUT,
		"schedule %s deadlocks, each of these jobs waits for the one before it: %s%d%c%d; "
		"change %s%s%s",
		jobs->schedule, text, closing.s, orr_pass_letter(closing.d), closing.b,
		what_orders(jobs->schedule), jobs->cap ? " or raise in_flight()" : "", hint);
}

int orr_jobs_sequence(const struct orr_jobs *jobs, int *order, struct orr_error *err)
{
	size_t n_around = orr_jobs_most_around(jobs) + (size_t)jobs->most_at;
	struct orr_arrays all = {0};
	/* first in, first out: breadth first */
	int *queue = orr_arrays_add(&all, (size_t)jobs->n_jobs, sizeof(*queue));
	/* the number of jobs it still waits for; 0: in the order */
	int *waits = orr_arrays_add(&all, (size_t)jobs->n_jobs, sizeof(*waits));
	int *around = orr_arrays_add(&all, n_around, sizeof(*around));
	int n_ready = 0, code = orr_arrays_check(&all, "jobs", err);

	if (code)
		return code;
	for (int j = 0; j < jobs->n_jobs; j++) {
		waits[j] = all_around(jobs, j, -1, around);
		if (!waits[j])
			queue[n_ready++] = j;
	}
	for (int i = 0; i < n_ready; i++) {
		int n = all_around(jobs, queue[i], 1, around);

		for (int k = 0; k < n; k++)
			if (--waits[around[k]] == 0)
				queue[n_ready++] = around[k];
	}
	if (n_ready < jobs->n_jobs)
		code = refuse_cycle(jobs, waits, around, err);
	else if (order)
		memcpy(order, queue, (size_t)jobs->n_jobs * sizeof(*order));
	orr_arrays_free(&all);
	return code;
}

int orr_jobs_fix(struct orr_jobs *jobs, const int64_t *start_ns, struct orr_error *err)
{
	int *order = malloc((size_t)jobs->n_jobs * sizeof(*order)), code;

	if (!order)
		return orr_no_memory(err, "order of jobs");
	/* jobs of no length that start together stay in an order of their dependencies */
	if ((code = orr_jobs_sequence(jobs, order, err)))
		goto out;
	memcpy(jobs->priority, start_ns, (size_t)jobs->n_jobs * sizeof(*start_ns));
	if ((code = orr_rank(jobs->priority, order, jobs->n_jobs, err)) ||
	    (code = orr_jobs_sort(jobs, jobs->priority, false, err)))
		goto out;
	orr_room_destroy(jobs->room);
	jobs->room = NULL;
	jobs->order = ORR_ORDER_STRICT;
out:
	free(order);
	return code;
}
