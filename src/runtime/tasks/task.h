#pragma once
/* One task of a step. */
#include <stdatomic.h>
#include <starpu.h>
#include "codelets/codelets.h"
#include "orrery/orrery.h"
#include "data.h"
#include "policy.h"
#include "watch.h"

struct orr_buffer;

enum orr_state { ORR_STATE_WAITING, ORR_STATE_STARTED, ORR_STATE_DONE };

struct orr_task {
	struct orr_queued queued;
	struct orr_codelet_arg arg;
	struct orr_flight *flight;
	struct starpu_task *task;
	int64_t *start_ns, *end_ns; /* where the measured times go; NULL: nowhere */
	int s;                      /* of a collective: the stage whose gradients it adds up */
	atomic_llong *n_updated;    /* of an update: becomes the number of steps applied; or NULL */
	/* (optional) the version that it reads; the one that it writes from that, `later` versions
	 * later; the version that was really there when it ran */
	struct orr_version *reads, *writes;
	int later;
	int64_t seen;
	atomic_uchar state;
};

/* What every submission needs. */
struct orr_submitter {
	struct orr_codelet_common *common; /* borrowed */
	const struct orr_policy *policy;   /* borrowed */
	bool flushes;                      /* a task's step and version are those of its flight */
	bool orders;                       /* workers run their jobs in order, with a turn each */
	bool pinned;                       /* (tests) StarPU's workerorder in place of our policy */
	struct orr_fault *fault;           /* borrowed */
	struct orr_buffer *buffers;        /* [n_buffers] owned; of the next task */
	int n_buffers, room;
	unsigned n_pinned[STARPU_NMAXWORKERS];
};

/* A task without a turn, on worker w. */
void orr_task_init(struct orr_task *t, const struct orr_submitter *submitter,
		   struct orr_flight *flight, int w);

/* The next task's next buffer, in the order that codelets.h says; NULL adds nothing. */
void orr_task_add(struct orr_submitter *submitter, starpu_data_handle_t handle,
		  enum starpu_data_access_mode mode);
/* With the buffers since the last one. */
void orr_task_submit(struct orr_submitter *submitter, struct orr_task *t, enum orr_codelet codelet);
