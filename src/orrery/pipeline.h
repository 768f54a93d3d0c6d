#ifndef ORR_PIPELINE_H
#define ORR_PIPELINE_H
/* A pipeline: the DAG of stages with its costs, and the size of the step that runs on it. It is
 * what a schedule sees: a plug-in needs this header and schedule.h. */
#include <stdbool.h>
#include <stdint.h>
#include "numerics.h"
#include "profiled.h"
#include "error.h"
#include "machine.h"
#include "orrery.h"

ORR_BEGIN

struct orr_graph;
struct orr_microbatches;

/* Which version of the parameters the passes of a microbatch read under an asynchronous schedule:
 * see versions.h. */
enum orr_sync { ORR_SYNC_STASHING, ORR_SYNC_VERTICAL, ORR_SYNC_NONE };

struct orr_edge {
	int from, to;           /* stages, from < to */
	int64_t bytes;          /* of the activation, per microbatch */
	int64_t gradient_bytes; /* of its gradient. Given as 0: as many as bytes; as
				   ORR_NO_BYTES: none. Filled in: what moves */
	bool detached; /* no gradient flows back: so it is given (masks, indices), or nothing
			  before it is trained, or nothing after it has one; filled in */
};
#define ORR_NO_BYTES (-1)

/* Where the jobs of a stage are, if not on the one worker that w_compute gives. A job on several
 * workers holds all of them from its start to its end; the first of them computes, which is where
 * its parameters are fetched, and its gradients added up. What it reads goes to each of them, what
 * it makes is at each, so nothing moves to a worker that was in the job that made it; its stash
 * and its parameters are split among them evenly, rounded up. */
struct orr_gang {
	int n; /* workers of a job; 0: one. Without a set, the one that w_compute gives and the
		  n - 1 after it, cyclically */
	const int *workers; /* the set of them; NULL: none. Copied by orr_pipeline_create */
	int with; /* 1 + the stage whose worker w_compute gives to this one, too; 0: none */
};

struct orr_stage {
	bool frozen; /* its parameters are not trained: no weight gradient, no update, no memory for
			either */
	struct orr_gang gang;
	bool gather;   /* it reads a whole minibatch: F waits for every microbatch of the stages
			  before it, which wait in their backwards for every microbatch of its own */
	int n_gathers; /* filled in: stages that gather on a way to it, the most, itself included */
	/* filled in by orr_pipeline_create: what its backward computes. B exists where one of them
	 * does, or with a split backward for the input gradient alone; W only for the weight
	 * gradient. A stage with neither keeps no stash. A source that is trained has an input
	 * gradient as far as its costs say so. */
	bool has_input_gradient;  /* something before it is trained */
	bool has_weight_gradient; /* it is trained itself */
	bool has_loss; /* given: a gradient starts here, also where other stages read this one; a
			  stage that none reads has one anyway */
	int depth;     /* stages on the longest path from here to a sink, this one included */
	int n_in, n_out;
	const int *in, *out; /* edges, by number, ascending by the stage at the other end */
	/* per microbatch */
	int64_t forward_ns;
	int64_t backward_ns; /* input gradient; the whole backward is backward_ns + weight_ns */
	int64_t weight_ns;   /* weight gradient; 0 with has_weight false: not known apart */
	int64_t stash_bytes; /* kept from the start of F to the end of the last pass that reads it
			      */
	/* What moves of a stash is less by so much: to B, of what several operators read; to W, of
	 * what W does not read, less what it reads of B. 0: all of it moves. */
	int64_t shared_bytes, passing_bytes;
	int64_t input_bytes; /* what F reads: columns of the data, to which orr_pipeline_create adds
				the edges in */
	bool recompute;      /* B runs F again first, and until then the stash is the input alone; a
				schedule may ask for it as well, so where there are jobs read
				jobs->recompute */
	/* per step */
	int64_t update_ns;
	int64_t parameter_bytes;
	int64_t frozen_bytes; /* those of them that are not trained, in a stage that is not frozen
			       */
	int64_t tied_bytes, tied_trained_bytes; /* those that other stages have as well, and of
						   these the trained ones; orr_pipeline_tie() fills
						   them in */
};

/* Bytes of the parameters that are trained, and so of a gradient of them. */
static inline int64_t orr_stage_trained_bytes(const struct orr_stage *stage)
{
	return stage->frozen ? 0 : stage->parameter_bytes - stage->frozen_bytes;
}

