#include "network.h"

#include <stdlib.h>

#include "base/grow.h"
#include "orrery/jobs.h"
#include "orrery/machine.h"
#include "orrery/timeline.h"

/* From one worker to another; of half-duplex links that is the way back, too. */
static size_t link_between(const struct orr_network *net, int from, int to)
{
	size_t low = (size_t)(from < to ? from : to), high = (size_t)(from < to ? to : from);
	size_t pair = high * (high - 1) / 2 + low;

	return net->half_duplex ? pair : 2 * pair + (from > to);
}

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

static int count_links(const struct orr_network *net, const struct orr_transfer *transfer)
{
	const int *owners;
	int k = ring_of(net, transfer, &owners);

	if (net->ports)
		return k ? 2 * k : 2;
	if (k == 2 && net->half_duplex)
		return 1;
	return k ? k : 1;
}

/* Where worker w sends, and where it receives. */
static size_t port_of(int w, bool receives)
{
	return 2 * (size_t)w + receives;
}

static size_t key_at(const struct orr_network *net, const struct orr_transfer *transfer, int i)
{
	const int *owners;
	int k = ring_of(net, transfer, &owners);

	if (net->ports)
		return k   ? port_of(owners[i / 2], i % 2)
		       : i ? port_of(transfer->to, true)
			   : port_of(transfer->from, false);
	return k ? link_between(net, owners[i], owners[(i + 1) % k])
		 : link_between(net, transfer->from, transfer->to);
}

/* Where by_key has the link, or has room for it. */
static size_t *find_link(const struct orr_network *net, size_t key)
{
	size_t mask = 2 * net->links_room - 1,
	       at = (size_t)(key * UINT64_C(11400714819323198485) >> 20);

	for (at &= mask; net->by_key[at] && net->links[net->by_key[at] - 1].key != key;)
		at = (at + 1) & mask;
	return &net->by_key[at];
}

/* One that was asked for. */
static struct orr_channel *link_at(const struct orr_network *net,
				   const struct orr_transfer *transfer, int i)
{
	return &net->links[*find_link(net, key_at(net, transfer, i)) - 1];
}

static int grow_links(struct orr_network *net, struct orr_error *err)
{
	size_t room = 2 * net->links_room;
	struct orr_channel *links = realloc(net->links, room * sizeof(*links));
	size_t *touched = realloc(net->touched, room * sizeof(*touched)),
	       *by_key = calloc(2 * room, sizeof(*by_key));

	net->links = links ? links : net->links;
	net->touched = touched ? touched : net->touched;
	if (!links || !touched || !by_key) {
		free(by_key);
		return orr_fail(err, ORR_E_NOMEM, "simulate: no memory for %zu links", room);
	}
	free(net->by_key);
	net->by_key = by_key;
	net->links_room = room;
	for (size_t i = 0; i < net->n_links; i++)
		*find_link(net, links[i].key) = i + 1;
	return 0;
}

static int make_link(struct orr_network *net, size_t key, struct orr_error *err)
{
	int code;

	if (*find_link(net, key))
		return 0;
	if (net->n_links == net->links_room && (code = grow_links(net, err)))
		return code;
	net->links[net->n_links] = (struct orr_channel){.key = key};
	*find_link(net, key) = net->n_links + 1;
	net->n_links++;
	return 0;
}

static void touch(struct orr_network *net, struct orr_channel *link)
{
	if (link->touched)
		return;
	link->touched = true;
	net->touched[net->n_touched++] = (size_t)(link - net->links);
}

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

	if (!jobs->groups || job < 0 || transfer->kind == ORR_TRANSFER_ALL_REDUCE)
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

