#pragma once
/* A pipeline: the DAG of stages with its costs, and the size of a step. Schedules read it: a
 * plug-in needs this header and schedule.h. */
#include <stdbool.h>
#include <stdint.h>
#include "orrery.h"
#include "machine.h"

ORR_BEGIN

struct orr_graph;
struct orr_microbatches;

/* Which version of the parameters the passes of a microbatch read under an asynchronous schedule
 * [Narayanan19]. */
enum orr_sync {
	ORR_SYNC_STASHING, /* B and W read the version that F read, the latest at that time */
	ORR_SYNC_VERTICAL, /* all stages read the version that the first stage read */
	ORR_SYNC_NONE      /* every pass reads the latest: B may differ from F, no valid gradient */
};

struct orr_edge {
	int from, to;           /* stages, from < to */
	int64_t bytes;          /* of the activation, per microbatch */
	int64_t gradient_bytes; /* of its gradient. Given as 0: the same as bytes; as
				   ORR_NO_BYTES: none. Filled in: the bytes that move */
	bool detached; /* no gradient flows back: given (masks, indices), or filled in if nothing
			  before it is trained or nothing after it has a gradient */
};
#define ORR_NO_BYTES (-1)

/* An output of a stage that several stages read, so that their edges carry it alike: each counts it
 * in its bytes, and a worker receives it once, with its first reader there. Gradients of it are not
 * added up on the way: each comes back over its own edge. */
struct orr_fanout {
	int from;           /* a stage */
	int n_readers;      /* two at least */
	const int *readers; /* stages, ascending, to each of which `from` has an edge */
	int64_t bytes;      /* per microbatch */
};

/* The workers of a stage's jobs, if not the one that w_compute gives. A job on several workers
 * holds all of them from its start to its end; the first one fetches its parameters and sums its
 * gradients. All of them receive its inputs and have its output; its stash and its parameters are
 * split among them evenly, rounded up. */
struct orr_gang {
	int n; /* workers of a job; 0: one. Without a set, the one that w_compute gives and the next
		  n - 1, cyclically */
	const int *workers; /* the set; NULL: none. Copied by orr_pipeline_create */
	int with;           /* 1 + the stage whose worker this stage has, too; 0: none */
};

struct orr_stage {
	bool frozen; /* its parameters are not trained: no weight gradient, no update, no memory for
			either */
	struct orr_gang gang;
	bool gather;   /* it reads a whole minibatch: its F waits for every microbatch of the stages
			  before it, and their backward for every microbatch of this one */
	int n_gathers; /* filled in: the most gathering stages on a path to it, itself included */
	/* filled in by orr_pipeline_create. If the backward is split, B is the input gradient and W
	 * the weight gradient; else B is both. A stage with neither has no backward and no stash. A
	 * trained source has an input gradient if its costs have one. */
	bool has_input_gradient;  /* something before it is trained */
	bool has_weight_gradient; /* it is trained itself */
	bool has_loss; /* given: a gradient starts here, even if other stages read this one; in a
			  stage without readers it always does */
	int depth;     /* stages on the longest path from here to a sink, this one included */
	int n_in, n_out;
	const int *in, *out; /* edges, by number, ascending by the stage at the other end */
	int n_read, n_sent;
	const int *read, *sent; /* outputs with several readers, numbered after the edges:
				   outputs[i] is n_edges + i; from orr_pipeline_set_outputs() */
	/* per microbatch */
	int64_t forward_ns;
	int64_t backward_ns; /* input gradient; the whole backward is backward_ns + weight_ns */
	int64_t weight_ns;   /* weight gradient; 0 with has_weight false: not known apart */
	int64_t stash_bytes; /* kept from the start of F to the end of the last pass that reads it;
				a tensor that several operators read counts once */
	/* Bytes of a stash that do not move if another worker computes W: those that W does not
	 * read, less results of B that it reads. 0: all of it moves. */
	int64_t passing_bytes;
	/* Of operators with recompute=true, beside the stash: the most that a backward makes again
	 * at a time, and all that it makes again, which W of its own needs. */
	int64_t again_bytes, again_all_bytes;
	int64_t input_bytes; /* the input of F: given as that of columns of data, to which
				orr_pipeline_create adds the incoming edges */
	bool recompute;      /* requested by the user: B runs F again, and until then the stash is
				only the input; jobs->recompute adds the schedule's request */
	int park;            /* requested by the user: see park in schedule.h */
	/* per step */
	int64_t update_ns;
	int64_t parameter_bytes;
	int64_t frozen_bytes; /* of these, not trained, in a stage that is not frozen */
	int64_t tied_bytes, tied_trained_bytes; /* of these, shared with other stages, and trained
						   as well; from orr_pipeline_tie() */
};

