#pragma once
/* Tasks in flight: counted by the threads that run them, waited for by the one that submits. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <starpu.h>
#include "simulated.h"

struct orr_watch {
	starpu_pthread_mutex_t mutex;
	starpu_pthread_cond_t changed;
	atomic_llong n_tasks, n_done; /* submitted and finished, ever */
	atomic_llong wake_at;         /* n_done at which the waiting thread wants to know */
	atomic_bool copies;           /* the state is being copied, which updates wait for */
};

/* A step in flight. Its submission counts as one task, so that it cannot end before all of it has
 * been submitted. */
struct orr_flight {
	struct orr_watch *watch; /* borrowed */
	int64_t step;
	int64_t sample;       /* the number of its first sample, counted from the first step on */
	atomic_int n_running; /* tasks that have not finished */
	int64_t end_ns;       /* of orr_clock_ns */
	bool open;            /* it is being submitted; the submitting thread's */
	bool ended;           /* guarded by the watch's mutex */
};

void orr_watch_init(struct orr_watch *watch);
void orr_watch_fini(struct orr_watch *watch);

/* flight begins, with its submission as the first task. */
void orr_watch_begin(struct orr_flight *flight, int64_t step);
/* A task more. */
void orr_watch_add(struct orr_flight *flight);
/* A task has finished, or could not be submitted. Any thread. */
void orr_watch_done(struct orr_flight *flight);
/* The submission has. */
void orr_watch_submitted(struct orr_flight *flight);

/* Wait until flight has ended, or, where it is NULL, until n_done tasks have. The deadline moves
 * with every task that ends; false: none did for timeout_s. */
bool orr_watch_wait(struct orr_watch *watch, const struct orr_flight *flight, int64_t n_done,
		    double timeout_s);
