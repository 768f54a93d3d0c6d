#pragma once
/* The links of a simulation. A link here is one direction: from any worker to any other. It carries
 * one thing at a time, in the order in which things were asked for; of those asked for at one
 * instant the lowest n comes first, then the lowest job. A thing is
 * - a transfer: it holds its link for bytes/bandwidth and arrives the latency later;
 * - a ring over the k owners of a stage, or of tied parameters (in the order of jobs->owners),
 * which all-reduce its gradient: it starts when its turn has come on the link from every owner to
 * the next and these are free, and holds all of them for 2 (k - 1) steps of 1/k of the gradient. Of
 * two owners it holds both directions. So rings that share a link follow one another, as do rings
 * and transfers. On a machine of half duplex the two directions are one link. On a machine with
 * ports these take the place of links: a worker has one to send and one to receive, a transfer
 * holds a port of each of its two workers, and a ring both of every owner. */

#include "orrery/orrery.h"
#include "base/heap.h"

struct orr_machine;
struct orr_pipeline;
struct orr_timeline;
struct orr_transfer;

struct orr_channel { /* or a port; made when it is first asked for */
	size_t key;  /* its workers */
	bool busy, touched;
	struct orr_heap waiting; /* indices of transfers and rings */
};

struct orr_network {
	const struct orr_machine *machine; /* borrowed */
	struct orr_timeline *timeline;     /* borrowed; its transfers are those asked for */
	bool is_free;                      /* nothing takes time: nothing is asked for */
	bool ports, half_duplex;
	struct orr_channel *links; /* [links_room] */
	size_t n_links, links_room;
	size_t *by_key; /* [2 * links_room] open addressing over links, numbered from 1; 0: free */
	size_t *touched, n_touched; /* [links_room] links on which something may start */
	int transfers_room;
	double total_ns; /* of all that was asked for, one after the other */
};

/* ORR_E_INPUT where transfers that last ns together could overrun the clock. */
int orr_network_check_clock(double ns, const struct orr_pipeline *p, struct orr_error *err);

/* All zero before. */
int orr_network_init(struct orr_network *net, struct orr_timeline *timeline, struct orr_error *err);
void orr_network_fini(struct orr_network *net);

/* Ask for a transfer or a ring at time now_ns; n and job: which of one instant comes first. Fails
 * with ORR_E_INPUT where all that was asked for could overrun the clock. */
int orr_network_request(struct orr_network *net, const struct orr_transfer *transfer,
			int64_t now_ns, int64_t n, int job, struct orr_error *err);

/* Start all requests that can start: sets their start and end, and calls started() with its index
 * and when its links are free again, which then has to be told by orr_network_release(). */
int orr_network_start(struct orr_network *net, int64_t now_ns,
		      int (*started)(void *user, int index, int64_t free_ns), void *user);
void orr_network_release(struct orr_network *net, int index);