/* Bytes of the trained parameters, and so of their gradient. */
static inline int64_t orr_stage_trained_bytes(const struct orr_stage *stage)
{
	return stage->frozen ? 0 : stage->parameter_bytes - stage->frozen_bytes;
}

/* A set of parameters that several stages share; each counts it in its parameter_bytes. Every
 * worker that owns one of the stages owns one copy of the set; several owners of a trained set
 * all-reduce its gradient, and each updates its copy. */
struct orr_tied {
	int64_t bytes;
	bool frozen;
	int n_stages;      /* two at least */
	const int *stages; /* ascending */
};

/* The split of a pipeline's graph. Schedules see the stages before the split, on groups as workers;
 * a stage of the pipeline is the part of one of them that one worker of the group computes between
 * two exchanges. */
struct orr_split {
	struct orr_pipeline *whole; /* owned: as schedules see it. Its passes take as long as the
				       longest part of each level and the exchanges between them;
				       stash and parameters are those of the fullest worker */
	int *stage;   /* [n_stages] owned, with the next three as one block: of whole */
	int *shard;   /* [n_stages] the worker of the group, from 0 */
	int *level;   /* [n_stages] how many exchanges are before it in that stage */
	int n_levels; /* the largest level + 1 */
	int *width;   /* [whole's n_stages] workers that it wants */
	int64_t (*exchange_ns)[ORR_N_PASSES]; /* [whole's n_stages] owned: of its passes, what the
						 exchanges take */
};

struct orr_pipeline {
	int n_stages;
	int n_edges;
	int depth; /* D, the largest depth */
	struct orr_stage *stages;
	struct orr_edge *edges;
	int n_outputs;
	struct orr_fanout *outputs; /* of several readers; owned, with all lists, as one block */
	int n_tied;
	struct orr_tied *tied; /* owned, with its lists of stages, as one block */
	bool has_weight;       /* the costs tell the input gradient and the weight gradient apart */
	bool units;            /* durations are units, see orrery.h */
	/* the size of a step */
	int n_workers, n_microbatches; /* n_workers: the machine's */
	int replicas; /* of the whole pipeline: the schedule is that of n_workers / replicas workers
			 and as many of the microbatches, repeated; 1 unless set */
	int alike;    /* replicas of which this pipeline is the first, and of which the machine has
			 all:
			 their workers are next to its own, they do what it does at the same times,
			 and rings are over the owners in all of them; 1 unless set */
	enum orr_sync sync; /* asynchronous schedules: stashing unless set */
	int accumulate;     /* asynchronous schedules: microbatches on each replica in an update; 1
			       unless set */
	struct orr_numerics numerics; /* of training, for its memory; AdamW in FP32 unless set */
	int buckets; /* in which the owners of a stage sum its gradient: one is summed when all have
			computed it; 1 unless set */
	int prefetch; /* jobs ahead for which a worker fetches parameters of other owners, and
			 parked stashes; 2 unless set */
	int64_t overhead_ns; /* of a job: included in forward_ns, backward_ns and update_ns, and
				added to W */
	struct orr_machine machine;            /* free links and no memory limit unless set */
	struct orr_microbatches *microbatches; /* (optional, owned, private) if microbatches differ:
						  then stages have mean durations and the
						  largest sizes */
	/* where it came from; NULL for a pipeline without a graph */
	const struct orr_graph *graph;    /* borrowed */
	int *stage_of;                    /* operator -> stage */
	struct orr_split *split;          /* (owned) NULL: the graph was not split */
	const struct orr_pipeline *parts; /* (borrowed) of stages before a split, where workers
					     compute beside exchanges: what runs; else NULL */
	struct orr_profiled profiled;     /* hardware and precision of the durations */
	int *numbers; /* (private) storage of every stage's in and out, and of the workers of gangs
		       */
};

/* Make a pipeline from stages with their costs, and edges; depth and adjacency are filled in, and
 * the edges' bytes added to input_bytes. Both arrays are copied. Refuses edges that do not go from
 * a smaller stage to a larger one, and gangs that name a worker twice or each other. */
int orr_pipeline_create(struct orr_pipeline **out, const struct orr_stage *stages, int n_stages,
			const struct orr_edge *edges, int n_edges, struct orr_error *err);
void orr_pipeline_destroy(struct orr_pipeline *p);               /* NULL is fine */
void orr_pipeline_free_microbatches(struct orr_microbatches *x); /* the same */
void orr_pipeline_free_split(struct orr_split *split);           /* the same */

