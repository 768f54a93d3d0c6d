#pragma once
/* Links that all that is on them shares, max-min fairly. Whenever something starts or ends, the
 * rates of all are set anew: they grow alike until a link is full; what passes that one stays as it
 * is, and the others grow on. A ring counts as often as it passes a link at once. Rates are whole
 * billionths of bytes per second, rounded down, and what is left of a flow is counted exactly. */
#include <stddef.h>

#include "base/heap.h"
#include "orrery/orrery.h"

__extension__ typedef __int128 orr_wide;

struct orr_use {
	int link, hops; /* how many go over it at once */
};

struct orr_channel { /* a link, port or uplink; made when it is first asked for */
	uint64_t key;
	int lanes, taken;
	bool touched;
	int stream; /* the worker whose streams these are; -1: they are something else */
	struct orr_heap waiting; /* numbers of things; not in order: of those that found it full */
	int first_use, n_uses;   /* of a link of two: their way; n_uses 0: not known yet */
	orr_wide rate;           /* shared: nB/s of all lanes; 0: infinite */
	orr_wide left, level;    /* while it fills */
	int load;
};

/* Something under way. */
struct orr_flow {
	int index, step;       /* of the transfer, and of what it moves one after the other */
	int first_use, n_uses; /* what it passes */
	orr_wide left;         /* nB/s times ns */
	orr_wide rate;         /* nB/s; -1: not set yet */
	int64_t free_ns;       /* when nothing is left, if nothing changes before */
};

struct orr_flows {
	struct orr_flow *list; /* owned */
	int n, room;
	int64_t since_ns; /* when rates were set */
	bool changed;     /* something has come or gone since */
};

/* index and step of flow, of which bytes * steps / parts go over each of its links, once or in
 * every hop. The list has room.
 */
void orr_flows_add(struct orr_flows *flows, struct orr_flow flow, const struct orr_channel *way,
		   int64_t bytes, int steps, int parts);
/* Set the rates from now on; used: room for a number a link. When the first leave, if nothing comes
 * before. */
int64_t orr_flows_set(struct orr_flows *flows, struct orr_channel *links,
		      const struct orr_use *uses, int *used, int64_t now_ns);
/* Is it under way, and has nothing left now? Then it is no more: 1 + its step; else 0. */
int orr_flows_end(struct orr_flows *flows, int index, int64_t now_ns);
