#ifndef ORR_ENGINE_H
#define ORR_ENGINE_H
/* What the parts of a run share: run.c (its life), data.c (handles), slots.c and submit.c (a step's
 * tasks), rounds.c (rounds and versions), credits.c, cross.c and ring.c (what goes between ranks),
 * finite.c (divergence), gather.c (what rank 0 is told) and watch.c (waiting and giving up).
 * Private to them and to their tests. */
#include <pthread.h>
#include <stdatomic.h>
#include <starpu.h>
#include "codelets/codelets.h"
#include "orrery/dataset.h"
#include "orrery/jobs.h"
#include "orrery/timeline.h"
#include "runtime/tasks/data.h"
#include "runtime/devices/hardware.h"
#include "runtime/tasks/policy.h"
#include "runtime/peers/messages.h"
#include "hooks.h"

/* Tasks that may be in flight at once; a step can be larger. */
#define ORR_MOST_TASKS 20000

/* What tags tell apart. */
enum orr_tag {
	ORR_TAG_ACTIVATION,
	ORR_TAG_GRADIENT,
	ORR_TAG_STASH,
	ORR_TAG_WHOLE,
	ORR_TAG_PARAMETER,
	ORR_TAG_PARTIAL,
	ORR_TAG_GATE,
	ORR_TAG_RING,
	ORR_TAG_READY
};
#define ORR_TAGS 9

/* ---- slots.c and submit.c ---- */

enum orr_state { ORR_STATE_WAITING, ORR_STATE_STARTED, ORR_STATE_DONE };

/* One task of one step; laid out once, used by every step that takes the slot. */
struct orr_job_task {
	struct orr_queued queued;
	struct orr_codelet_arg arg;
	struct orr_run *run;
	struct orr_slot *slot;
	struct starpu_task *task;
	int64_t *start_ns, *end_ns; /* where the measured times go; NULL: nowhere */
	int owned;                  /* of an update, to note its version; else -1 */
	/* in a stream: the version that it reads, the one that it writes (may be NULL) from it, by
	 * so many later, and which one was really there when it ran */
	struct orr_version *reads, *writes;
	int later;
	int64_t seen;
	atomic_uchar state;
};

/* A step in flight, or a round of a stream. */
struct orr_slot {
	int64_t step;
	int64_t round;               /* in a stream, since it began */
	int64_t first_sample;        /* of the step, from the start of training */
	starpu_data_handle_t *block; /* [n_stages * n_microbatches] the data's columns; NULL
					without inputs */
	float *columns;              /* what lies behind them, in main memory */
	struct orr_job_task *jobs;   /* [n_jobs] */
	struct orr_job_task *adds;   /* [n_jobs], of the jobs with a partial gradient */
	/* [n_owned * n_updates] update q of owner i at q * n_owned + i; copies: what it starts
	 * from, where that is still held */
	struct orr_job_task *updates, *copies, *reduces, *readies;
	struct orr_job_task **rings; /* likewise: 3 for each chunk where it rings; else NULL */
	struct orr_job_task *checks; /* [n_owned] of gradients, where a step may be left out */
	struct orr_metrics *metrics; /* [n_stages * n_microbatches], in pinned memory */
	int64_t *wild; /* [n_owned * n_updates] likewise: the first float of the gradient whose
			  square is not finite, or INT64_MAX */
	bool skipped;  /* its updates were left out */
	struct orr_timeline *timeline;
	bool *submitted;      /* [n_jobs] */
	int *n_added;         /* [n_owned] contributors whose adding has been submitted */
	int *n_left;          /* [n_stages] jobs still to submit before the update */
	atomic_int n_running; /* tasks of the step that have not finished, and 1 while it is
				 submitted */
	int64_t end_ns;
	bool ended; /* guarded by the mutex */
};

