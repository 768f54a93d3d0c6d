#ifndef ORR_TEST_FUZZ_H
#define ORR_TEST_FUZZ_H
/* What libFuzzer calls, and replay.c. */
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
#endif
