#include "late.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include "messages.h"

/* What has come, and is held until its time: in the order of arrival, since all wait as long. */
struct late {
	starpu_data_handle_t handle;
	struct timespec due;
	struct late *next;
};

static struct {
	int us;
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct late *first, **end;
	bool runs, stops;
} link_;

void orr_ranks_delay_data(int us)
{
	link_.us = us;
}

static void *release(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&link_.mutex);
	while (link_.first || !link_.stops) {
		struct late *late = link_.first;
		struct timespec now;

		clock_gettime(CLOCK_MONOTONIC, &now);
		if (!late) {
			pthread_cond_wait(&link_.changed, &link_.mutex);
		} else if (now.tv_sec < late->due.tv_sec ||
			   (now.tv_sec == late->due.tv_sec && now.tv_nsec < late->due.tv_nsec)) {
			pthread_cond_timedwait(&link_.changed, &link_.mutex, &late->due);
		} else {
			if (!(link_.first = late->next))
				link_.end = &link_.first;
			pthread_mutex_unlock(&link_.mutex);
			starpu_data_release(late->handle);
			free(late);
			pthread_mutex_lock(&link_.mutex);
		}
	}
	pthread_mutex_unlock(&link_.mutex);
	return NULL;
}

int orr_late_start(void)
{
	pthread_condattr_t attributes;
	int code;

	if (!link_.us)
		return 0;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&link_.changed, &attributes);
	pthread_condattr_destroy(&attributes);
	pthread_mutex_init(&link_.mutex, NULL);
	link_.end = &link_.first;
	link_.stops = false;
	code = pthread_create(&link_.thread, NULL, release, NULL);
	link_.runs = !code;
	return code;
}

void orr_late_stop(void)
{
	if (!link_.runs)
		return;
	pthread_mutex_lock(&link_.mutex);
	link_.stops = true;
	pthread_cond_signal(&link_.changed);
	pthread_mutex_unlock(&link_.mutex);
	pthread_join(link_.thread, NULL);
	pthread_mutex_destroy(&link_.mutex);
	pthread_cond_destroy(&link_.changed);
	link_.runs = false;
}

/* StarPU calls this when it has come. */
static void came(void *user)
{
	struct late *late = user;
	int64_t ns;

	pthread_mutex_lock(&link_.mutex);
	clock_gettime(CLOCK_MONOTONIC, &late->due);
	ns = late->due.tv_nsec + (int64_t)link_.us * 1000;
	late->due.tv_sec += ns / 1000000000;
	late->due.tv_nsec = ns % 1000000000;
	*link_.end = late;
	link_.end = &late->next;
	pthread_cond_signal(&link_.changed);
	pthread_mutex_unlock(&link_.mutex);
}

int orr_late_read(starpu_data_handle_t handle, struct orr_error *err)
{
	struct late *late;

	if (!link_.runs)
		return 0;
	if (!(late = calloc(1, sizeof(*late))))
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for a message that is late");
	late->handle = handle;
	if (!starpu_data_acquire_cb(handle, STARPU_RW, came, late))
		return 0;
	free(late);
	return orr_fail(err, ORR_E_RUNTIME, "run: StarPU does not hold a message back");
}
