#ifndef ORR_PROFILED_H
#define ORR_PROFILED_H
/* What a graph's costs were measured on, as its file says it: profiled="cuda, bf16". */
#include <stddef.h>
#include "devices.h"
#include "numerics.h"
#include "error.h"

ORR_BEGIN

struct orr_profiled {
	enum orr_hardware hardware; /* AUTO: nobody says */
	enum orr_precision precision;
};

/* Of products on such hardware. A CPU core computes TF32 as FP32. */
struct orr_profiled orr_profiled_of(enum orr_hardware hardware, enum orr_precision precision);

/* Refuses what is not a device and a precision; what begins the message. */
int orr_profiled_parse(struct orr_profiled *profiled, const char *text, const char *what,
		       struct orr_error *err);
/* "cuda, bf16", of 16 bytes at most; returns text. */
const char *orr_profiled_print(char *text, size_t size, const struct orr_profiled *profiled);

ORR_END
#endif
