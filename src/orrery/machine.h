#pragma once
/* A machine: the number of workers, the memory of each, and the cost of a transfer between two. */
#include <stdbool.h>
#include <stdint.h>
#include "orrery.h"

ORR_BEGIN

#define ORR_MOST_LEVELS 4

/* Links by level: level 0 joins workers[0] workers by links of bytes_per_s[0], level 1 joins
 * workers[1] of those groups, and so on. */
struct orr_levels {
	int n;
	int workers[ORR_MOST_LEVELS];
	double bytes_per_s[ORR_MOST_LEVELS]; /* 0: infinite */
	int64_t latency_ns[ORR_MOST_LEVELS]; /* per transfer */
};

/* "4x4", "10GB/s,1.25GB/s" and "1us,5us"; NULL: infinite bandwidth, or no latency. *units: the
 * latencies are plain numbers, see orrery.h. Refuses links that do not match the levels. Levels of
 * one worker have no links and are dropped. */
int orr_levels_parse(struct orr_levels *levels, const char *workers, const char *bandwidths,
		     const char *latencies, bool *units, struct orr_error *err);
int orr_levels_workers(const struct orr_levels *levels);

/* Of a link between two workers. */
struct orr_link_cost {
	int64_t latency_ns; /* per transfer */
	double bytes_per_s; /* 0: infinite */
};

/* "25GB/s" or "25GB/s,10us", the bandwidth and the latency; *units: the latency is a plain number
 * other than 0, see orrery.h. `what` begins the message. */
int orr_link_parse(struct orr_link_cost *link, bool *units, const char *text, const char *what,
		   struct orr_error *err);

/* A ring: an all-reduce; or, if each owner updates a part, a reduce-scatter of gradients and later
 * an all-gather of parameters. */
enum orr_ring_part { ORR_RING_ALL_REDUCE, ORR_RING_REDUCE_SCATTER, ORR_RING_ALL_GATHER };

/* How the owners of a stage add up its gradient; AUTO: the fastest of the others for its size. */
enum orr_all_reduce {
	ORR_ALL_REDUCE_RING,
	ORR_ALL_REDUCE_TREE,         /* two binary trees */
	ORR_ALL_REDUCE_HIERARCHICAL, /* rings by level of the machine */
	ORR_ALL_REDUCE_AUTO
};
#define ORR_ALL_REDUCES ORR_ALL_REDUCE_AUTO
const char *orr_all_reduce_name(enum orr_all_reduce all_reduce); /* "tree" */

#define ORR_HOST (-1) /* the memory of a worker's host, where a worker may stand, too */

/* Workers and links that differ, as a machine file has them: see orr_cluster_read(). */
struct orr_cluster {
	char *name, *text;         /* owned: of the file, and all of it */
	bool units;                /* its latencies are units, see orrery.h */
	int64_t overhead_ns;       /* of each job and update, beside what it computes */
	struct orr_link_cost host; /* see struct orr_machine */
	int n_workers, n_groups, n_pairs;
	bool half_duplex; /* the two directions of a link share one transfer at a time; not with
			     ports */
	bool in_order;    /* what has to wait is not overtaken by what was asked for later */
	bool shared;      /* whatever is on a link shares it; else it carries one thing at a time */
	enum orr_all_reduce all_reduce;
	/* A worker has this many streams for what it sends and receives: each carries one thing out
	 * and one in at a time, and while any does, the worker computes slowdown thousandths
	 * slower. 0: no limit, and nothing slows it. */
	int streams, slowdown;
	struct orr_cluster_worker {
		char *name;           /* owned */
		int group;            /* the innermost: its node */
		double speed;         /* durations are divided by it */
		int64_t memory_bytes; /* 0: no limit */
	} * workers;                  /* [n_workers] */
	struct orr_cluster_group {
		char *name;                /* owned; "" for the whole machine, group 0 */
		int parent;                /* lower; -1 of group 0 */
		struct orr_link_cost link; /* of workers that no smaller group joins */
		/* These links are ports: a worker sends one thing and receives one thing at a
		 * time, whatever the peers. 1 + the group whose workers' ports they are: this one,
		 * or one around it; 0: they are not. */
		int ports;
		int lanes;                 /* of the uplink to the group around, 0: there is none */
		double uplink_bytes_per_s; /* of a lane, each way */
		bool rails; /* the worker at number i of the group has lane i mod lanes; else any */
	} * groups;         /* [n_groups] */
	struct orr_cluster_pair {
		int from, to; /* from < to */
		struct orr_link_cost link;
	} * pairs; /* [n_pairs] ascending; these have links of their own */
};

