#pragma once
/* What lies between two workers. */
#include <stdbool.h>
#include <stdint.h>

struct orr_cluster;
struct orr_link_cost;
struct orr_machine;

/* For qsort() and bsearch(): the order of edges and of a cluster's pairs, or whatever begins with
 * the ints from and to. */
int orr_ends_compare(const void *a, const void *b);

/* A ring all-reduce over k workers joined by links like this one, on each of which as many of its
 * transfers take turns: 1 unless both ways of one link do, or there are few lanes. */
int64_t orr_ring_over_ns(const struct orr_link_cost *link, int k, int64_t bytes, int turns);

/* Whatever a transfer takes a lane of, from a worker to another: the link between the two; the port
 * at which one sends, and that at which the other receives; uplinks of the groups that it leaves
 * and enters; the streams of the two, where they are counted. */
struct orr_stretch {
	uint64_t key;       /* no two have the same; both ways of half duplex are one */
	double bytes_per_s; /* of a lane; 0: infinite */
	int lanes;
	bool uplink;
};

/* A transfer longer than the clock can count takes all of it, and is refused elsewhere. */
int64_t orr_within_clock(double ns);

/* The innermost group that has both. */
int orr_cluster_group_between(const struct orr_cluster *c, int from, int to);

#define ORR_MOST_UPLINKS 8 /* in one another */
#define ORR_MOST_STRETCHES (5 + 2 * ORR_MOST_UPLINKS)

/* How many; the first is the link of the two, which is as fast as the slowest. */
int orr_machine_path(struct orr_stretch way[ORR_MOST_STRETCHES], const struct orr_machine *m,
		     int from, int to);

uint64_t orr_machine_link_key(int from, int to); /* of that one, unless it is turned: half duplex */
/* The worker whose streams have this key, or -1: it is that of something else. */
int orr_machine_stream_of(uint64_t key);
