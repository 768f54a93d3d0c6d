#include "flows.h"

#include "base/max.h"

#define PER_BYTE INT64_C(1000000000000000000) /* of what is left */

void orr_flows_add(struct orr_flows *flows, struct orr_flow flow, const struct orr_channel *way,
		   int64_t bytes, int steps, int parts)
{
	orr_wide all = (orr_wide)bytes * steps; /* in two parts, neither of which overflows */

	flow.first_use = way->first_use;
	flow.n_uses = way->n_uses;
	flow.left = all / parts * PER_BYTE + all % parts * PER_BYTE / parts;
	flows->list[flows->n++] = flow;
	flows->changed = true;
}

/* ---- rates ---- */

/* While rates are set. */
struct filling {
	struct orr_flows *flows;
	struct orr_channel *links;
	const struct orr_use *uses;
	int *used, n_used; /* links that have yet to fill */
};

/* How much passes each link, and which these are. */
static void load_links(struct filling *x)
{
	for (int f = 0; f < x->flows->n; f++) {
		struct orr_flow *flow = &x->flows->list[f];

		flow->rate = -1;
		for (int i = 0; i < flow->n_uses; i++) {
			const struct orr_use *use = &x->uses[flow->first_use + i];
			struct orr_channel *link = &x->links[use->link];

			if (!link->rate)
				continue;
			if (!link->load) {
				x->used[x->n_used++] = use->link;
				link->left = link->rate;
			}
			link->load += use->hops;
		}
	}
}

/* What those that still grow have on each link, and on that which is full first. */
static orr_wide next_level(struct filling *x)
{
	orr_wide least = -1;
	int n = 0;

	for (int i = 0; i < x->n_used; i++) {
		struct orr_channel *link = &x->links[x->used[i]];

		if (!link->load)
			continue;
		link->level = link->left / link->load;
		least = n && least < link->level ? least : link->level;
		x->used[n++] = x->used[i];
	}
	x->n_used = n;
	return least;
}

static bool is_stopped(const struct filling *x, const struct orr_flow *flow, orr_wide level)
{
	for (int i = 0; i < flow->n_uses; i++) {
		const struct orr_channel *link = &x->links[x->uses[flow->first_use + i].link];

		if (link->rate && link->level == level)
			return true;
	}
	return false;
}

static void set_rate(struct filling *x, struct orr_flow *flow, orr_wide level)
{
	flow->rate = level > 1 ? level : 1;
	for (int i = 0; i < flow->n_uses; i++) {
		const struct orr_use *use = &x->uses[flow->first_use + i];
		struct orr_channel *link = &x->links[use->link];

		if (link->rate) {
			link->load -= use->hops;
			link->left -= level * use->hops;
		}
	}
}

/* Flows that pass no link of finite rate have nothing left. */
static void fill(struct filling *x)
{
	load_links(x);
	for (orr_wide level = next_level(x); x->n_used; level = next_level(x))
		for (int f = 0; f < x->flows->n; f++) {
			struct orr_flow *flow = &x->flows->list[f];

			if (flow->rate < 0 && is_stopped(x, flow, level))
				set_rate(x, flow, level);
		}
	for (int f = 0; f < x->flows->n; f++)
		if (x->flows->list[f].rate < 0) {
			x->flows->list[f].left = 0;
			x->flows->list[f].rate = 1;
		}
}

/* ---- time ---- */

/* Rounded once, a half up. */
static int64_t when_free(const struct orr_flow *flow, int64_t now_ns)
{
	orr_wide ns = (flow->left + flow->rate / 2) / flow->rate;

	return now_ns + (ns < INT64_MAX / 2 ? (int64_t)ns : INT64_MAX / 2);
}

int64_t orr_flows_set(struct orr_flows *flows, struct orr_channel *links,
		      const struct orr_use *uses, int *used, int64_t now_ns)
{
	struct filling x = {flows, links, uses, used, 0};
	int64_t soonest = INT64_MAX;

	for (int f = 0; f < flows->n; f++) /* of those that are new no rate is set */
		flows->list[f].left -= (orr_wide)flows->list[f].rate * (now_ns - flows->since_ns);
	flows->since_ns = now_ns;
	flows->changed = false;
	fill(&x);
	for (int f = 0; f < flows->n; f++) {
		flows->list[f].free_ns = when_free(&flows->list[f], now_ns);
		soonest = smaller(soonest, flows->list[f].free_ns);
	}
	return soonest;
}

int orr_flows_end(struct orr_flows *flows, int index, int64_t now_ns)
{
	int f = 0, step;

	while (f < flows->n && flows->list[f].index != index)
		f++;
	if (f == flows->n || flows->list[f].free_ns != now_ns)
		return 0;
	step = flows->list[f].step;
	flows->list[f] = flows->list[--flows->n];
	flows->changed = true;
	return 1 + step;
}
