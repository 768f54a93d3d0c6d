#pragma once
/* A StarPU for SimGrid simulates devices, their links and the time. It calls no codelet's function
 * (a task takes as long as its performance model says), and a thread that waits must wait for
 * simulated ones, by StarPU's own calls and clock. In every other StarPU these are the system's. */
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include <starpu.h>
#include "base/clock.h"

#ifdef STARPU_SIMGRID
#define ORR_IS_SIMULATED true
static inline int64_t orr_clock_ns(void)
{
	return (int64_t)(starpu_timing_now() * 1e3);
}
static inline void orr_condition_init(starpu_pthread_cond_t *condition)
{
	starpu_pthread_cond_init(condition, NULL);
}
/* Without the deadline, which SimGrid 3.32 cannot keep; where all wait it says so, and aborts. */
static inline int orr_condition_wait(starpu_pthread_cond_t *condition,
				     starpu_pthread_mutex_t *mutex, const struct timespec *deadline)
{
	(void)deadline;
	return starpu_pthread_cond_wait(condition, mutex);
}
#else
#define ORR_IS_SIMULATED false
/* CLOCK_MONOTONIC, and waiting until a time of it. */
static inline int64_t orr_clock_ns(void)
{
	return orr_ns_now(CLOCK_MONOTONIC);
}
static inline void orr_condition_init(starpu_pthread_cond_t *condition)
{
	starpu_pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	starpu_pthread_cond_init(condition, &attributes);
	pthread_condattr_destroy(&attributes);
}
static inline int orr_condition_wait(starpu_pthread_cond_t *condition,
				     starpu_pthread_mutex_t *mutex, const struct timespec *deadline)
{
	return starpu_pthread_cond_timedwait(condition, mutex, deadline);
}
#endif