/* How many blocks of memory the jobs of a worker may hold at once: `prefetch` and one more. */
struct orr_credits {
	starpu_data_handle_t *handles; /* [n_workers * (prefetch + 1)] NULL: not here */
	int *of;                       /* [n_jobs] which one the job takes, or -1: none */
};

struct orr_run {
	const struct orr_jobs *jobs;
	const struct orr_pipeline *pipeline;
	const struct orr_dataset *dataset;
	struct orr_run_options options;
	struct orr_run_hooks hooks;
	struct orr_program **programs; /* [n_stages] */
	/* Which rank this is, of how many, and which has worker w. Each rank submits its own jobs
	 * and what crosses, in an order that is part of one order of all jobs. */
	int rank, n_ranks;
	int *rank_of;  /* [n_workers] */
	int *sequence; /* [n_sequence] jobs that are computed here, or read what is owned here */
	int n_sequence;
	int *n_readers;  /* [n_stages] jobs that read parameters which are owned here */
	int most_owners; /* of a stage */
	int n_updates;   /* of a stage in a step at most; 1 where there is a flush */
	struct orr_credits arriving, leaving; /* parameters, and weight gradients for others */
	int64_t first_tag[ORR_TAGS], n_tags;
	int64_t clock_ns;     /* to add to StarPU's clock here to have one that all ranks share */
	size_t *report_bytes; /* [n_ranks] */
	void *report;         /* what this rank tells rank 0 of a step; on rank 0, of one rank */
	struct orr_policy *policy;
	struct orr_codelet_common common;
	struct orr_data data;
	struct orr_reduce {
		struct {
			int n, *devices;
			struct orr_nccl *nccl;
		} * groups; /* [n_groups], of n_stages at most */
		int n_groups;
		starpu_data_handle_t *chain; /* [n_workers] at the first worker of a device */
	} reduce;
	/* Steps that may be in flight at once: the next one is submitted while this one runs. */
	int window;
	struct orr_slot *slots;        /* [window] */
	struct orr_timeline *timeline; /* of the last whole step that finished */
	bool has_timeline;
	int64_t *rows;                   /* [batch] */
	int64_t n_submitted, n_finished; /* steps, or rounds of a stream */
	int64_t n_steps;                 /* since the start of training */
	bool stream;                     /* rounds without a flush, not steps */
	int64_t *turn;                   /* [n_workers] in a stream, the next one */
	int64_t *first_update;           /* [n_stages] updates before the stream began */
	int64_t first_round;             /* rounds before it began */
	int64_t n_told;     /* steps that have ended, n_steps when nothing is in flight */
	int64_t n_skipped;  /* of them, since orr_run_create */
	int n_skipped_last; /* the last of them in a row */
	atomic_bool stop;   /* this rank is asked to end */
	bool ends;          /* all agree that no further step begins */
	struct orr_run_versions *versions; /* [n_stages] likewise, what was measured here */
	atomic_llong n_fetched;            /* parameters that were asked for ahead */
	int64_t last_end_ns;
	int64_t resident_before, resident_peak; /* of this process; -1: not known */
	bool waits, took_starpu, starpu_runs;   /* how far orr_run_create came */
	bool pinned; /* (tests) StarPU's workerorder instead of our policy */
	unsigned n_pinned[STARPU_NMAXWORKERS];
	struct {
		int64_t n, bytes;
	} moved[STARPU_MAXNODES][STARPU_MAXNODES]; /* from, to */
	int hook;                                  /* StarPU's number of the idle hook, or -1 */

	/* between the workers' callbacks and the thread that waits */
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	atomic_llong n_tasks, n_done; /* tasks, ever */
	atomic_llong wake_at;         /* n_done at which the waiting thread wants to know */
	int failed;                   /* code of the first failure */
	bool drained;                 /* after a failure: nothing is left in StarPU */
};

