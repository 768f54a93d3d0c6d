#pragma once
/* Nanoseconds of the system's clocks. */
#include <stdint.h>
#include <time.h>

static inline int64_t orr_ns_of(struct timespec t)
{
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* clock: CLOCK_MONOTONIC, or CLOCK_MONOTONIC_RAW, which is never adjusted. */
static inline int64_t orr_ns_now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return orr_ns_of(t);
}
