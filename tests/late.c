#include "late.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

static int late_us;

/* What has come is held until its timer ends. */
struct late {
	starpu_data_handle_t handle;
	timer_t timer;
};

/* The timer has ended: in a thread of its own. */
static void release(union sigval user)
{
	struct late *late = user.sival_ptr;

	timer_delete(late->timer);
	starpu_data_release(late->handle);
	free(late);
}

/* StarPU calls this when it has come. */
static void came(void *user)
{
	struct late *late = user;
	struct itimerspec due = {.it_value = {late_us / 1000000, late_us % 1000000 * 1000L}};

	timer_settime(late->timer, 0, &due, NULL);
}

/* handle is received: what is submitted from here on reads it so much later than it came. */
static int hold_back(starpu_data_handle_t handle, struct orr_error *err)
{
	struct late *late = calloc(1, sizeof(*late));
	struct sigevent ends = {.sigev_notify = SIGEV_THREAD,
				.sigev_value.sival_ptr = late,
				.sigev_notify_function = release};

	if (!late || timer_create(CLOCK_MONOTONIC, &ends, &late->timer)) {
		free(late);
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for a message that is late");
	}
	late->handle = handle;
	if (!starpu_data_acquire_cb(handle, STARPU_RW, came, late))
		return 0;
	timer_delete(late->timer);
	free(late);
	return orr_fail(err, ORR_E_RUNTIME, "run: StarPU does not hold a message back");
}

int (*late_by(int us))(starpu_data_handle_t handle, struct orr_error *err)
{
	late_us = us;
	return us ? hold_back : NULL;
}
