#include "network.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "base/arrays.h"
#include "base/grow.h"
#include "base/max.h"
#include "base/mix.h"
#include "orrery/jobs.h"
#include "orrery/machine.h"
#include "pipeline/all_reduce.h"
#include "pipeline/path.h"
#include "orrery/timeline.h"

#define NB INT64_C(1000000000) /* of a byte, in rates */
/* In the key of what all transfers from one worker to another pass one by one, though links are
 * shared. */
#define CONNECTION (UINT64_C(1) << 61)

struct orr_parked {
	struct orr_heap_entry entry;
	int link;
};

/* How the owners add up, which has been chosen; NULL: it is a transfer. */
static const struct orr_reduction *sum_of(const struct orr_network *net,
					  const struct orr_transfer *transfer)
{
	return transfer->kind == ORR_TRANSFER_ALL_REDUCE
		       ? &net->sums[transfer->set].by[transfer->all_reduce]
		       : NULL;
}

/* ---- links and ways ---- */

/* Where by_key has the link, or has room for it. */
static int *find_link(const struct orr_network *net, uint64_t key)
{
	size_t mask = 2 * (size_t)net->links_room - 1, at = (size_t)orr_mix(key) & mask;

	while (net->by_key[at] && net->links[net->by_key[at] - 1].key != key)
		at = (at + 1) & mask;
	return &net->by_key[at];
}

static void fail_for_memory(struct orr_network *net)
{
	if (!net->failure->code)
		net->failure->code = orr_no_memory(net->failure->err, "simulate");
}

/* See orr_grow(). */
static bool grow(struct orr_network *net, void *array, int n, int *room, size_t size)
{
	bool grown = orr_grow(array, n, room, size);

	if (!grown)
		fail_for_memory(net);
	return grown;
}

static void grow_links(struct orr_network *net)
{
	int room = net->links_room ? 2 * net->links_room : 32;
	struct orr_channel *links = realloc(net->links, (size_t)room * sizeof(*links));
	int *touched = realloc(net->touched, (size_t)room * sizeof(*touched)),
	    *by_key = calloc(2 * (size_t)room, sizeof(*by_key));

	net->links = links ? links : net->links;
	net->touched = touched ? touched : net->touched;
	if (!links || !touched || !by_key) {
		free(by_key);
		fail_for_memory(net);
		return;
	}
	free(net->by_key);
	net->by_key = by_key;
	net->links_room = room;
	for (int i = 0; i < net->n_links; i++)
		*find_link(net, links[i].key) = i + 1;
}

/* Of all lanes, exact, so that every machine rounds it alike. */
static orr_wide rate_of(const struct orr_stretch *stretch)
{
	const double most = 1e18; /* bytes/s */
	int exponent;
	double fraction =
		frexp(stretch->bytes_per_s < most ? stretch->bytes_per_s : most, &exponent);
	orr_wide rate = (orr_wide)ldexp(fraction, 53) * NB * stretch->lanes;

	if (rate <= 0)
		return 0;
	exponent -= 53;
	if (exponent >= 0)
		return rate << exponent;
	rate = exponent < -120 ? 0 : (rate + ((orr_wide)1 << (-exponent - 1))) >> -exponent;
	return rate > 0 ? rate : 1;
}

/* Its number; -1: no memory. */
static int make_link(struct orr_network *net, const struct orr_stretch *stretch)
{
	int *at = find_link(net, stretch->key);
	struct orr_channel *link;

	if (*at)
		return *at - 1;
	if (net->n_links == net->links_room)
		grow_links(net);
	if (net->failure->code)
		return -1;
	link = &net->links[net->n_links++];
	*link = (struct orr_channel){.key = stretch->key,
				     .lanes = stretch->lanes,
				     .stream = orr_machine_stream_of(stretch->key),
				     .rate = rate_of(stretch)};
	if (net->shared && link->stream < 0 && !(stretch->key & CONNECTION))
		link->lanes = INT_MAX; /* nothing waits for it */
	*find_link(net, stretch->key) = net->n_links;
	return net->n_links - 1;
}