int orr_network_request(struct orr_network *net, const struct orr_transfer *transfer,
			int64_t now_ns, int64_t n, int job, struct orr_error *err)
{
	struct orr_timeline *t = net->timeline;
	int64_t order = order_of(net, transfer, job), ns = duration_of(net, transfer);
	int n_links = count_links(net, transfer), code;

	/* all of them one after the other fit the clock, so no sum of times overflows */
	net->total_ns += (double)ns;
	if ((code = orr_network_check_clock(net->total_ns, t->jobs->pipeline, err)) ||
	    (code = reserve_transfer(net, err)))
		return code;
	for (int i = 0; i < n_links; i++) {
		struct orr_channel *link;

		if ((code = make_link(net, key_at(net, transfer, i), err)))
			return code;
		link = link_at(net, transfer, i);
		/* of equal (time, n) the lowest order, and within a job the first request */
		if ((code = orr_heap_push(&link->waiting, now_ns, n, order << 31 | t->n_transfers,
					  err)))
			return code;
		touch(net, link);
	}
	t->transfers[t->n_transfers] = *transfer;
	t->transfers[t->n_transfers++].end_ns = ns; /* from its start on, see hold() */
	return 0;
}

static int first_waiting(const struct orr_channel *link)
{
	return (int)(link->waiting.entries[0].value & INT32_MAX);
}

/* Is it the turn of the first thing that waits for this link on all links that it needs? All links
 * queue requests in one order, so the first request overall can start once its links are free. */
static bool can_start(const struct orr_network *net, const struct orr_channel *link)
{
	const struct orr_transfer *transfer;
	int index;

	if (link->busy || !link->waiting.n)
		return false;
	index = first_waiting(link);
	transfer = &net->timeline->transfers[index];
	for (int i = 0; i < count_links(net, transfer); i++) {
		const struct orr_channel *other = link_at(net, transfer, i);

		if (other->busy || first_waiting(other) != index)
			return false;
	}
	return true;
}

static void hold(struct orr_network *net, struct orr_transfer *transfer, int64_t now_ns)
{
	for (int i = 0; i < count_links(net, transfer); i++) {
		struct orr_channel *link = link_at(net, transfer, i);

		orr_heap_pop(&link->waiting);
		link->busy = true;
	}
	transfer->start_ns = now_ns;
	transfer->end_ns += now_ns;
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

	for (int i = 0; i < k; i++) {
		int64_t ns =
			orr_machine_link(net->machine, owners[i], owners[(i + 1) % k]).latency_ns;

		latency_ns = ns < latency_ns ? ns : latency_ns;
	}
	return transfer->end_ns - latency_ns;
}

int orr_network_start(struct orr_network *net, int64_t now_ns,
		      int (*started)(void *user, int index, int64_t free_ns), void *user)
{
	int code;

	for (size_t i = 0; i < net->n_touched; i++) {
		struct orr_channel *link = &net->links[net->touched[i]];
		struct orr_transfer *transfer;
		int index;

		link->touched = false;
		if (!can_start(net, link))
			continue;
		index = first_waiting(link);
		transfer = &net->timeline->transfers[index];
		hold(net, transfer, now_ns);
		if ((code = started(user, index, free_ns(net, transfer))))
			return code;
	}
	net->n_touched = 0;
	return 0;
}

void orr_network_release(struct orr_network *net, int index)
{
	const struct orr_transfer *transfer = &net->timeline->transfers[index];

	for (int i = 0; i < count_links(net, transfer); i++) {
		struct orr_channel *link = link_at(net, transfer, i);

		link->busy = false;
		touch(net, link);
	}
}

int orr_network_init(struct orr_network *net, struct orr_timeline *timeline, struct orr_error *err)
{
	const struct orr_machine *machine = &timeline->jobs->pipeline->machine;

	net->machine = machine;
	net->timeline = timeline;
	net->is_free = !machine->latency_ns && !(machine->bandwidth_bytes_per_s > 0);
	if (net->is_free)
		return 0;
	net->ports = machine->cluster && machine->cluster->ports;
	net->half_duplex = orr_machine_half_duplex(machine);
	net->links_room = 32;
	return grow_links(net, err);
}

void orr_network_fini(struct orr_network *net)
{
	for (size_t i = 0; net->links && i < net->n_links; i++)
		orr_heap_fini(&net->links[i].waiting);
	free(net->links);
	free(net->by_key);
	free(net->touched);
}
