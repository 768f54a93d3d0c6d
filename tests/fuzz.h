#pragma once
/* What libFuzzer calls, and replay.c. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/orrery.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct orr_graph;
/* It can be written, read back to the same, and cut. (fuzz_models.c) */
void fuzz_model(const struct orr_graph *g);

static inline void fail(const char *what, const char *msg)
{
	fprintf(stderr, "%s: %s\n", what, msg);
	abort();
}

/* It is one line. */
static inline void check_refusal(const struct orr_error *err)
{
	if (!*err->msg || strchr(err->msg, '\n'))
		fail("not one line", err->msg);
}
