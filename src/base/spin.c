#include "spin.h"

#include <sched.h>
#include <stdbool.h>

#include "clock.h"

#define ALONE_NS 5000 /* others have run if it takes longer to yield */
#define AWAKE_NS 500000
#define LONG_NS 100000000 /* it then sleeps also where nobody wants the core */
#define SLEEP_NS 1000000

static _Thread_local bool waits;
static _Thread_local int64_t since_ns; /* of one that waits; 0: since this look */

void orr_spin_wait(void)
{
	int64_t asked, now, waited;
	struct timespec pause = {0, 0};

	if (!waits) { /* mostly there is something right after, and clocks take their time */
		waits = true;
		since_ns = 0;
		sched_yield();
		return;
	}
	asked = orr_ns_now(CLOCK_MONOTONIC);
	if (!since_ns)
		since_ns = asked;
	sched_yield();
	now = orr_ns_now(CLOCK_MONOTONIC);
	waited = now - since_ns;
	if (waited < (now - asked < ALONE_NS ? LONG_NS : AWAKE_NS))
		return;
	pause.tv_nsec = (long)(waited / 100 < SLEEP_NS ? waited / 100 : SLEEP_NS);
	nanosleep(&pause, NULL);
}

void orr_spin_end(void)
{
	waits = false;
}