/* A set of parameters that several stages have in common, each of which counts them in its
 * parameter_bytes. Every worker that owns one of the stages owns one copy of the set; if there are
 * several and the set is trained, they add up its gradients as replicas do, and each updates its
 * copy. */
struct orr_tied {
	int64_t bytes;
	bool frozen;
	int n_stages;      /* two at least */
	const int *stages; /* ascending */
};

/* Of a pipeline whose graph was split (rewrite.h). Schedules see the stages before the split, whose
 * workers are groups; a stage of the pipeline is what one worker of a group computes of one of
 * those between two exchanges with the others. */
struct orr_split {
	struct orr_pipeline *whole; /* owned: as schedules see it. Its passes take as long as the
				       longest part of each level and the exchanges between them;
				       stash and parameters are those of the fullest worker */
	int *stage;                 /* [n_stages] owned: of whole */
	int *shard;                 /* [n_stages] owned: the worker of the group, from 0 */
	int *level;                 /* [n_stages] owned: how many exchanges are before it in that
				       stage */
	int n_levels;               /* the largest level + 1 */
	int *width;                 /* [whole's n_stages] owned: workers that it wants */
};

struct orr_pipeline {
	int n_stages;
	int n_edges;
	int depth; /* D, the largest depth */
	struct orr_stage *stages;
	struct orr_edge *edges;
	int n_tied;
	struct orr_tied *tied; /* owned, with its lists of stages, as one block */
	bool has_weight;       /* the costs tell the input gradient and the weight gradient apart */
	bool units;            /* durations are units, see orrery.h */
	/* the size of a step */
	int n_workers, n_microbatches; /* n_workers: the machine's */
	enum orr_sync sync;            /* asynchronous schedules: stashing unless set */
	int accumulate; /* asynchronous schedules: microbatches on each replica in an update; 1
			   unless set */
	struct orr_numerics numerics; /* of training, for its memory (parameter_cost.h); AdamW in
					 FP32 unless set */
	int prefetch; /* jobs ahead for which a worker fetches parameters of other owners; 2 unless
			 set */
	int64_t overhead_ns; /* of starting a job: in forward_ns, backward_ns and update_ns, and
				added to W apart */
	struct orr_machine machine; /* that the step runs on; free links and no limit of memory
				       unless set */
	struct orr_microbatches *microbatches; /* (optional, owned) those of the step differ, see
						  cost.h: then the stages' durations are
						  means, and sizes the largest */
	/* where it came from; NULL for a pipeline without a graph */
	const struct orr_graph *graph; /* borrowed */
	int *stage_of;                 /* operator -> stage */
	struct orr_split *split;       /* (owned) the graph was split; NULL: it was not */
	struct orr_profiled profiled;  /* what measured the durations */
	int *numbers; /* (private) storage of every stage's in and out, and of the workers of gangs
		       */
};

/* Make a pipeline from its edges; stages are given with their costs; depth and adjacency are filled
 * in and the edges' bytes added to input_bytes. Both arrays are copied. Refuses edges that do not
 * go from a smaller stage to a larger one, and gangs that name a worker twice or each other. */
int orr_pipeline_create(struct orr_pipeline **out, const struct orr_stage *stages, int n_stages,
			const struct orr_edge *edges, int n_edges, struct orr_error *err);
void orr_pipeline_destroy(struct orr_pipeline *p);               /* NULL is fine */
void orr_pipeline_free_microbatches(struct orr_microbatches *x); /* the same */
void orr_pipeline_free_split(struct orr_split *split);           /* the same */

/* Which parameters stages have in common, in place of what was said before; copied. Refuses a set
 * that is larger than a stage of it, or of fewer stages than two. */
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
/* The sets that stage s has parameters of: s first, then the one after set; -1: no other. */
int orr_set_after(const struct orr_pipeline *p, int s, int set);

/* Set the size of the step: at least one worker, of the machine too, as many as a stage is split
 * among, and all that gangs need; at least one microbatch, and as many as have costs of their own,
 * if they have. */
int orr_pipeline_set_step(struct orr_pipeline *p, int n_workers, int n_microbatches,
			  struct orr_error *err);

/* The most workers that a stage is split among; 1 where none is. */
int orr_pipeline_widest(const struct orr_pipeline *p);
/* Workers where nobody says how many: one a stage, and as many as a stage that was split wants. */
int orr_pipeline_wants(const struct orr_pipeline *p);

