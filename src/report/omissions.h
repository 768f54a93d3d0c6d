#pragma once
/* What a schedule's CSV cannot say of the jobs that it is written from: it has rows of stage, pass
 * and microbatch, and nothing else. */
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_jobs;

#define ORR_MOST_OMISSIONS 8
#define ORR_OMISSION_TEXT 112
struct orr_omissions {
	int n;
	char text[ORR_MOST_OMISSIONS][ORR_OMISSION_TEXT]; /* "recomputation of 3 stages" */
};

void orr_omissions_find(struct orr_omissions *losses, const struct orr_jobs *jobs);

ORR_END
