#ifndef ORR_LOSSES_H
#define ORR_LOSSES_H
/* What a schedule's CSV cannot say of the jobs that it is written from: it has rows of stage, pass
 * and microbatch, and nothing else. */
#include <stdbool.h>
#include "declare.h"

ORR_BEGIN

struct orr_jobs;

#define ORR_MOST_LOSSES 8
#define ORR_LOSS_TEXT 112
struct orr_losses {
	int n;
	char text[ORR_MOST_LOSSES][ORR_LOSS_TEXT]; /* "recomputation of 3 stages" */
};

void orr_losses_find(struct orr_losses *losses, const struct orr_jobs *jobs);

ORR_END
#endif
