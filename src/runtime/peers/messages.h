#pragma once
/* What orrery/run.h has for StarPU's data. */
#include <starpu.h>
#include "orrery/run.h"
#include "orrery/figures.h"
#include "runtime/tasks/work.h"

/* starpu_init, with StarPU's MPI where there are several ranks; a code of StarPU's. received (NULL,
 * but in tests) is called after the start of each receive. */
int orr_ranks_init_starpu(struct starpu_conf *conf,
			  int (*received)(starpu_data_handle_t handle, struct orr_error *err));
void orr_ranks_shutdown_starpu(void);

/* kind: what it counts as; ORR_RANKS_ORDER: nothing, it only orders jobs. tag: the same on both
 * sides, and of no other message in flight. */
enum { ORR_RANKS_ORDER = ORR_TRANSFER_KINDS };
struct orr_message {
	starpu_data_handle_t handle;
	int kind, other; /* the rank at the other end */
	int64_t tag;
	int priority; /* higher first */
	bool waits;   /* leave only when the receiver has asked for it */
};
/* Start to send or to receive it, unless something failed before: it takes its turn among the tasks
 * that use the handle as a task that reads or writes it would. */
void orr_message_pass(const struct orr_work *work, struct orr_message m, bool sends);