/* Set the outputs that several stages read, replacing earlier ones; copied. Without them all edges
 * carry different things; a pipeline that is made of a graph has them. Refuses one of fewer than
 * two readers, and outputs larger than an edge that carries them. Before microbatches differ. */
int orr_pipeline_set_outputs(struct orr_pipeline *p, const struct orr_fanout *outputs,
			     int n_outputs, struct orr_error *err);

/* Set which parameters stages share, replacing earlier sets; copied. Refuses a set that is larger
 * than one of its stages, or has fewer than two. */
int orr_pipeline_tie(struct orr_pipeline *p, const struct orr_tied *tied, int n_tied,
		     struct orr_error *err);

/* Parameters by what owns them: set s is what stage s has alone, set n_stages + t is tied[t]. */
static inline int orr_pipeline_n_sets(const struct orr_pipeline *p)
{
	return p->n_stages + p->n_tied;
}
static inline int64_t orr_set_bytes(const struct orr_pipeline *p, int set)
{
	return set < p->n_stages ? p->stages[set].parameter_bytes - p->stages[set].tied_bytes
				 : p->tied[set - p->n_stages].bytes;
}
static inline int64_t orr_set_trained_bytes(const struct orr_pipeline *p, int set)
{
	if (set >= p->n_stages)
		return p->tied[set - p->n_stages].frozen ? 0 : p->tied[set - p->n_stages].bytes;
	return orr_stage_trained_bytes(&p->stages[set]) - p->stages[set].tied_trained_bytes;
}
/* The next set after `set` that stage s has parameters of, the first being s; -1: no other. */
int orr_set_after(const struct orr_pipeline *p, int s, int set);

/* Set the size of the step. Workers, also the machine's: at least one, and enough for gangs and for
 * the largest group of a split. Microbatches: at least one; if they differ, as many as have costs.
 */
int orr_pipeline_set_step(struct orr_pipeline *p, int n_workers, int n_microbatches,
			  struct orr_error *err);

/* The most workers that a stage is split among; 1: none is split. */
int orr_pipeline_widest(const struct orr_pipeline *p);
/* Default number of workers: one per stage, or a group for a split one. */
int orr_pipeline_wants(const struct orr_pipeline *p);

/* Add an overhead to every job of stages whose costs do not include it. */
void orr_pipeline_set_overhead(struct orr_pipeline *p, int64_t overhead_ns);

/* Which stages recompute: "all", "none" or their numbers, "0,3,5". Refuses anything else. A
 * gathering stage never does, since it would have to keep a whole minibatch. In a split graph the
 * numbers are those of the stages before the split. */
int orr_pipeline_set_recompute(struct orr_pipeline *p, const char *text, struct orr_error *err);

/* Where stages park their stashes: "none", "all" or their numbers, and the worker or the host that
 * keeps those named before it: "all=host", "0,1=7,2=6"; the last may go without "=host". Refuses
 * anything else. In a split graph stages and workers are those before the split. */
int orr_pipeline_set_park(struct orr_pipeline *p, const char *text, struct orr_error *err);

/* Duration of a pass of stage s, 0 if it does not exist; the first pass of the backward includes F
 * if the stage recomputes. split: B is only the input gradient; if the costs do not separate it
 * from the weight gradient, B and W take half of the backward each. If microbatches differ, the
 * mean. */
int64_t orr_pipeline_duration_ns(const struct orr_pipeline *p, int s, enum orr_pass d, bool split);
/* Duration of the job of microbatch b on worker w: the overhead_ns is the same on every worker, the
 * rest is divided by the worker's speed. */
int64_t orr_pipeline_job_ns(const struct orr_pipeline *p, int s, int b, enum orr_pass d, int w,
			    bool split);
/* The update of stage s on worker w. */
int64_t orr_pipeline_update_ns(const struct orr_pipeline *p, int s, int w);
/* Stash and input of microbatch b of stage s; bytes of its activation on edge e or, with gradient,
 * of the gradient. */
int64_t orr_pipeline_stash_bytes(const struct orr_pipeline *p, int s, int b);
/* What its backward adds to the stash, as it makes it again. split: as for a duration. */
int64_t orr_pipeline_again_bytes(const struct orr_pipeline *p, int s, int b, bool split);
int64_t orr_pipeline_input_bytes(const struct orr_pipeline *p, int s, int b);
int64_t orr_pipeline_edge_bytes(const struct orr_pipeline *p, int e, int b, bool gradient);
/* Of the output of that number, from n_edges on; and does stage s read it? */
int64_t orr_pipeline_output_bytes(const struct orr_pipeline *p, int number, int b);
bool orr_pipeline_reads(const struct orr_pipeline *p, int s, int number);

