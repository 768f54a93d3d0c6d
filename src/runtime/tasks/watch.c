#include "watch.h"

#include <errno.h>
#include <time.h>

void orr_watch_init(struct orr_watch *watch)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&watch->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	pthread_mutex_init(&watch->mutex, NULL);
}

void orr_watch_fini(struct orr_watch *watch)
{
	pthread_mutex_destroy(&watch->mutex);
	pthread_cond_destroy(&watch->changed);
}

int64_t orr_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
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

void orr_watch_take_back(struct orr_flight *flight)
{
	atomic_fetch_sub(&flight->n_running, 1);
	atomic_fetch_sub(&flight->watch->n_tasks, 1);
}

void orr_watch_done(struct orr_flight *flight)
{
	struct orr_watch *watch = flight->watch;
	long long done = atomic_fetch_add(&watch->n_done, 1) + 1;
	bool ended = atomic_fetch_sub(&flight->n_running, 1) == 1;

	if (ended)
		flight->end_ns = orr_now_ns();
	if (ended || done == atomic_load(&watch->wake_at)) {
		pthread_mutex_lock(&watch->mutex);
		if (ended)
			flight->ended = true;
		pthread_cond_signal(&watch->changed);
		pthread_mutex_unlock(&watch->mutex);
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

	pthread_mutex_lock(&watch->mutex);
	atomic_store(&watch->wake_at, n_done);
	while (!(there = reached(watch, flight, n_done))) {
		int64_t deadline_ns = orr_now_ns() + (int64_t)(timeout_s * 1e9);
		struct timespec deadline = {deadline_ns / 1000000000, deadline_ns % 1000000000};
		long long now;

		if (pthread_cond_timedwait(&watch->changed, &watch->mutex, &deadline) != ETIMEDOUT)
			continue;
		now = atomic_load(&watch->n_done);
		if (now == seen && !reached(watch, flight, n_done))
			break;
		seen = now;
	}
	pthread_mutex_unlock(&watch->mutex);
	return there;
}
