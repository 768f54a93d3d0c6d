#pragma once
/* How many blocks of memory the jobs of a worker may hold at once for other ranks: `prefetch` and
 * one more. */
#include <starpu.h>
#include "runtime/tasks/work.h"
#include "schedule/places.h"

struct orr_credits {
	int n_handles;
	starpu_data_handle_t *handles; /* [n_handles] */
	starpu_data_handle_t *of;      /* [n_jobs] which one the job takes; NULL: none */
};

int orr_credits_init(struct orr_credits *credits, const struct orr_work *work, int prefetch,
		     enum orr_place place, struct orr_error *err);
void orr_credits_fini(struct orr_credits *credits);

/* Uses of block from here on, in this mode, wait for job j's credit; and the credit waits for uses
 * of block before. */
int orr_credit_take(const struct orr_credits *credits, int j, starpu_data_handle_t block,
		    enum starpu_data_access_mode mode, struct orr_error *err);