/* Each link once, as often as in the level that takes most of it. */
static void add_use(struct orr_network *net, const struct orr_stretch *stretch, int hops)
{
	int at = make_link(net, stretch);
	struct orr_channel *link = at < 0 ? NULL : &net->links[at];

	if (link && link->load) {
		struct orr_use *use = &net->uses[link->load - 1];

		use->hops = (int)larger(use->hops, hops);
	} else if (link &&
		   grow(net, &net->uses, net->n_uses, &net->uses_room, sizeof(*net->uses))) {
		net->uses[net->n_uses++] = (struct orr_use){at, hops};
		link->load = net->n_uses;
	}
}

/* Of a transfer the link of its two workers; of a ring one that is for nothing else, as of that way
 * of a link of half duplex which has the key of the other. level: -1: of all. */
static uint64_t way_key(const struct orr_transfer *transfer, int level)
{
	int way = (int)transfer->all_reduce * (ORR_MOST_SUM_LEVELS + 1) + level + 1;

	return transfer->kind == ORR_TRANSFER_ALL_REDUCE
		       ? ~((uint64_t)way << 31 | (uint64_t)transfer->set)
		       : orr_machine_link_key(transfer->from, transfer->to);
}

/* It was asked for. */
static const struct orr_channel *way_of(const struct orr_network *net,
					const struct orr_transfer *transfer, int level)
{
	return &net->links[*find_link(net, way_key(transfer, level)) - 1];
}

/* What a transfer passes, or the loads of a level of a sum; level -1: of all. */
static void make_way(struct orr_network *net, const struct orr_transfer *transfer, int level)
{
	struct orr_stretch path[ORR_MOST_STRETCHES] = {{.lanes = 1}}, way;
	const struct orr_reduction *sum = sum_of(net, transfer);
	int n = sum ? 0 : orr_machine_path(path, net->machine, transfer->from, transfer->to), at,
	    first = net->n_uses;

	way = path[0];
	way.key = way_key(transfer, level);
	if ((at = make_link(net, &way)) < 0 || net->links[at].n_uses)
		return;
	for (int i = 0; i < n; i++)
		add_use(net, &path[i], 1);
	if (net->shared && !sum) {
		path[0] = (struct orr_stretch){.key = way.key | CONNECTION, .lanes = 1};
		add_use(net, &path[0], 1);
	}
	for (int l = 0; sum && l < sum->n_levels; l++)
		for (int i = 0; i < sum->levels[l].n && (level < 0 || level == l); i++) {
			const struct orr_passing *load = &sum->loads[sum->levels[l].first + i];

			add_use(net, &load->stretch, load->hops);
		}
	for (int i = first; i < net->n_uses; i++)
		net->links[net->uses[i].link].load = 0;
	net->links[at].first_use = first;
	net->links[at].n_uses = net->n_uses - first;
}

static void make_ways(struct orr_network *net, const struct orr_transfer *transfer)
{
	const struct orr_reduction *sum = sum_of(net, transfer);

	make_way(net, transfer, -1);
	for (int l = 0; sum && net->shared && l < sum->n_levels; l++)
		make_way(net, transfer, l);
}

/* ---- requests ---- */