/* Every job takes so much longer: for stages that have only what their operators take. */
void orr_pipeline_set_overhead(struct orr_pipeline *p, int64_t overhead_ns);

/* Which stages recompute: "all", "none" or their numbers, "0,3,5". Refuses anything else. One that
 * gathers never does: what it would read again is a whole minibatch. Of a graph that was split the
 * numbers are those of the stages before. */
int orr_pipeline_set_recompute(struct orr_pipeline *p, const char *text, struct orr_error *err);

/* How long a pass of stage s takes, 0 for one that it has not; the first pass of the backward of a
 * stage that recomputes takes F again as well. split: B is
 * the input gradient alone; where the costs do not tell it from the weight gradient, B and W take
 * half of the backward each. Where microbatches differ, of the mean one. */
int64_t orr_pipeline_duration_ns(const struct orr_pipeline *p, int s, enum orr_pass d, bool split);
/* The same for microbatch b on worker w: what one job takes. What starting it takes (overhead_ns)
 * is the same on every worker, the rest is divided by the worker's speed. */
int64_t orr_pipeline_job_ns(const struct orr_pipeline *p, int s, int b, enum orr_pass d, int w,
			    bool split);
/* The update of stage s on worker w. */
int64_t orr_pipeline_update_ns(const struct orr_pipeline *p, int s, int w);
/* The stash of microbatch b of stage s, and the bytes of its edge e: of the activation or, with
 * gradient, of its gradient. */
int64_t orr_pipeline_stash_bytes(const struct orr_pipeline *p, int s, int b);
int64_t orr_pipeline_input_bytes(const struct orr_pipeline *p, int s, int b);
int64_t orr_pipeline_edge_bytes(const struct orr_pipeline *p, int e, int b, bool gradient);

/* Does stage s have this pass? F always; a job that does not exist is no job of length 0: nothing
 * waits for it, and it is in no worker's order. */
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

/* The pass that starts the backward of stage s, and runs F again where it recomputes; and the one
 * that ends its work on a microbatch. F: it has no backward. */
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

/* 16 hexadecimal digits that change with whatever the length of an order of p's jobs depends on. */
void orr_pipeline_fingerprint(const struct orr_pipeline *p, char text[24]);

/* The workers of a job of stage s whose first is w: how many, and number i of them, 0 the first. */
static inline int orr_pipeline_n_at(const struct orr_pipeline *p, int s)
{
	return p->stages[s].gang.n > 1 ? p->stages[s].gang.n : 1;
}
static inline int orr_pipeline_at(const struct orr_pipeline *p, int s, int w, int i)
{
	const struct orr_gang *gang = &p->stages[s].gang;

	return gang->workers ? gang->workers[i] : (w + i) % p->n_workers;
}
/* An even part of what is split among them. */
static inline int64_t orr_pipeline_share(const struct orr_pipeline *p, int s, int64_t bytes)
{
	int n = orr_pipeline_n_at(p, s);

	return bytes / n + (bytes % n > 0);
}

/* The same of a set of parameters: tied ones are whole, of stages on one worker each. */
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

/* Is any stage not on the one worker that a schedule gives it? And does any gather? */
bool orr_pipeline_has_gangs(const struct orr_pipeline *p);
bool orr_pipeline_gathers(const struct orr_pipeline *p);
/* The first worker of every stage's jobs, where a schedule gives stage s worker[s * step]. */
void orr_pipeline_settle(const struct orr_pipeline *p, int *worker, int step);

/* The edge between two stages; NULL where there is none. */
const struct orr_edge *orr_pipeline_edge(const struct orr_pipeline *p, int from, int to);

/* The stage before or after, over edge number i of stage s. */
static inline int orr_stage_before(const struct orr_pipeline *p, int s, int i)
{
	return p->edges[p->stages[s].in[i]].from;
}
static inline int orr_stage_after(const struct orr_pipeline *p, int s, int i)
{
	return p->edges[p->stages[s].out[i]].to;
}

/* Write p's durations, for microbatches of this number of samples, and what measured them into g,
 * of which every operator that computes is a stage of p; and the sizes that follow from its shapes.
 */
void orr_pipeline_note(const struct orr_pipeline *p, struct orr_graph *g, int64_t samples);

ORR_END
#endif
