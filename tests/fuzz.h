#pragma once
/* What libFuzzer calls, and replay.c. */
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct orr_error;
struct orr_graph;
/* It can be written, read back to the same, and cut. (fuzz_models.c) */
void fuzz_model(const struct orr_graph *g);
/* It is one line. */
void fuzz_refusal(const struct orr_error *err);
