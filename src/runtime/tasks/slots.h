#pragma once
/* Steps in flight, or rounds of a schedule without a flush. A slot has all that the tasks of a step
 * need, used again by every step that takes the slot. */
#include "data.h"
#include "orrery/timeline.h"
#include "samples.h"
#include "task.h"

struct orr_nccl;
struct orr_batch; /* of tasks */

/* Devices that NCCL joins to add up gradients. */
struct orr_device_group {
	int n, *devices;
	int s;                 /* the first stage that it adds up */
	struct orr_nccl *nccl; /* NULL: no member is here */
};

struct orr_slot {
	int number; /* among the slots */
	struct orr_flight flight;
	int64_t round; /* without a flush, since the pipeline was last empty */
	struct orr_samples samples;
	struct orr_task *jobs;    /* [n_jobs] */
	struct orr_task *updates; /* [n_owned * n_updates] update q of owner i at q * n_owned + i */
	struct orr_batch *first, *last; /* all other tasks, those of orr_slots_task */
	struct orr_metrics *metrics;    /* [n_losses * n_microbatches], in pinned memory */
	int64_t *wild;      /* [n_owned * n_updates] the same: the first float of the gradient whose
			       square is not finite, or INT64_MAX */
	bool skipped;       /* its updates were left out */
	double norm, scale; /* of its gradients, where they are clipped; NaN and 1 elsewhere */
	struct orr_timeline *timeline;
	bool *submitted; /* [n_jobs] */
	int *n_added;    /* [n_owned] contributors whose adding has been submitted */
	int *n_left;     /* [n_stages] jobs still to submit before the update */
};

struct orr_slots {
	struct orr_data *data; /* these four are borrowed */
	struct orr_submitter *submitter;
	struct orr_watch *watch;
	const struct orr_dataset *dataset;
	struct orr_rule rule; /* what is the same in all updates */
	uint64_t seed;
	double timeout_s;
	bool skips; /* steps may be left out */
	/* asked every second while the submitting thread waits whether one has failed on its own */
	struct orr_device_group *groups; /* [n_groups]; peers/reduce.c's */
	int n_groups;
	/* set by orr_slots_init */
	struct orr_slot *slots;          /* [work->window] */
	int64_t *rows;                   /* [batch] */
	int64_t n_submitted, n_finished; /* steps or rounds */
};

/* The members of *slots above that line are set; groups may come later. */
void orr_slots_init(struct orr_slots *slots);
void orr_slots_fini(struct orr_slots *slots);

/* The slot of a step or round, by its number since orr_slots_init or a checkpoint. */
struct orr_slot *orr_slots_at(const struct orr_slots *slots, int64_t n);

/* The next step begins in the slot, whose last one has ended; samples.first is set. Until
 * orr_watch_done has been called once for the slot's flight itself, it does not end. */
int orr_slots_begin(struct orr_slots *slots, struct orr_slot *slot, struct orr_error *err);

/* Before the submitting thread waits for the jobs of the step that was begun last, of a schedule
 * that flushes: gather the samples of the one after it meanwhile. What is wrong with them is said
 * when that begins. */
void orr_slots_look_ahead(const struct orr_slots *slots);

/* Another task of the slot's step, without a turn, on worker w; it lasts until that step has ended.
 */
struct orr_task *orr_slots_task(const struct orr_slots *slots, struct orr_slot *slot, int w);

/* n_floats of a block, from `from` on, are added to those of another, from `to` on, or written over
 * these, or are all of it from now on. */
enum orr_adding { ORR_ADD_TO, ORR_ADD_OVER, ORR_ADD_ALL };
/* Worker w does. */
void orr_slots_add(const struct orr_slots *slots, struct orr_slot *slot, int w, enum orr_adding way,
		   starpu_data_handle_t block, int64_t from, starpu_data_handle_t into, int64_t to,
		   int64_t n_floats);

/* The stage whose gradients a group adds up at the moment, or the first that it can. */
int orr_slots_adds_up(const struct orr_slots *slots, const struct orr_device_group *group);

/* A timeline with the places of all updates. */
int orr_slots_timeline(struct orr_timeline **out, const struct orr_data *data,
		       struct orr_error *err);
