#include "watch.h"

#include <errno.h>

void orr_watch_init(struct orr_watch *watch)
{
	orr_condition_init(&watch->changed);
	starpu_pthread_mutex_init(&watch->mutex, NULL);
}

void orr_watch_fini(struct orr_watch *watch)
{
	starpu_pthread_mutex_destroy(&watch->mutex);
	starpu_pthread_cond_destroy(&watch->changed);
}

void orr_watch_begin(struct orr_flight *flight, int64_t step)
{
	flight->step = step;
	flight->ended = false;
	flight->open = true;
	atomic_store(&flight->n_running, 0);
	orr_watch_add(flight);
}

void orr_watch_add(struct orr_flight *flight)
{
	atomic_fetch_add(&flight->n_running, 1);
	atomic_fetch_add(&flight->watch->n_tasks, 1);
}

void orr_watch_done(struct orr_flight *flight)
{
	struct orr_watch *watch = flight->watch;
	long long done = atomic_fetch_add(&watch->n_done, 1) + 1;
	bool ended = atomic_fetch_sub(&flight->n_running, 1) == 1;

	if (ended)
		flight->end_ns = orr_clock_ns();
	if (ended || done == atomic_load(&watch->wake_at)) {
		starpu_pthread_mutex_lock(&watch->mutex);
		if (ended)
			flight->ended = true;
		starpu_pthread_cond_signal(&watch->changed);
		starpu_pthread_mutex_unlock(&watch->mutex);
	}
}

void orr_watch_submitted(struct orr_flight *flight)
{
	flight->open = false;
	orr_watch_done(flight);
}

static bool reached(const struct orr_watch *watch, const struct orr_flight *flight, int64_t n_done)
{
	return flight ? flight->ended : atomic_load(&watch->n_done) >= n_done;
}

bool orr_watch_wait(struct orr_watch *watch, const struct orr_flight *flight, int64_t n_done,
		    double timeout_s)
{
	long long seen = atomic_load(&watch->n_done);
	bool there;

	starpu_pthread_mutex_lock(&watch->mutex);
	atomic_store(&watch->wake_at, n_done);
	while (!(there = reached(watch, flight, n_done))) {
		int64_t deadline_ns = orr_clock_ns() + (int64_t)(timeout_s * 1e9);
		struct timespec deadline = {deadline_ns / 1000000000, deadline_ns % 1000000000};
		long long now;

		if (orr_condition_wait(&watch->changed, &watch->mutex, &deadline) != ETIMEDOUT)
			continue;
		now = atomic_load(&watch->n_done);
		if (now == seen && !reached(watch, flight, n_done))
			break;
		seen = now;
	}
	starpu_pthread_mutex_unlock(&watch->mutex);
	return there;
}