/* Samples in microbatch b. */
static inline int orr_run_samples(const struct orr_run *run, int b)
{
	int n = run->pipeline->n_microbatches;

	return run->options.batch / n + (b < run->options.batch % n);
}
static inline int orr_run_first_sample(const struct orr_run *run, int b)
{
	int n = run->pipeline->n_microbatches, batch = run->options.batch;

	return b * (batch / n) + (b < batch % n ? b : batch % n);
}
/* Does this rank have worker w? */
static inline bool orr_run_has(const struct orr_run *run, int w)
{
	return run->rank_of[w] == run->rank;
}
static inline bool orr_run_computes(const struct orr_run *run, int j)
{
	return orr_run_has(run, run->jobs->compute[j]);
}
/* Does job j need parameters? */
static inline bool orr_run_learns(const struct orr_run *run, int j)
{
	return orr_program_n_parameters(run->programs[orr_jobs_at(run->jobs, j).s]) > 0;
}
static inline int64_t orr_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
/* ---- slots.c ---- */

int orr_slots_init(struct orr_run *run, struct orr_error *err);
void orr_slots_fini(struct orr_run *run);
/* The slot's next step begins: until orr_watch_done has been called once for the slot itself, it
 * does not end. */
int orr_slot_begin(struct orr_run *run, struct orr_slot *slot, struct orr_error *err);

/* ---- submit.c ---- */

int orr_submit_step(struct orr_run *run, struct orr_slot *slot, struct orr_error *err);
/* Parts of it: job j, computed here, with what it takes from and has for other ranks. */
int orr_submit_job(struct orr_run *run, struct orr_slot *slot, int j, int64_t turn,
		   struct orr_error *err);
/* Update q of the step by all owners of s that are here, which make the sum of their gradients
 * first where they ring. */
int orr_submit_updates(struct orr_run *run, struct orr_slot *slot, int s, int q,
		       struct orr_error *err);
/* partial, from offset on, to sum: over it, or added to it. t is one of the slot's. */
int orr_submit_add(struct orr_run *run, struct orr_job_task *t, starpu_data_handle_t partial,
		   starpu_data_handle_t sum, bool overwrite, int64_t offset, int64_t n_floats,
		   struct orr_error *err);

/* ---- run.c ---- */

/* Wait until the slot's step has ended, and take its times (whole: all of it ran) and metrics. */
int orr_run_end_slot(struct orr_run *run, struct orr_slot *slot, bool whole, struct orr_error *err);

/* ---- rounds.c ---- */

/* Before StarPU starts: how much is in flight; refuses what does not fit. Then the buffers. */
int orr_stream_plan(struct orr_run *run, struct orr_error *err);
int orr_stream_init(struct orr_run *run, struct orr_error *err);
void orr_stream_fini(struct orr_run *run);
/* As orr_run_train; a stream starts empty and is drained at the end. */
int orr_stream_train(struct orr_run *run, int64_t n,
		     void (*visit)(void *user, const struct orr_step *step), void *user,
		     struct orr_error *err);
/* The latest parameters of o become the version that update q of the slot's round makes. Their
 * buffer changes where an older version is still to be read. */
int orr_stream_advance(struct orr_run *run, struct orr_slot *slot, int i, int q,
		       struct orr_error *err);

/* ---- credits.c ---- */

/* Who takes which credit; run->sequence has all jobs. */
int orr_credits_plan(struct orr_run *run, struct orr_error *err);
int orr_credits_init(struct orr_run *run, struct orr_error *err); /* StarPU has started */
void orr_credits_fini(struct orr_run *run);
starpu_data_handle_t orr_credit_of(const struct orr_credits *credits, int j); /* or NULL */
/* What uses block from here on, in this mode, waits for job j's credit; and the credit for what
 * used block before. */
int orr_credit_take(const struct orr_credits *credits, int j, starpu_data_handle_t block,
		    enum starpu_data_access_mode mode, struct orr_error *err);

/* o's part in the sum over the owners of its stage, after gate and its chain so far. */
int orr_submit_reduce(struct orr_run *run, struct orr_job_task *t, const struct orr_owned *o,
		      starpu_data_handle_t gate, struct orr_error *err);

