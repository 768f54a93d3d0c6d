#pragma once
/* One task of a step. */
#include <stdatomic.h>
#include <starpu.h>
#include "codelets/codelets.h"
#include "orrery/orrery.h"
#include "data.h"
#include "policy.h"
#include "watch.h"

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
	unsigned n_pinned[STARPU_NMAXWORKERS];
};

/* A task without a turn, on worker w. */
void orr_task_init(struct orr_task *t, const struct orr_submitter *submitter,
		   struct orr_flight *flight, int w);

/* The reason why a kernel could not be started; NULL: all were. */
const char *orr_task_failure(const struct orr_submitter *submitter);

/* A StarPU task under construction: its buffers, in the order that codelets.h says. */
struct orr_buffers {
	struct starpu_task *task;
	starpu_data_handle_t *handles;
	enum starpu_data_access_mode *modes;
	int n;
};

/* For at most `most` buffers; ends with orr_task_submit. */
int orr_buffers_init(struct orr_buffers *buffers, enum orr_codelet codelet, int most,
		     struct orr_error *err);
/* NULL adds nothing. */
void orr_buffers_add(struct orr_buffers *buffers, starpu_data_handle_t handle,
		     enum starpu_data_access_mode mode);

int orr_task_submit(struct orr_submitter *submitter, struct orr_task *t,
		    const struct orr_buffers *buffers, struct orr_error *err);

/* A task that adds from one block to another, or writes over it, as t->arg says; mode: of the
 * second one. */
int orr_task_submit_add(struct orr_submitter *submitter, struct orr_task *t,
			starpu_data_handle_t from, starpu_data_handle_t to,
			enum starpu_data_access_mode mode, struct orr_error *err);