/* The group of worker w. */
static int group_of(const struct orr_groups *groups, int w)
{
	int low = 0, high = groups->n - 1;

	while (low < high) {
		int middle = (low + high + 1) / 2;

		if (groups->first[middle] <= w)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/* Which goes first of what is asked for at one time, of one n: the lowest job. What the workers of
 * a group send each other goes round by round, first from each to the next one: so all of them send
 * and receive at once. */
static int64_t order_of(const struct orr_network *net, const struct orr_transfer *transfer, int job)
{
	const struct orr_jobs *jobs = net->timeline->jobs;
	int group, t;

	if (!jobs->groups || job < 0 || transfer->kind == ORR_TRANSFER_ALL_REDUCE ||
	    transfer->kind == ORR_TRANSFER_PARK)
		return job;
	group = group_of(jobs->groups, transfer->from);
	t = jobs->groups->first[group + 1] - jobs->groups->first[group];
	if (group_of(jobs->groups, transfer->to) != group || jobs->n_jobs > INT32_MAX / t)
		return job;
	return (int64_t)((transfer->to - transfer->from + t) % t) * jobs->n_jobs + job;
}

int orr_network_check_clock(double ns, const struct orr_pipeline *p, bool host,
			    struct orr_error *err)
{
	if (ns < (double)(INT64_MAX / 4))
		return 0;
	return orr_fail(err, ORR_E_INPUT,
			"the transfers of %d microbatches last more than %lld s, more than can be "
			"counted in nanoseconds: %s",
			p->n_microbatches, (long long)(INT64_MAX / 4 / ORR_UNIT_NS),
			host ? "give a faster [host]"
			     : "take a smaller [latency], or a larger [bandwidth]");
}

/* How the owners add up, and how long that takes. */
static int64_t choose_sum(struct orr_network *net, struct orr_transfer *transfer)
{
	const struct orr_jobs *jobs = net->timeline->jobs;
	const int *owners = orr_jobs_ring(jobs, transfer->set);
	int k = orr_jobs_ring_size(jobs, transfer->set);
	int64_t ns = 0;

	if (!net->sums &&
	    !(net->sums = calloc((size_t)orr_pipeline_n_sets(jobs->pipeline), sizeof(*net->sums))))
		fail_for_memory(net);
	if (!net->failure->code)
		net->failure->code = orr_reductions_make(&net->sums[transfer->set], net->machine,
							 owners, k, net->failure->err);
	if (!net->failure->code)
		transfer->all_reduce =
			orr_reductions_choose(&net->sums[transfer->set], net->machine, owners, k,
					      transfer->ring, transfer->bytes, &ns);
	return ns;
}

static int64_t duration_of(struct orr_network *net, struct orr_transfer *transfer)
{
	return transfer->kind == ORR_TRANSFER_ALL_REDUCE
		       ? choose_sum(net, transfer)
		       : orr_machine_transfer_ns(net->machine, transfer->from, transfer->to,
						 transfer->bytes);
}

/* All of them one after the other fit the clock, so no sum of times overflows. */
static void check_clock(struct orr_network *net, const struct orr_transfer *transfer)
{
	bool host = transfer->from == ORR_HOST || transfer->to == ORR_HOST;

	if (!net->failure->code)
		net->failure->code = orr_network_check_clock(
			net->total_ns, net->timeline->jobs->pipeline, host, net->failure->err);
}

void orr_network_request(struct orr_network *net, const struct orr_transfer *transfer,
			 int64_t now_ns, int64_t n, int job)
{
	struct orr_timeline *t = net->timeline;
	struct orr_transfer asked = *transfer;
	int64_t order = order_of(net, transfer, job), ns = duration_of(net, &asked);
	struct orr_heap_entry entry = {now_ns, n, order << 31 | t->n_transfers};
	const struct orr_channel *way;

	net->total_ns += (double)ns;
	check_clock(net, transfer);
	if (!net->failure->code &&
	    grow(net, &t->transfers, t->n_transfers, &net->transfers_room, sizeof(*t->transfers)))
		make_ways(net, &asked);
	if (net->failure->code)
		return;
	/* of equal (time, n) the lowest order, and within a job the first request */
	orr_failure_push(net->failure, &net->ready, entry);
	way = way_of(net, &asked, -1);
	for (int i = 0; i < way->n_uses && net->in_order; i++)
		orr_failure_push(net->failure,
				 &net->links[net->uses[way->first_use + i].link].waiting, entry);
	t->transfers[t->n_transfers] = asked;
	t->transfers[t->n_transfers].start_ns = -1;
	t->transfers[t->n_transfers++].end_ns = ns; /* from its start on, see hold() */
}

/* ---- links that carry one thing at a time ---- */

static int index_of(struct orr_heap_entry entry)
{
	return (int)(entry.value & INT32_MAX);
}

static int lanes_for(const struct orr_use *use, const struct orr_channel *link)
{
	return (int)smaller(use->hops, link->lanes);
}

/* A link on its way that it has to wait for; -1: none. */
static int find_full(const struct orr_network *net, const struct orr_channel *way, int index)
{
	for (int i = 0; i < way->n_uses; i++) {
		const struct orr_use *use = &net->uses[way->first_use + i];
		const struct orr_channel *link = &net->links[use->link];

		if (link->taken + lanes_for(use, link) > link->lanes ||
		    (net->in_order && index_of(link->waiting.entries[0]) != index))
			return use->link;
	}
	return -1;
}

/* More or less is on a stream. */
static void note_busy(struct orr_network *net, const struct orr_channel *link, int more)
{
	struct orr_busy *busy;

	if (!net->busy || link->stream < 0 ||
	    link->stream >= net->timeline->jobs->pipeline->n_workers)
		return;
	busy = &net->busy[link->stream];
	if (!busy->changed && (!busy->n || !(busy->n + more))) {
		busy->changed = true;
		net->changed[net->n_changed++] = link->stream;
	}
	busy->n += more;
}

static void hold(struct orr_network *net, const struct orr_channel *way,
		 struct orr_transfer *transfer, int64_t now_ns)
{
	for (int i = 0; i < way->n_uses; i++) {
		const struct orr_use *use = &net->uses[way->first_use + i];
		struct orr_channel *link = &net->links[use->link];

		link->taken += lanes_for(use, link);
		note_busy(net, link, 1);
		if (net->in_order)
			(void)orr_heap_pop(&link->waiting);
	}
	transfer->start_ns = now_ns;
	transfer->end_ns += now_ns;
}

/* The first that waits for a link may be able to start. */
static void wake(struct orr_network *net, struct orr_channel *link)
{
	if (!link->waiting.n || link->taken == link->lanes)
		return;
	orr_failure_push(net->failure, &net->ready,
			 net->in_order ? link->waiting.entries[0] : orr_heap_pop(&link->waiting));
}

static void park(struct orr_network *net, struct orr_heap_entry entry, int link)
{
	if (grow(net, &net->parked, net->n_parked, &net->parked_room, sizeof(*net->parked)))
		net->parked[net->n_parked++] = (struct orr_parked){entry, link};
}

/* Step i of what it moves one after the other, where links are shared; false: there are no more. */
static bool move(struct orr_network *net, int index, int i)
{
	const struct orr_transfer *transfer = &net->timeline->transfers[index];
	const struct orr_reduction *sum = sum_of(net, transfer);
	int level = -1, steps = 1, parts = 1;

	if (sum ? (level = orr_reduction_step(sum, transfer->ring, i, &steps, &parts)) < 0 : i > 0)
		return false;
	if (grow(net, &net->flows.list, net->flows.n, &net->flows.room, sizeof(*net->flows.list)))
		orr_flows_add(&net->flows, (struct orr_flow){.index = index, .step = i},
			      way_of(net, transfer, level), transfer->bytes, steps, parts);
	return true;
}

static int64_t latency_of(const struct orr_network *net, const struct orr_transfer *transfer)
{
	return orr_machine_link(net->machine, transfer->from, transfer->to).latency_ns;
}

/* It leaves its links when the last byte is on its way: the least latency of them before its end.
 */
static void begin(struct orr_network *net, int index, const struct orr_channel *way, int64_t now_ns)
{
	struct orr_transfer *transfer = &net->timeline->transfers[index];
	const struct orr_reduction *sum = sum_of(net, transfer);

	hold(net, way, transfer, now_ns);
	if (net->shared)
		(void)move(net, index, 0);
	else
		net->leaves(net->user, index,
			    transfer->end_ns - (sum ? orr_reduction_last_ns(sum, transfer->ring)
						    : latency_of(net, transfer)));
}

/* What cannot start waits for the first link that is full, and is in nobody's way. */
static void start_first(struct orr_network *net, int64_t now_ns)
{
	struct orr_heap_entry entry = orr_heap_pop(&net->ready);
	struct orr_transfer *transfer = &net->timeline->transfers[index_of(entry)];
	const struct orr_channel *way = way_of(net, transfer, -1);
	int full;

	if (transfer->start_ns >= 0)
		return; /* in order: on another of its links it was the first, too */
	full = find_full(net, way, index_of(entry));
	if (full >= 0 && net->in_order)
		return;
	if (full >= 0)
		park(net, entry, full);
	else
		begin(net, index_of(entry), way, now_ns);
	for (int i = 0; i < way->n_uses; i++)
		wake(net, &net->links[net->uses[way->first_use + i].link]);
}

/* ---- links that are shared ---- */

/* All that is under way, from now on. */
static void share(struct orr_network *net, int64_t now_ns)
{
	struct orr_flows *flows = &net->flows;
	int64_t soonest;

	if (!flows->changed)
		return;
	soonest = orr_flows_set(flows, net->links, net->uses, net->touched, now_ns);
	for (int f = 0; f < flows->n; f++) /* of the others later */
		if (flows->list[f].free_ns == soonest)
			net->leaves(net->user, flows->list[f].index, soonest);
}

/* Latencies, one a step, follow the last byte. */
static bool end_shared(struct orr_network *net, int index, int64_t now_ns)
{
	struct orr_transfer *transfer = &net->timeline->transfers[index];
	const struct orr_reduction *sum = sum_of(net, transfer);
	int ended = orr_flows_end(&net->flows, index, now_ns);

	if (!ended || move(net, index, ended))
		return false;
	transfer->end_ns = now_ns + (sum ? orr_reduction_latency(sum, transfer->ring)
					 : latency_of(net, transfer));
	return true;
}

/* ---- both ---- */

void orr_network_start(struct orr_network *net, int64_t now_ns)
{
	for (int i = 0; i < net->n_touched; i++) {
		net->links[net->touched[i]].touched = false;
		wake(net, &net->links[net->touched[i]]);
	}
	net->n_touched = 0;
	while (net->ready.n && !net->failure->code)
		start_first(net, now_ns);
	for (int i = 0; i < net->n_parked; i++)
		orr_failure_push(net->failure, &net->links[net->parked[i].link].waiting,
				 net->parked[i].entry);
	net->n_parked = 0;
	if (net->shared)
		share(net, now_ns);
}

bool orr_network_release(struct orr_network *net, int index, int64_t now_ns)
{
	const struct orr_channel *way;

	if (net->shared && !end_shared(net, index, now_ns))
		return false;
	way = way_of(net, &net->timeline->transfers[index], -1);
	for (int i = 0; i < way->n_uses; i++) {
		const struct orr_use *use = &net->uses[way->first_use + i];
		struct orr_channel *link = &net->links[use->link];

		link->taken -= lanes_for(use, link);
		note_busy(net, link, -1);
		if (!link->touched)
			net->touched[net->n_touched++] = use->link;
		link->touched = true;
	}
	return true;
}

void orr_network_init(struct orr_network *net)
{
	const struct orr_pipeline *p = net->timeline->jobs->pipeline;
	const struct orr_cluster *cluster = p->machine.cluster;

	net->machine = &p->machine;
	net->is_free = !net->machine->latency_ns && !(net->machine->bandwidth_bytes_per_s > 0);
	if (net->is_free && !net->timeline->jobs->park)
		return;
	net->in_order = cluster && cluster->in_order;
	net->shared = cluster && cluster->shared;
	if (cluster && cluster->slowdown) {
		net->busy = calloc((size_t)p->n_workers, sizeof(*net->busy));
		net->changed = calloc((size_t)p->n_workers, sizeof(*net->changed));
		if (!net->busy || !net->changed)
			fail_for_memory(net);
	}
	grow_links(net);
}

void orr_network_fini(struct orr_network *net)
{
	for (int i = 0; i < net->n_links; i++)
		orr_heap_fini(&net->links[i].waiting);
	for (int i = 0; net->sums && i < orr_pipeline_n_sets(net->timeline->jobs->pipeline); i++)
		orr_reductions_fini(&net->sums[i]);
	free(net->sums);
	orr_heap_fini(&net->ready);
	free(net->links);
	free(net->by_key);
	free(net->touched);
	free(net->uses);
	free(net->parked);
	free(net->busy);
	free(net->changed);
	free(net->flows.list);
}
