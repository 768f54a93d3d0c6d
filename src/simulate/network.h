#pragma once
/* The links of a simulation, and the ports and uplinks that transfers pass (pipeline/path.h); each
 * direction is one, unless the machine is of half duplex. A thing is
 * - a transfer: it holds a lane of every link on its way for bytes/bandwidth of the slowest, and
 * arrives the latency later;
 * - a ring over the k owners of a stage, or of tied parameters (in the order of jobs->owners),
 * which all-reduce its gradient: it holds the lanes of the ways from every owner to the next for 2
 * (k - 1) steps of 1/k of the gradient. Of two owners it holds both directions. Where the machine
 * says so, they all-reduce it by trees or by level instead (pipeline/all_reduce.h), and hold the
 * lanes of all ways of that.
 *
 * Exclusive: a lane carries one thing at a time. What can start starts, in the order in which
 * things were asked for; of those asked for at one instant the lowest n comes first, then the
 * lowest job. On a machine with waiting=in_order nothing overtakes what it shares a link with. A
 * thing takes all its lanes at once, so that none waits for a thing that waits.
 *
 * Shared: all start when they are asked for and have a stream, and share what they pass (flows.h),
 * but what one worker sends another goes one by one, in that order, as over one connection; a ring
 * moves 2 (k - 1) / k of the gradient from every owner to the next, and its latencies come
 * at the end. What goes by level moves over those of one level at a time. */

#include "orrery/orrery.h"
#include "base/heap.h"
#include "flows.h"

/* How many things are on the streams of a worker, if they slow it. */
struct orr_busy {
	int n;
	bool changed; /* it has begun, or ended, to have any: it is among net->changed */
};

struct orr_machine;
struct orr_pipeline;
struct orr_reductions;
struct orr_timeline;
struct orr_transfer;

/* The first failure of what takes many steps: none that can fail is taken after it. */
struct orr_failure {
	int code;
	struct orr_error *err;
};

static inline void orr_failure_push(struct orr_failure *failure, struct orr_heap *heap,
				    struct orr_heap_entry x)
{
	if (!failure->code)
		failure->code = orr_heap_push(heap, x.key, x.tie, x.value, failure->err);
}

struct orr_network {
	const struct orr_machine *machine; /* borrowed */
	struct orr_timeline *timeline;     /* borrowed; its transfers are those asked for */
	struct orr_failure *failure;       /* borrowed */
	/* Told the index of what will leave its links, and when, if nothing else happens before:
	 * then orr_network_release() has to be told. */
	void (*leaves)(void *user, int index, int64_t free_ns);
	void *user;
	bool is_free; /* nothing takes time: nothing is asked for but what is
			 parked */
	bool in_order, shared;
	struct orr_channel *links; /* [links_room] and rings, which are ways alone; NULL: nothing
				      is asked for */
	int n_links, links_room;
	int *by_key; /* [2 * links_room] open addressing over links, numbered from 1; 0: free */
	int *touched, n_touched; /* [links_room] links on which something may start */
	struct orr_use *uses;
	int n_uses, uses_room;
	struct orr_busy *busy; /* [n_workers]; NULL: nothing slows them */
	int *changed, n_changed;
	struct orr_heap ready;     /* what may be able to start */
	struct orr_parked *parked; /* and cannot */
	int n_parked, parked_room;
	struct orr_flows flows; /* what is under way where links are shared */
	int transfers_room;
	struct orr_reductions *sums; /* [sets] NULL, and each zero, until first asked for */
	double total_ns;             /* of all that was asked for, one after the other */
};

/* ORR_E_INPUT where transfers that last ns together could overrun the clock; host: the last of them
 * is one with a host. */
int orr_network_check_clock(double ns, const struct orr_pipeline *p, bool host,
			    struct orr_error *err);

/* All zero before, but for timeline, failure, leaves and user. */
void orr_network_init(struct orr_network *net);
void orr_network_fini(struct orr_network *net);

/* Ask for a transfer or a ring at time now_ns; n and job: which of one instant comes first.
 * ORR_E_INPUT: all that was asked for could overrun the clock. */
void orr_network_request(struct orr_network *net, const struct orr_transfer *transfer,
			 int64_t now_ns, int64_t n, int job);
/* Start all requests that can start. */
void orr_network_start(struct orr_network *net, int64_t now_ns);
/* Has it left its links? Its start and end are then as they stay. */
bool orr_network_release(struct orr_network *net, int index, int64_t now_ns);
