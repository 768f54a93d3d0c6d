/* What this is, and what it was built with. */
#include "orrery.h"

#include "graph.h"
#include "replay.h"
#include "sizes.h"
#include "try.h"
#include "untested.h"

const char *orr_version(void)
{
	return ORR_VERSION;
}

static const struct orr_size sizes[] = {
	ORR_SIZE_OF(struct orr_edge),
	ORR_SIZE_OF(struct orr_error),
	ORR_SIZE_OF(struct orr_gang),
	ORR_SIZE_OF(struct orr_levels),
	ORR_SIZE_OF(struct orr_machine),
	ORR_SIZE_OF(struct orr_numerics),
	ORR_SIZE_OF(struct orr_pipeline),
	ORR_SIZE_OF(struct orr_placed),
	ORR_SIZE_OF(struct orr_replay_options),
	ORR_SIZE_OF(struct orr_schedule),
	ORR_SIZE_OF(struct orr_stage),
	ORR_SIZE_OF(struct orr_study_costs),
	ORR_SIZE_OF(struct orr_try),
	ORR_SIZE_OF(struct orr_untested),
	{NULL, 0},
};
const struct orr_size *const orr_sizes = sizes;
