#include "orrery/timeline.h"

const char *orr_transfer_name(enum orr_transfer_kind kind)
{
	static const char *const names[] = {"activation", "gradient",        "stash",
					    "parameter",  "weight_gradient", "all_reduce"};

	return names[kind];
}
