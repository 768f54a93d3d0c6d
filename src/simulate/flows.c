#include "flows.h"

#include "base/grow.h"
#include "base/max.h"
#include "network.h"
#include "orrery/machine.h"
#include "orrery/timeline.h"

#define PER_BYTE INT64_C(1000000000000) /* a rate of 1 mB/s for 1 ns is the unit of what is left \
					 */

__extension__ typedef __int128 wide;

struct orr_flow {
	int index; /* of the transfer */
	int first_use, n_uses;
	wide left;
	int64_t rate_mb_s; /* -1: not set yet */
	int64_t free_ns;   /* when nothing will be left, if nothing changes */
};

/* A ring goes round twice, or of its parts once. */
static int steps_of(const struct orr_transfer *transfer, int k)
{
	return k ? (transfer->ring == ORR_RING_ALL_REDUCE ? 2 : 1) * (k - 1) : 1;
}

/* From the last byte's way to the arrival: a latency a step. */
static int64_t latency_ns(const struct orr_network *net, const struct orr_transfer *transfer)
{
	const struct orr_machine *m = net->machine;
	const int *owners;
	int k = orr_network_ring(net, transfer, &owners);
	int64_t longest = k ? 0 : orr_machine_link(m, transfer->from, transfer->to).latency_ns;

	for (int i = 0; i < k; i++)
		longest = larger(longest,
				 orr_machine_link(m, owners[i], owners[(i + 1) % k]).latency_ns);
	return steps_of(transfer, k) * longest;
}

static int add_flow(struct orr_network *net, int index, int64_t now_ns, struct orr_error *err)
{
	struct orr_transfer *transfer = &net->timeline->transfers[index];
	const struct orr_channel *way = orr_network_way(net, transfer);
	const int *owners;
	int k = orr_network_ring(net, transfer, &owners);

	if (!orr_grow(&net->flows, net->n_flows, &net->flows_room, sizeof(*net->flows)))
		return orr_fail(err, ORR_E_NOMEM, "simulate: no memory for %d transfers at once",
				2 * net->flows_room);
	transfer->start_ns = now_ns;
	net->flows[net->n_flows++] = (struct orr_flow){.index = index,
						       .first_use = way->first_use,
						       .n_uses = way->n_uses,
						       .left = (wide)transfer->bytes * PER_BYTE *
							       steps_of(transfer, k) / (k ? k : 1)};
	return 0;
}

/* ---- rates ---- */

/* How much passes each link, and which these are. */
static void load_links(struct orr_network *net)
{
	net->n_touched = 0;
	for (int f = 0; f < net->n_flows; f++) {
		struct orr_flow *flow = &net->flows[f];

		flow->rate_mb_s = -1;
		for (int i = 0; i < flow->n_uses; i++) {
			const struct orr_use *use = &net->uses[flow->first_use + i];
			struct orr_channel *link = &net->links[use->link];

			if (!link->rate_mb_s)
				continue;
			if (!link->load) {
				net->touched[net->n_touched++] = use->link;
				link->left_mb_s = link->rate_mb_s;
			}
			link->load += use->hops;
		}
	}
}

/* What those that still grow have on the first link that gets full, and on each link. */
static int64_t next_level(struct orr_network *net)
{
	int64_t least = INT64_MAX;
	int n = 0;

	for (int i = 0; i < net->n_touched; i++) {
		struct orr_channel *link = &net->links[net->touched[i]];

		if (!link->load)
			continue;
		link->level = link->left_mb_s / link->load;
		least = smaller(least, link->level);
		net->touched[n++] = net->touched[i];
	}
	net->n_touched = n;
	return least;
}

static bool is_stopped(const struct orr_network *net, const struct orr_flow *flow, int64_t level)
{
	for (int i = 0; i < flow->n_uses; i++) {
		const struct orr_channel *link = &net->links[net->uses[flow->first_use + i].link];

		if (link->rate_mb_s && link->level == level)
			return true;
	}
	return false;
}

static void set_rate(struct orr_network *net, struct orr_flow *flow, int64_t level)
{
	flow->rate_mb_s = larger(level, 1);
	for (int i = 0; i < flow->n_uses; i++) {
		const struct orr_use *use = &net->uses[flow->first_use + i];
		struct orr_channel *link = &net->links[use->link];

		if (link->rate_mb_s) {
			link->load -= use->hops;
			link->left_mb_s -= level * use->hops;
		}
	}
}

/* Flows that pass no link of finite rate have none left. */
static void set_rates(struct orr_network *net)
{
	load_links(net);
	for (int64_t level = next_level(net); net->n_touched; level = next_level(net))
		for (int f = 0; f < net->n_flows; f++) {
			struct orr_flow *flow = &net->flows[f];

			if (flow->rate_mb_s < 0 && is_stopped(net, flow, level))
				set_rate(net, flow, level);
		}
	for (int f = 0; f < net->n_flows; f++)
		if (net->flows[f].rate_mb_s < 0) {
			net->flows[f].left = 0;
			net->flows[f].rate_mb_s = 1;
		}
}

/* ---- time ---- */

/* Rounded once, a half up. */
static int64_t when_free(const struct orr_flow *flow, int64_t now_ns)
{
	wide ns = (flow->left + flow->rate_mb_s / 2) / flow->rate_mb_s;

	return ns < INT64_MAX / 2 ? now_ns + (int64_t)ns : INT64_MAX / 2 + now_ns;
}

int orr_flows_start(struct orr_network *net, int64_t now_ns,
		    int (*leaves)(void *user, int index, int64_t free_ns), void *user,
		    struct orr_error *err)
{
	int64_t soonest = INT64_MAX;
	int code = 0;

	if (!net->ready.n && !net->flows_changed)
		return 0;
	for (int f = 0; f < net->n_flows; f++)
		net->flows[f].left -= (wide)net->flows[f].rate_mb_s * (now_ns - net->since_ns);
	net->since_ns = now_ns;
	net->flows_changed = false;
	while (net->ready.n && !code)
		code = add_flow(net, (int)(orr_heap_pop(&net->ready).value & INT32_MAX), now_ns,
				err);
	set_rates(net);
	for (int f = 0; f < net->n_flows; f++) {
		net->flows[f].free_ns = when_free(&net->flows[f], now_ns);
		soonest = smaller(soonest, net->flows[f].free_ns);
	}
	for (int f = 0; f < net->n_flows && !code; f++) /* the others if that changes nothing */
		if (net->flows[f].free_ns == soonest)
			code = leaves(user, net->flows[f].index, soonest);
	return code;
}

bool orr_flows_release(struct orr_network *net, int index, int64_t now_ns)
{
	struct orr_transfer *transfer = &net->timeline->transfers[index];
	int f = 0;

	while (f < net->n_flows && net->flows[f].index != index)
		f++;
	if (f == net->n_flows || net->flows[f].free_ns != now_ns)
		return false; /* it has left, or something came between */
	net->flows[f] = net->flows[--net->n_flows];
	net->flows_changed = true;
	transfer->end_ns = now_ns + latency_ns(net, transfer);
	return true;
}
