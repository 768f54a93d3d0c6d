#include "untested.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "base/json.h"
#include "base/quantity.h"
#include "orrery/machine.h"

/* Which sizes there are; an activation within a stage is one, though it is not sent. */
struct sizes {
	bool stash, parameters, activations;
};

static struct sizes find_sizes(const struct orr_pipeline *p)
{
	struct sizes sizes = {false, false, false};

	for (int s = 0; s < p->n_stages; s++) {
		sizes.stash = sizes.stash || p->stages[s].stash_bytes;
		sizes.parameters = sizes.parameters || p->stages[s].parameter_bytes;
	}
	for (int e = 0; e < p->n_edges; e++)
		sizes.activations = sizes.activations || p->edges[e].bytes;
	for (int i = 0; p->graph && i < p->graph->n_operators; i++)
		sizes.activations =
			sizes.activations || p->graph->operators[i].activation_bytes > 0;
	return sizes;
}

/* Does an activation go from one worker to another? */
static bool sends_activations(const struct orr_jobs *jobs)
{
	const struct orr_pipeline *p = jobs->pipeline;

	for (int e = 0; e < p->n_edges; e++)
		for (int b = 0; b < p->n_microbatches; b++)
			if (jobs->compute[orr_jobs_index(jobs, p->edges[e].from, b, ORR_PASS_F)] !=
			    jobs->compute[orr_jobs_index(jobs, p->edges[e].to, b, ORR_PASS_F)])
				return true;
	return false;
}

/* What goes between workers for the sake of parameters; NULL: nothing. */
static const char *name_collective(const struct orr_jobs *jobs)
{
	for (int set = 0; set < orr_pipeline_n_sets(jobs->pipeline); set++)
		if (orr_jobs_ring_size(jobs, set) > 1)
			return "all-reduce";
	for (int j = 0; j < jobs->n_jobs; j++)
		if (orr_jobs_has(jobs, j) && jobs->weights[j] != jobs->compute[j])
			return "all-gather";
	return NULL;
}

/* Has it operators of which nothing is known? */
static bool leaves_out_operators(const struct orr_pipeline *p)
{
	for (int i = 0; p->graph && i < p->graph->n_operators; i++)
		if (!orr_operator_is_counted(&p->graph->operators[i]))
			return true;
	return false;
}

static void add(struct orr_untested *u, const char *what, const char *why)
{
	u->list[u->n].what = what;
	u->list[u->n++].why = why;
}

struct orr_untested orr_untested_find(const struct orr_jobs *jobs)
{
	const struct orr_machine *machine = &jobs->pipeline->machine;
	struct sizes sizes = find_sizes(jobs->pipeline);
	bool any = sizes.stash || sizes.parameters || sizes.activations;
	bool limited = machine->bandwidth_bytes_per_s > 0, sends = sends_activations(jobs);
	const char *collective = name_collective(jobs), *none = "no operator has a size";
	struct orr_untested u = {0};

	if (leaves_out_operators(jobs->pipeline))
		add(&u, "some operators",
		    "they are not known and count as 0 FLOP: show names them");
	if (machine->memory_bytes && !sizes.stash && !sizes.parameters)
		add(&u, "memory", any ? "no operator has a stash or parameters" : none);
	else if (machine->memory_bytes && !sizes.stash)
		add(&u, "stashes in memory", "no operator has a stash");
	else if (machine->memory_bytes && !sizes.parameters)
		add(&u, "parameters in memory", "no operator has parameters");
	if (limited && !any && (sends || collective))
		add(&u, "links", none);
	else if (limited && sends && !sizes.activations)
		add(&u, "activations on links", "no operator has an activation");
	if (collective && (any || !limited) && (!sizes.parameters || !limited))
		add(&u, collective,
		    !any                  ? none
		    : !sizes.parameters   ? "no operator has parameters"
		    : machine->latency_ns ? "links have a latency alone, no bandwidth"
					  : "links are free");
	return u;
}

const char *orr_untested_text(const struct orr_untested *u)
{
	const char *text = "";

	for (int i = 0; i < u->n; i++) {
		bool again = i && !strcmp(u->list[i].why, u->list[i - 1].why);
		bool last = i + 1 == u->n || strcmp(u->list[i].why, u->list[i + 1].why);

		text = orr_text("%s%s%s%s", text,
				!i      ? "not tested: "
				: again ? ", "
					: "; ",
				u->list[i].what, last ? orr_text(" (%s)", u->list[i].why) : "");
	}
	return text;
}

void orr_untested_json(json_t **report, const struct orr_untested *u)
{
	json_t *array = json_array();

	for (int i = 0; i < u->n; i++)
		orr_json_append(&array, json_string(u->list[i].what));
	orr_json_set(report, "not_tested", array);
}