/* Does stage s have this pass? It always has F. Nothing waits for a job that does not exist, and it
 * is in no worker's order. */
static inline bool orr_pipeline_has_pass(const struct orr_pipeline *p, int s, enum orr_pass d,
					 bool split)
{
	const struct orr_stage *stage = &p->stages[s];

	switch (d) {
	case ORR_PASS_F:
		return true;
	case ORR_PASS_B:
		return stage->has_input_gradient || (stage->has_weight_gradient && !split);
	case ORR_PASS_W:
		return stage->has_weight_gradient && split;
	}
	return false;
}

/* The first pass of the backward of stage s, which recomputes F if any does, and the last pass. F:
 * it has no backward. */
static inline enum orr_pass orr_pipeline_first_backward(const struct orr_pipeline *p, int s,
							bool split)
{
	return orr_pipeline_has_pass(p, s, ORR_PASS_B, split)   ? ORR_PASS_B
	       : orr_pipeline_has_pass(p, s, ORR_PASS_W, split) ? ORR_PASS_W
								: ORR_PASS_F;
}
static inline enum orr_pass orr_pipeline_last_pass(const struct orr_pipeline *p, int s, bool split)
{
	return orr_pipeline_has_pass(p, s, ORR_PASS_W, split)   ? ORR_PASS_W
	       : orr_pipeline_has_pass(p, s, ORR_PASS_B, split) ? ORR_PASS_B
								: ORR_PASS_F;
}

/* 16 hexadecimal digits that depend on everything that the length of an order of p's jobs does. */
void orr_pipeline_fingerprint(const struct orr_pipeline *p, char text[24]);

/* The workers of a job of stage s whose first is w: their number, and worker i of them, from 0. */
static inline int orr_pipeline_n_at(const struct orr_pipeline *p, int s)
{
	return p->stages[s].gang.n > 1 ? p->stages[s].gang.n : 1;
}
static inline int orr_pipeline_at(const struct orr_pipeline *p, int s, int w, int i)
{
	const struct orr_gang *gang = &p->stages[s].gang;

	return gang->workers ? gang->workers[i] : (w + i) % p->n_workers;
}
/* The even part of bytes that each of them has. */
static inline int64_t orr_pipeline_share(const struct orr_pipeline *p, int s, int64_t bytes)
{
	int n = orr_pipeline_n_at(p, s);

	return bytes / n + (bytes % n > 0);
}

/* The same for a set of parameters: tied ones are not split, their stages being on one worker each.
 */
static inline int orr_set_n_at(const struct orr_pipeline *p, int set)
{
	return set < p->n_stages ? orr_pipeline_n_at(p, set) : 1;
}
static inline int orr_set_at(const struct orr_pipeline *p, int set, int w, int i)
{
	return set < p->n_stages ? orr_pipeline_at(p, set, w, i) : w;
}
static inline int64_t orr_set_share(const struct orr_pipeline *p, int set, int64_t bytes)
{
	return set < p->n_stages ? orr_pipeline_share(p, set, bytes) : bytes;
}

/* Does any stage have a gang? Does any gather? */
bool orr_pipeline_has_gangs(const struct orr_pipeline *p);
bool orr_pipeline_gathers(const struct orr_pipeline *p);
/* Apply gangs and `with` to a schedule's workers, worker[s * step] being that of stage s. */
void orr_pipeline_settle(const struct orr_pipeline *p, int *worker, int step);

/* The edge between two stages; NULL: there is none. */
const struct orr_edge *orr_pipeline_edge(const struct orr_pipeline *p, int from, int to);

/* The stage at the other end of incoming or outgoing edge i of stage s. */
static inline int orr_stage_before(const struct orr_pipeline *p, int s, int i)
{
	return p->edges[p->stages[s].in[i]].from;
}
static inline int orr_stage_after(const struct orr_pipeline *p, int s, int i)
{
	return p->edges[p->stages[s].out[i]].to;
}

/* What a stage receives, and sends, forward: its edges by number, then outputs with several
 * readers.
 */
static inline int orr_stage_received(const struct orr_stage *stage, int i)
{
	return i < stage->n_in ? stage->in[i] : stage->read[i - stage->n_in];
}
static inline int orr_stage_sent(const struct orr_stage *stage, int i)
{
	return i < stage->n_out ? stage->out[i] : stage->sent[i - stage->n_out];
}

/* Write p's durations, for microbatches of this number of samples, their hardware and precision,
 * and the sizes that follow from shapes into g, of which every operator that computes is a stage of
 * p. */
void orr_pipeline_note(const struct orr_pipeline *p, struct orr_graph *g, int64_t samples);

ORR_END
