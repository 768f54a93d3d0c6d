#ifndef ORR_CHAIN_H
#define ORR_CHAIN_H
/* The jobs that add to one gradient in place, one after the other. */
#include "task.h"

/* How the job of t accesses the gradient of o, which it adds to in place. */
enum starpu_data_access_mode orr_chain_mode(const struct orr_submitter *submitter,
					    const struct orr_owned *o, const struct orr_task *t);

/* All jobs that add to o's gradient have been submitted: what is submitted from now on and uses it
 * follows them. */
int orr_chain_close(const struct orr_submitter *submitter, const struct orr_owned *o,
		    struct orr_error *err);
#endif
