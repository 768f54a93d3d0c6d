#include "orrery/orrery.h"

#include <stdarg.h>
#include <stdio.h>

int orr_fail(struct orr_error *err, int code, const char *format, ...)
{
	va_list args;

	if (err) {
		va_start(args, format);
		(void)vsnprintf(err->msg, sizeof(err->msg), format, args);
		va_end(args);
	}
	return code;
}
