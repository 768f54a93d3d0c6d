#ifndef ORR_SLOTS_H
#define ORR_SLOTS_H
/* Steps in flight, or rounds of a schedule without a flush. A slot has all that the tasks of a step
 * need, laid out once and used again by every step that takes the slot. */
#include "data.h"
#include "orrery/timeline.h"
#include "samples.h"
#include "task.h"

struct orr_slot {
	int number; /* among the slots */
	struct orr_flight flight;
	int64_t round; /* without a flush, since the pipeline was last empty */
	struct orr_samples samples;
	struct orr_task *jobs;  /* [n_jobs] */
	struct orr_task *adds;  /* [n_jobs], of the jobs with a partial gradient */
	struct orr_task *joins; /* [n_stages] of those that gather: after all Bs of a stage */
	/* [n_owned * n_updates] update q of owner i at q * n_owned + i; copies: of what it starts
	 * from, where that is still held */
	struct orr_task *updates, *copies;
	struct orr_task *checks;     /* [n_owned] of gradients, where a step may be left out */
	struct orr_metrics *metrics; /* [n_losses * n_microbatches], in pinned memory */
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
	uint64_t seed;
	double timeout_s;
	bool skips; /* steps may be left out */
	/* (optional) asked every second while the submitting thread waits; not 0: it need not go on
	 */
	int (*ask)(void *asked, struct orr_error *err);
	void *asked;
	/* set by orr_slots_init */
	struct orr_slot *slots;          /* [work->window] */
	int64_t *rows;                   /* [batch] */
	int64_t n_submitted, n_finished; /* steps or rounds */
};

/* The members of *slots above that line are set. */
int orr_slots_init(struct orr_slots *slots, struct orr_error *err);
void orr_slots_fini(struct orr_slots *slots);

/* The slot of a step or round, by its number since orr_slots_init or a checkpoint. */
struct orr_slot *orr_slots_at(const struct orr_slots *slots, int64_t n);

/* The next step begins in the slot, whose last one has ended; samples.first is set. Until
 * orr_watch_done has been called once for the slot's flight itself, it does not end. */
int orr_slots_begin(struct orr_slots *slots, struct orr_slot *slot, struct orr_error *err);

/* A timeline with the places of all updates. */
int orr_slots_timeline(struct orr_timeline **out, const struct orr_data *data,
		       struct orr_error *err);
#endif
