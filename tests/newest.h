#pragma once
/* The newest whole checkpoint of a folder, opened by one process; ORR_E_INPUT: there is none. */
#include "orrery/run.h"

static inline int open_newest(struct orr_checkpoint **out, const char *path,
			      void (*report)(const char *line), struct orr_error *why)
{
	int64_t step, last = INT64_MAX;
	int code;

	while (!(code = orr_checkpoint_find(path, last, &step, report, why))) {
		if (step < 0)
			return orr_fail(why, ORR_E_INPUT, "%s: no checkpoint there is whole", path);
		if (!orr_checkpoint_open(out, path, step, 0, 1, why))
			return 0;
		if (report)
			report(why->msg);
		last = step - 1;
	}
	return code;
}
