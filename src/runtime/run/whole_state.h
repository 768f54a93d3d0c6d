#ifndef ORR_WHOLE_STATE_H
#define ORR_WHOLE_STATE_H
/* The optimizer's state of a stage whose replicas each keep a part, put together for a checkpoint,
 * which has it whole, and taken apart again. */
#include "orrery/error.h"

struct orr_owned;
struct orr_run;

/* Collective: state[s], which the caller frees, becomes that of stage s where its first owner is
 * here and its replicas divide it; NULL elsewhere. */
int orr_whole_state_gather(float **state, const struct orr_run *run, struct orr_error *err);

/* Room for the state of o's stage. */
int orr_whole_state_room(float **state, const struct orr_run *run, const struct orr_owned *o,
			 struct orr_error *err);
/* Of the whole state the part that o keeps. */
void orr_whole_state_take(float *part, const struct orr_run *run, const struct orr_owned *o,
			  const float *whole);
#endif