/* ---- cross.c ---- */

int orr_cross_init(struct orr_run *run, struct orr_error *err);
/* What job j, computed here, takes from other ranks; before it is submitted. */
int orr_cross_receive(struct orr_run *run, const struct orr_slot *slot, int j,
		      struct orr_error *err);
/* What it has for other ranks; after it was submitted. */
int orr_cross_send(struct orr_run *run, const struct orr_slot *slot, int j, struct orr_error *err);
/* The parameters for job j, computed elsewhere, which are owned here. */
int orr_cross_serve(struct orr_run *run, const struct orr_slot *slot, int j, struct orr_error *err);
/* And its weight gradient. */
int orr_cross_receive_partial(struct orr_run *run, const struct orr_slot *slot, int j,
			      starpu_data_handle_t partial, struct orr_error *err);
/* Does F of s and b wait, for the cap, for a job of another rank than its own? */
bool orr_cross_gate(const struct orr_run *run, int s, int b);
/* A message of the slot's step. */
struct orr_message orr_cross_message(const struct orr_slot *slot, enum orr_tag tag, int64_t at,
				     starpu_data_handle_t handle, int other);

/* ---- ring.c ---- */

/* Are the owners of s on several ranks? */
bool orr_ring_is_spread(const struct orr_run *run, int s);
int orr_ring_init(struct orr_run *run, struct orr_error *err);
void orr_ring_fini(struct orr_run *run);
int orr_ring_slot_init(struct orr_run *run, struct orr_slot *slot, struct orr_error *err);
/* All-reduce the gradients of the owners of s that are here with the others, for update q. */
int orr_ring_submit(struct orr_run *run, struct orr_slot *slot, int s, int q,
		    struct orr_error *err);

/* ---- reduce.c ---- */

int orr_reduce_init(struct orr_run *run, struct orr_error *err);
void orr_reduce_fini(struct orr_run *run);
/* All-reduce the gradients of the owners of s, each on a device of its own, with what is here of
 * them. */
int orr_reduce_submit(struct orr_run *run, struct orr_slot *slot, int s, int q,
		      struct orr_error *err);
/* Pure: the devices whose owners of stage s NCCL adds up, into devices[owners of s]; how many, or
 * 0: it does not. device_of[w]: -1 where w has none. alone: one owner is enough. */
int orr_reduce_devices(const struct orr_jobs *jobs, int s, const int *device_of, bool alone,
		       int *devices);

/* ---- finite.c ---- */

/* The slot has ended, here. ORR_E_DIVERGED where the first loss or gradient in it that is not
 * finite ends training; first_step is the number of its first step, from 0. Sets run->ends. All
 * ranks call it with the same outcome. */
int orr_finite_check(struct orr_run *run, const struct orr_slot *slot, int64_t first_step,
		     struct orr_error *err);
/* Before any update of the slot's step: is all of it finite, on every rank? */
int orr_finite_judge(struct orr_run *run, const struct orr_slot *slot, bool *finite,
		     struct orr_error *err);

/* ---- gather.c ---- */

int orr_gather_init(struct orr_run *run, struct orr_error *err);
/* Rank 0 learns when the others' jobs ran and what came out; the slot's step has ended here. */
int orr_gather_step(struct orr_run *run, struct orr_slot *slot, struct orr_error *err);

/* ---- watch.c ---- */

/* One more task has finished. */
void orr_watch_done(struct orr_run *run, struct orr_slot *slot);
/* Wait until the slot's step has finished, or, without a slot, until so many tasks have. When
 * nothing finishes for too long: ORR_E_RUNTIME, and a message that says which worker waits for
 * what. */
int orr_watch_wait(struct orr_run *run, const struct orr_slot *slot, int64_t n_done,
		   struct orr_error *err);
/* After a failure: cancel what is in flight and wait for it, but not forever; sets run->drained. */
void orr_watch_drain(struct orr_run *run);
#endif
