#include "stages.h"

#include <stdio.h>

#include "orrery/jobs.h"
#include "orrery/pipeline.h"
#include "base/quantity.h"

static void add(struct orr_omissions *losses, const char *text)
{
	(void)snprintf(losses->text[losses->n++], ORR_OMISSION_TEXT, "%s", text);
}

/* An edge from every stage to the next, and no other. */
static bool is_chain(const struct orr_pipeline *p)
{
	bool chain = p->n_edges == p->n_stages - 1;

	for (int e = 0; e < p->n_edges && chain; e++)
		chain = p->edges[e].from == e && p->edges[e].to == e + 1;
	return chain;
}

static bool recomputes(const struct orr_jobs *jobs, int s)
{
	return jobs->recompute[s];
}

static bool is_ganged(const struct orr_jobs *jobs, int s)
{
	return orr_pipeline_n_at(jobs->pipeline, s) > 1;
}

static bool is_replicated(const struct orr_jobs *jobs, int s)
{
	int first = jobs->compute[orr_jobs_index(jobs, s, 0, ORR_PASS_F)];

	for (int b = 0; b < jobs->pipeline->n_microbatches; b++)
		for (int d = 0; d < jobs->n_passes; d++)
			if (jobs->compute[orr_jobs_index(jobs, s, b, (enum orr_pass)d)] != first)
				return true;
	return false;
}

/* No row implies its cap: F and the job that it waits for are on two workers. */
static bool is_capped(const struct orr_jobs *jobs, int s)
{
	int cap = orr_jobs_cap(jobs, s);

	for (int b = cap; cap && b < jobs->pipeline->n_microbatches; b++)
		if (jobs->compute[orr_jobs_index(jobs, s, b, ORR_PASS_F)] !=
		    jobs->compute[orr_jobs_index(jobs, s, b - cap, orr_jobs_last_pass(jobs, s))])
			return true;
	return false;
}

static int count_stages(const struct orr_jobs *jobs, bool (*is)(const struct orr_jobs *, int))
{
	int n = 0;

	for (int s = 0; s < jobs->pipeline->n_stages; s++)
		n += is(jobs, s);
	return n;
}

void orr_omissions_find(struct orr_omissions *losses, const struct orr_jobs *jobs)
{
	int recomputing = count_stages(jobs, recomputes),
	    apart = count_stages(jobs, orr_stages_are_apart);
	int replicated = count_stages(jobs, is_replicated), capped = count_stages(jobs, is_capped);
	int ganged = count_stages(jobs, is_ganged);

	losses->n = 0;
	if (!is_chain(jobs->pipeline))
		add(losses, "the graph of the stages, which PyTorch takes for a chain");
	if (recomputing)
		add(losses, orr_text("recomputation of %s", orr_count_text(recomputing, "stage")));
	if (jobs->park)
		add(losses, "that stashes are parked");
	if (jobs->async)
		add(losses, "that it never flushes, and its updates");
	if (replicated)
		add(losses, orr_text("that %s %s several workers, where PyTorch wants one",
				     orr_count_text(replicated, "stage"),
				     replicated == 1 ? "has" : "have"));
	if (ganged)
		add(losses, orr_text("%s on several workers at once, each in the row of the first",
				     orr_count_text(ganged, "stage")));
	if (apart)
		add(losses,
		    orr_text("who owns the parameters of %s", orr_count_text(apart, "stage")));
	if (capped)
		add(losses, orr_text("the cap of %s", orr_count_text(capped, "stage")));
	if (jobs->order == ORR_ORDER_GREEDY)
		add(losses, "that its order is greedy: it is fixed as it came out");
}
