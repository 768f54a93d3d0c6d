#pragma once
/* An event simulator that shares nothing with src/: plain tables in, plain loops, for a random
 * step. */
#include <stdbool.h>
#include <stdint.h>

#define ORACLE_STAGES 8
#define ORACLE_WORKERS 6
#define ORACLE_MICROBATCHES 6
#define ORACLE_PASSES 3
#define ORACLE_SETS 3
#define ORACLE_OUTPUTS 12
#define ORACLE_LINKS 200
#define ORACLE_WAY 16
#define ORACLE_MESSAGES (100 * ORACLE_JOBS)
#define ORACLE_JOBS (ORACLE_STAGES * ORACLE_MICROBATCHES * ORACLE_PASSES)

/* Job (s,b,d) is number (b * n_stages + s) * n_passes + d. */
struct oracle_step {
	int n_stages, n_workers, n_microbatches, n_passes;
	bool greedy;
	/* by microbatch */
	int64_t length[ORACLE_MICROBATCHES][ORACLE_STAGES][ORACLE_PASSES];
	int64_t stash[ORACLE_MICROBATCHES][ORACLE_STAGES]; /* bytes, as is all of these */
	int64_t bytes[ORACLE_MICROBATCHES][ORACLE_STAGES][ORACLE_STAGES];
	int64_t gradient_bytes[ORACLE_MICROBATCHES][ORACLE_STAGES][ORACLE_STAGES];
	int64_t update[ORACLE_STAGES], parameters[ORACLE_STAGES];
	const int64_t *lengths; /* of each job, in place of length; NULL: none */
	bool edge[ORACLE_STAGES][ORACLE_STAGES];
	/* what several stages read of a stage, part of the bytes of each of these edges; by
	 * microbatch */
	int n_outputs, maker[ORACLE_OUTPUTS];
	bool reads[ORACLE_OUTPUTS][ORACLE_STAGES];
	int64_t output[ORACLE_MICROBATCHES][ORACLE_OUTPUTS];
	bool differ; /* microbatches do; else all are as the first */
	bool detached[ORACLE_STAGES][ORACLE_STAGES]; /* no gradient comes back over this edge */
	bool frozen[ORACLE_STAGES];
	bool gather[ORACLE_STAGES];
	int n_at[ORACLE_STAGES]; /* workers of a job: compute and those after it, or the set */
	bool has_set[ORACLE_STAGES];
	int set[ORACLE_STAGES][ORACLE_WORKERS];
	bool loss[ORACLE_STAGES]; /* gradients start there, whatever reads it */
	int n_sets; /* of parameters that stages have in common, all frozen or none; a stage counts
		       them as its own */
	bool shares[ORACLE_SETS][ORACLE_STAGES];
	int64_t shared[ORACLE_SETS]; /* bytes */
	int cap[ORACLE_STAGES];      /* 0: none */
	int compute[ORACLE_JOBS], weights[ORACLE_JOBS];
	int64_t n[ORACLE_JOBS]; /* no two are equal */
	int order[ORACLE_JOBS]; /* all jobs, each after those that it waits for */
	int ahead; /* jobs for which a worker fetches parameters while another one runs */
	int speed[ORACLE_WORKERS][2]; /* a worker's, as a fraction */
	/* between two workers, either way */
	int64_t latency[ORACLE_WORKERS][ORACLE_WORKERS];
	int64_t ns_per_byte[ORACLE_WORKERS][ORACLE_WORKERS];
	/* what a transfer from one to the other takes a lane of */
	int n_links, n_on_way[ORACLE_WORKERS][ORACLE_WORKERS];
	int way[ORACLE_WORKERS][ORACLE_WORKERS][ORACLE_WAY];
	int lanes[ORACLE_LINKS];
	int64_t link_ns_per_byte[ORACLE_LINKS]; /* of a lane; 0: none */
	int stream_of[ORACLE_LINKS]; /* 1 + the worker whose streams a link is; 0: none */
	int slowdown;   /* thousandths, by which a worker with a stream in use computes slower */
	int all_reduce; /* 0: a ring; 1: trees; 2: by level; 3: the fastest, where not fair */
	int depth[ORACLE_WORKERS][ORACLE_WORKERS]; /* groups around both */
	bool in_order; /* nothing overtakes what it shares a link with */
	bool fair; /* all that is on a link shares it; else a lane carries one thing at a time */
};

struct oracle_worker {
	int peak_stash;
	int64_t peak_stash_bytes, busy;
	int64_t activations, gradients, stashes, fetched, weight_gradients, reduced,
		owned; /* bytes */
};

struct oracle_move {
	int from, to; /* -1: a ring */
	int64_t start, end;
};

struct oracle_answer {
	struct oracle_move moves[ORACLE_MESSAGES];
	int n_moves;
	int64_t start[ORACLE_JOBS], end[ORACLE_JOBS]; /* start -1: the step deadlocks */
	int64_t makespan;
	struct oracle_worker worker[ORACLE_WORKERS];
};

void oracle_simulate(const struct oracle_step *step, struct oracle_answer *answer);

/* Does a gradient of the loss reach stage s? Nothing that is not frozen may be out of its reach. */
bool oracle_reaches(const struct oracle_step *step, int s);
/* Some jobs of frozen stages do not exist. */
bool oracle_has(const struct oracle_step *step, int j);

/* Number i of the workers of job j. */
int oracle_worker(const struct oracle_step *step, int j, int i);
/* The jobs that job j waits for, by number: how many; before holds ORACLE_JOBS. */
int oracle_before(const struct oracle_step *step, int j, int *before);
