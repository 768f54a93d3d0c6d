#ifndef ORR_ERROR_H
#define ORR_ERROR_H
/* How a function fails: it returns a negative code and leaves one line that names the place and the
 * cure. The library never prints and never exits; tools/ does. */
#include "declare.h"

ORR_BEGIN

enum orr_code {
	ORR_OK = 0,
	ORR_E_NOMEM = -1,       /* no memory */
	ORR_E_INPUT = -2,       /* a file, an option or a schedule is wrong: exit code 2 */
	ORR_E_IO = -3,          /* a file could not be read or written */
	ORR_E_UNSUPPORTED = -4, /* this build, or this schedule, cannot do that */
	ORR_E_RUNTIME = -5,     /* the run failed: exit code 1 */
	ORR_E_DIVERGED = -6 /* training diverged: a loss, a gradient or a parameter is not finite;
			       exit code 1 */
};

/* A quantity that the caller chose and may change stands in brackets by its name: "0 workers: give
 * at least 1 ([workers])". A program can put its own name in that place: the command has options.
 */
struct orr_error {
	char msg[512];
};

/* Write the message (err may be NULL) and return code, so that a caller can `return orr_fail(...)`.
 */
int orr_fail(struct orr_error *err, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

ORR_END
#endif
