#include "network.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "base/grow.h"
#include "base/max.h"
#include "base/mix.h"
#include "orrery/jobs.h"
#include "orrery/machine.h"
#include "pipeline/path.h"
#include "orrery/timeline.h"

#define NB INT64_C(1000000000) /* of a byte, in rates */

struct orr_parked {
	struct orr_heap_entry entry;
	int link;
};

/* The owners in the ring of an all-reduce, and how many; a transfer has no ring: 0. */
static int ring_of(const struct orr_network *net, const struct orr_transfer *transfer,
		   const int **owners)
{
	const struct orr_jobs *jobs = net->timeline->jobs;

	*owners = NULL;
	if (transfer->kind != ORR_TRANSFER_ALL_REDUCE)
		return 0;
	*owners = orr_jobs_ring(jobs, transfer->set);
	return orr_jobs_ring_size(jobs, transfer->set);
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

static int grow_links(struct orr_network *net, struct orr_error *err)
{
	int room = net->links_room ? 2 * net->links_room : 32;
	struct orr_channel *links = realloc(net->links, (size_t)room * sizeof(*links));
	int *touched = realloc(net->touched, (size_t)room * sizeof(*touched)),
	    *by_key = calloc(2 * (size_t)room, sizeof(*by_key));

	net->links = links ? links : net->links;
	net->touched = touched ? touched : net->touched;
	if (!links || !touched || !by_key) {
		free(by_key);
		return orr_fail(err, ORR_E_NOMEM, "simulate: no memory for %d links", room);
	}
	free(net->by_key);
	net->by_key = by_key;
	net->links_room = room;
	for (int i = 0; i < net->n_links; i++)
		*find_link(net, links[i].key) = i + 1;
	return 0;
}

/* Of all lanes, in thousandths of bytes per second. */
/* Exact, so that every machine rounds it alike. */
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

static int make_link(struct orr_network *net, int *number, const struct orr_stretch *stretch,
		     struct orr_error *err)
{
	int *at = find_link(net, stretch->key), code;

	if (!*at) {
		if (net->n_links == net->links_room && (code = grow_links(net, err)))
			return code;
		at = find_link(net, stretch->key);
		net->links[net->n_links] =
			(struct orr_channel){.key = stretch->key,
					     .lanes = stretch->lanes,
					     .stream = orr_machine_stream_of(stretch->key),
					     .rate = rate_of(stretch)};
		if (net->shared && net->links[net->n_links].stream < 0)
			net->links[net->n_links].lanes = INT_MAX; /* nothing waits for it */
		*at = ++net->n_links;
	}
	*number = *at - 1;
	return 0;
}

/* A way, whose uses begin with the first, passes a link; that of a ring does so once or more often.
 */
static int add_use(struct orr_network *net, int first, struct orr_use use, struct orr_error *err)
{
	for (int i = first; i < net->n_uses && use.hops > 1; i++)
		if (net->uses[i].link == use.link)
			return 0;
	if (!orr_grow(&net->uses, net->n_uses, &net->uses_room, sizeof(*net->uses)))
		return orr_fail(err, ORR_E_NOMEM, "simulate: no memory for the links of %d ways",
				net->n_links);
	net->uses[net->n_uses++] = use;
	return 0;
}

/* Of a transfer the link of its two workers; of a ring one that is for nothing else, as of that way
 * of a link of half duplex which has the key of the other. */
static uint64_t way_key(const struct orr_transfer *transfer)
{
	return transfer->kind == ORR_TRANSFER_ALL_REDUCE
		       ? ~(uint64_t)transfer->set
		       : orr_machine_link_key(transfer->from, transfer->to);
}

/* It was asked for. */
static const struct orr_channel *way_of(const struct orr_network *net,
					const struct orr_transfer *transfer)
{
	return &net->links[*find_link(net, way_key(transfer)) - 1];
}

static int make_way(struct orr_network *net, const struct orr_transfer *transfer,
		    struct orr_error *err)
{
	struct orr_stretch way[ORR_MOST_STRETCHES] = {{.lanes = 1}};
	int pair[] = {transfer->from, transfer->to}, at, code;
	const int *owners;
	int k = ring_of(net, transfer, &owners);

	if (!k)
		(void)orr_machine_path(way, net->machine, pair[0], pair[1]);
	way[0].key = way_key(transfer);
	if ((code = make_link(net, &at, way, err)) || net->links[at].n_uses)
		return code;
	net->links[at].first_use = net->n_uses;
	for (int i = 0; i < (k ? k : 1); i++) {
		const int *ends[] = {k ? owners + i : pair, k ? owners + (i + 1) % k : pair + 1};
		int n = orr_machine_path(way, net->machine, *ends[0], *ends[1]);

		for (int l = 0; l < n; l++) {
			struct orr_use use = {
				.hops = k ? (int)larger(1, orr_machine_hops(net->machine, owners, k,
									    &way[l]))
					  : 1};

			if ((code = make_link(net, &use.link, &way[l], err)) ||
			    (code = add_use(net, net->links[at].first_use, use, err)))
				return code;
		}
	}
	net->links[at].n_uses = net->n_uses - net->links[at].first_use;
	return 0;
}

/* ---- requests ---- */

static int reserve_transfer(struct orr_network *net, struct orr_error *err)
{
	struct orr_timeline *t = net->timeline;

	return orr_grow(&t->transfers, t->n_transfers, &net->transfers_room, sizeof(*t->transfers))
		       ? 0
		       : orr_fail(err, ORR_E_NOMEM, "simulate: no memory for %d transfers",
				  2 * net->transfers_room);
}

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

int orr_network_check_clock(double ns, const struct orr_pipeline *p, struct orr_error *err)
{
	if (ns < (double)(INT64_MAX / 4))
		return 0;
	return orr_fail(err, ORR_E_INPUT,
			"the transfers of %d microbatches last more than %lld s, more than can be "
			"counted in nanoseconds: take a smaller [latency], or a larger [bandwidth]",
			p->n_microbatches, (long long)(INT64_MAX / 4 / ORR_UNIT_NS));
}

static int64_t duration_of(const struct orr_network *net, const struct orr_transfer *transfer)
{
	const int *owners;
	int k = ring_of(net, transfer, &owners);
	int64_t ns = k ? orr_machine_ring_ns(net->machine, owners, k, transfer->bytes)
		       : orr_machine_transfer_ns(net->machine, transfer->from, transfer->to,
						 transfer->bytes);

	/* once round instead of twice */
	return transfer->ring == ORR_RING_ALL_REDUCE ? ns : ns - ns / 2;
}

/* Of equal (time, n) the lowest order, and within a job the first request. */
static int queue(struct orr_network *net, struct orr_heap_entry entry,
		 const struct orr_channel *way, struct orr_error *err)
{
	int code = orr_heap_push(&net->ready, entry.key, entry.tie, entry.value, err);

	for (int i = 0; i < way->n_uses && net->in_order && !code; i++)
		code = orr_heap_push(&net->links[net->uses[way->first_use + i].link].waiting,
				     entry.key, entry.tie, entry.value, err);
	return code;
}

int orr_network_request(struct orr_network *net, const struct orr_transfer *transfer,
			int64_t now_ns, int64_t n, int job, struct orr_error *err)
{
	struct orr_timeline *t = net->timeline;
	int64_t order = order_of(net, transfer, job), ns = duration_of(net, transfer);
	int code;

	/* all of them one after the other fit the clock, so no sum of times overflows */
	net->total_ns += (double)ns;
	if ((code = orr_network_check_clock(net->total_ns, t->jobs->pipeline, err)) ||
	    (code = reserve_transfer(net, err)) || (code = make_way(net, transfer, err)) ||
	    (code = queue(net, (struct orr_heap_entry){now_ns, n, order << 31 | t->n_transfers},
			  way_of(net, transfer), err)))
		return code;
	t->transfers[t->n_transfers] = *transfer;
	t->transfers[t->n_transfers].start_ns = -1;
	t->transfers[t->n_transfers++].end_ns = ns; /* from its start on, see hold() */
	return 0;
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

/* The end of what leaves its links when the last byte is on its way: of a ring, the least latency
 * of its links before it ends. */
static int64_t free_ns(const struct orr_network *net, const struct orr_transfer *transfer)
{
	const int *owners;
	int k = ring_of(net, transfer, &owners);
	int64_t latency_ns =
		k ? INT64_MAX
		  : orr_machine_link(net->machine, transfer->from, transfer->to).latency_ns;

	for (int i = 0; i < k; i++)
		latency_ns = smaller(
			latency_ns,
			orr_machine_link(net->machine, owners[i], owners[(i + 1) % k]).latency_ns);
	return transfer->end_ns - latency_ns;
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
static int wake(struct orr_network *net, struct orr_channel *link, struct orr_error *err)
{
	struct orr_heap_entry entry;

	if (!link->waiting.n || link->taken == link->lanes)
		return 0;
	entry = net->in_order ? link->waiting.entries[0] : orr_heap_pop(&link->waiting);
	return orr_heap_push(&net->ready, entry.key, entry.tie, entry.value, err);
}

static int park(struct orr_network *net, struct orr_heap_entry entry, int link,
		struct orr_error *err)
{
	if (!orr_grow(&net->parked, net->n_parked, &net->parked_room, sizeof(*net->parked)))
		return orr_fail(err, ORR_E_NOMEM, "simulate: no memory for %d transfers",
				2 * net->parked_room);
	net->parked[net->n_parked++] = (struct orr_parked){entry, link};
	return 0;
}

/* A ring goes round twice, or of its parts once. */
static int steps_of(const struct orr_transfer *transfer, int k)
{
	return k ? (transfer->ring == ORR_RING_ALL_REDUCE ? 2 : 1) * (k - 1) : 1;
}

static int begin(struct orr_network *net, int index, const struct orr_channel *way, int64_t now_ns,
		 int (*leaves)(void *user, int index, int64_t free_ns), void *user,
		 struct orr_error *err)
{
	struct orr_transfer *transfer = &net->timeline->transfers[index];
	const int *owners;
	int k = ring_of(net, transfer, &owners);

	hold(net, way, transfer, now_ns);
	return net->shared ? orr_flows_add(&net->flows, index, way, transfer->bytes,
					   steps_of(transfer, k), k ? k : 1, err)
			   : leaves(user, index, free_ns(net, transfer));
}

/* What cannot start waits for the first link that is full, and is in nobody's way. */
static int start_first(struct orr_network *net, int64_t now_ns,
		       int (*leaves)(void *user, int index, int64_t free_ns), void *user,
		       struct orr_error *err)
{
	struct orr_heap_entry entry = orr_heap_pop(&net->ready);
	struct orr_transfer *transfer = &net->timeline->transfers[index_of(entry)];
	const struct orr_channel *way = way_of(net, transfer);
	int full, code;

	if (transfer->start_ns >= 0)
		return 0; /* in order: on another of its links it was the first, too */
	full = find_full(net, way, index_of(entry));
	if (full >= 0 && net->in_order)
		return 0;
	code = full >= 0 ? park(net, entry, full, err)
			 : begin(net, index_of(entry), way, now_ns, leaves, user, err);
	for (int i = 0; i < way->n_uses && !code; i++)
		code = wake(net, &net->links[net->uses[way->first_use + i].link], err);
	return code;
}

/* ---- links that are shared ---- */

/* All that is under way, from now on. */
static int share(struct orr_network *net, int64_t now_ns,
		 int (*leaves)(void *user, int index, int64_t free_ns), void *user)
{
	struct orr_flows *flows = &net->flows;
	int64_t soonest;
	int code = 0;

	if (!flows->changed)
		return 0;
	soonest = orr_flows_set(flows, net->links, net->uses, net->touched, now_ns);
	for (int f = 0; f < flows->n && !code; f++) /* of the others later */
		if (flows->list[f].free_ns == soonest)
			code = leaves(user, flows->list[f].index, soonest);
	return code;
}

/* Latencies, one a step, follow the last byte. */
static bool end_shared(struct orr_network *net, int index, int64_t now_ns)
{
	struct orr_transfer *transfer = &net->timeline->transfers[index];
	const struct orr_machine *m = net->machine;
	const int *owners;
	int k = ring_of(net, transfer, &owners);
	int64_t longest = k ? 0 : orr_machine_link(m, transfer->from, transfer->to).latency_ns;

	if (!orr_flows_end(&net->flows, index, now_ns))
		return false;
	for (int i = 0; i < k; i++)
		longest = larger(longest,
				 orr_machine_link(m, owners[i], owners[(i + 1) % k]).latency_ns);
	transfer->end_ns = now_ns + steps_of(transfer, k) * longest;
	return true;
}

/* ---- both ---- */

int orr_network_start(struct orr_network *net, int64_t now_ns,
		      int (*leaves)(void *user, int index, int64_t free_ns), void *user,
		      struct orr_error *err)
{
	int code = 0;

	for (int i = 0; i < net->n_touched && !code; i++) {
		net->links[net->touched[i]].touched = false;
		code = wake(net, &net->links[net->touched[i]], err);
	}
	net->n_touched = 0;
	while (net->ready.n && !code)
		code = start_first(net, now_ns, leaves, user, err);
	for (int i = 0; i < net->n_parked && !code; i++) {
		const struct orr_heap_entry *entry = &net->parked[i].entry;

		code = orr_heap_push(&net->links[net->parked[i].link].waiting, entry->key,
				     entry->tie, entry->value, err);
	}
	net->n_parked = 0;
	return code || !net->shared ? code : share(net, now_ns, leaves, user);
}

bool orr_network_release(struct orr_network *net, int index, int64_t now_ns)
{
	const struct orr_channel *way;

	if (net->shared && !end_shared(net, index, now_ns))
		return false;
	way = way_of(net, &net->timeline->transfers[index]);
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

int orr_network_init(struct orr_network *net, struct orr_timeline *timeline, struct orr_error *err)
{
	const struct orr_machine *machine = &timeline->jobs->pipeline->machine;

	net->machine = machine;
	net->timeline = timeline;
	net->is_free = !machine->latency_ns && !(machine->bandwidth_bytes_per_s > 0);
	if (net->is_free && !timeline->jobs->park)
		return 0;
	net->in_order = machine->cluster && machine->cluster->in_order;
	net->shared = machine->cluster && machine->cluster->shared;
	if (machine->cluster && machine->cluster->slowdown) {
		size_t n = (size_t)timeline->jobs->pipeline->n_workers;

		net->busy = calloc(n, sizeof(*net->busy));
		net->changed = calloc(n, sizeof(*net->changed));
		if (!net->busy || !net->changed)
			return orr_fail(err, ORR_E_NOMEM, "simulate: no memory for %zu workers", n);
	}
	return grow_links(net, err);
}

void orr_network_fini(struct orr_network *net)
{
	for (int i = 0; i < net->n_links; i++)
		orr_heap_fini(&net->links[i].waiting);
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
