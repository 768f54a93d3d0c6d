#include "searching.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "orrery/quantity.h"
#include "orrery/search.h"

struct searching {
	bool units, open; /* open: a line on the terminal that has not ended */
	double next;      /* seconds: not before */
};

static struct searching state;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void show(void *user, int64_t best_ns, int64_t bound_ns)
{
	struct searching *s = user;
	bool terminal = isatty(STDERR_FILENO);
	char best[32], bound[32];

	if (now() < s->next)
		return;
	s->next = now() + (terminal ? 0.1 : 1);
	fprintf(stderr, "%ssearch: best so far %s, none below %s%s", terminal ? "\r" : "",
		orr_duration_print(best, sizeof(best), best_ns, s->units),
		orr_duration_print(bound, sizeof(bound), bound_ns, s->units),
		terminal ? "    " : "\n");
	s->open = terminal;
}

void searching_show(bool units)
{
	state = (struct searching){.units = units, .next = now() + 1};
	orr_search_watch(show, &state);
}

void searching_end(void)
{
	if (state.open)
		fprintf(stderr, "\n");
	state.open = false;
	orr_search_watch(NULL, NULL);
}
