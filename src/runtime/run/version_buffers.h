#pragma once
/* Versions of parameters (schedule/versions.h) in buffers, in a schedule without a flush. The
 * submitting thread alone says which version lies in which buffer, so tasks need no counts of
 * readers: a buffer is written again when the last microbatch that reads its content has been
 * submitted, and StarPU makes the writer wait for that reader. */
#include "orrery/run.h"
#include "runtime/tasks/slots.h"

/* Of an owner: as many buffers as versions are held at once. */
struct orr_held {
	struct orr_version *versions; /* NULL: not here */
	int n_versions, latest;
	int n_used; /* of them, ever */
};

struct orr_version_buffers {
	struct orr_slots *slots; /* borrowed */
	struct orr_held *held;   /* [n_owned] */
	int64_t *first_update;   /* [n_stages] updates before the pipeline was last empty */
	struct orr_run_versions *measured; /* [n_stages] by the tasks that ran here */
};

/* The parameters' blocks, and more like them. Nothing where the schedule flushes. */
void orr_version_buffers_init(struct orr_version_buffers *buffers, struct orr_slots *slots);

/* Nothing is in flight, after n_steps steps of training: the parameters there are count as version
 * 0. */
void orr_version_buffers_restart(struct orr_version_buffers *buffers, int64_t n_steps);

/* Job j of the slot's round reads the version that versions.h says. */
void orr_version_buffers_choose(struct orr_version_buffers *buffers, struct orr_slot *slot, int j);
/* Update q of the slot's round makes the next version of owner i's parameters. Their buffer changes
 * where the version before is still to be read. */
void orr_version_buffers_advance(struct orr_version_buffers *buffers, struct orr_slot *slot, int i,
				 int q);

/* The first n_microbatches of a round have ended: measure what they read here. */
void orr_version_buffers_measure(struct orr_version_buffers *buffers, const struct orr_slot *slot,
				 int n_microbatches);
/* Fill stages[n_stages] with the measurements of all ranks. Collective. */
int orr_version_buffers_report(const struct orr_version_buffers *buffers,
			       struct orr_run_versions *stages, struct orr_error *err);