struct orr_machine {
	int n_workers;
	int64_t memory_bytes;         /* per worker; 0: no limit */
	int64_t latency_ns;           /* per transfer */
	double bandwidth_bytes_per_s; /* each way of the link between two workers; 0: infinite */
	struct orr_levels levels;     /* (optional) links by level; n 0: none */
	struct orr_link_cost host; /* of each worker's own link with its host's memory, each way */
	double flops_per_s;        /* charged for operators without measured costs */
	/* (optional) workers and links that differ; borrowed, must outlive the machine and its
	 * copies. With it or with levels, the fields above are those of the worker with the most
	 * memory and of the slowest link: use the functions below. */
	const struct orr_cluster *cluster;
};

/* No memory limit, free links, and 10 GFLOP/s for operators without measured costs. */
struct orr_machine orr_machine_default(int n_workers);
/* Give a machine the workers and links of the levels. */
void orr_machine_set_levels(struct orr_machine *m, const struct orr_levels *levels);
/* The first n workers of the cluster; 0: all. */
struct orr_machine orr_machine_of(const struct orr_cluster *cluster, int n);
/* Read a machine file, see src/plan/README.md; or parse its text. Messages have file and line. */
int orr_cluster_read(struct orr_cluster **out, const char *path, struct orr_error *err);
int orr_cluster_parse(struct orr_cluster **out, const char *name, const char *text,
		      struct orr_error *err);
void orr_cluster_destroy(struct orr_cluster *cluster); /* NULL is fine */

/* hash, with the workers and links mixed in if they differ; else hash itself. */
uint64_t orr_machine_hash(const struct orr_machine *m, uint64_t hash);

/* Speed, 1 without a cluster: of worker w, of all together, of the fastest. Memory; 0: no limit. */
double orr_machine_speed(const struct orr_machine *m, int w);
double orr_machine_speeds(const struct orr_machine *m);
double orr_machine_fastest(const struct orr_machine *m);
int64_t orr_machine_memory(const struct orr_machine *m, int w);
/* Work of ns on a worker of speed 1, rounded once. */
int64_t orr_machine_work_ns(const struct orr_machine *m, int w, int64_t ns);

/* Are its workers alike, in nested equal groups? Then levels receives these. */
bool orr_machine_nested(struct orr_levels *levels, const struct orr_machine *m);

/* Of each job and update, from a machine file. */
static inline int64_t orr_machine_overhead(const struct orr_machine *m)
{
	return m->cluster ? m->cluster->overhead_ns : 0;
}

/* Do the two directions of a link take turns? Only with duplex=half in a machine file. */
bool orr_machine_half_duplex(const struct orr_machine *m);

/* The link between two different workers, as fast as the slowest uplink on the way; or of a worker
 * with ORR_HOST. */
struct orr_link_cost orr_machine_link(const struct orr_machine *m, int from, int to);

/* Which of k workers serves each of n microbatches: in turns or, if speeds differ, the worker that
 * would finish the next one first. turns has n + k elements: after the first n, the number that
 * each worker serves. */
void orr_machine_turns(const struct orr_machine *m, const int *workers, int k, int *turns, int n);

/* Duration of a transfer, which occupies its direction of the link except for the latency; 0 within
 * a worker. */
int64_t orr_machine_transfer_ns(const struct orr_machine *m, int from, int to, int64_t bytes);

/* Duration of a ring all-reduce of bytes over k workers: 2 (k - 1) steps, in each of which every
 * worker sends 1/k of the bytes to the next, at the speed of the slowest link. Over two workers it
 * uses both directions of their link, at once unless half duplex; where more of its transfers pass
 * an uplink than that has lanes, they take turns. 0 for one worker. */
int64_t orr_machine_ring_ns(const struct orr_machine *m, const int *workers, int k, int64_t bytes);

ORR_END
