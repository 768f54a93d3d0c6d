#pragma once
/* Orders to start a search from: those of a list of schedules. Private to the search. */
#include <stdbool.h>
#include <stdint.h>
#include "orrery/orrery.h"
#include "orrery/pipeline.h"

struct orr_jobs;
struct orr_schedule;
struct orr_timeline;

struct orr_seeds {
	const struct orr_pipeline *p;
	const struct orr_schedule *const *schedules; /* NULL at the end; NULL: none */
	/* stage stashes that a worker may hold, by the largest and by the smallest of them; most 0:
	 * no limit */
	int64_t least_stashes, most_stashes;
	/* Is an order of these workers, numbered as stages first come to them, of use? */
	bool (*wanted)(void *user, const int *worker);
	/* n of every job, with a split backward. */
	int (*visit)(void *user, const int *worker, const int64_t *n);
	void *user;
};

/* Show every schedule of the list that serves the pipeline with one owner a stage, as a split
 * backward. Where nothing waits for a link, the order takes the time that the schedule takes. */
int orr_seeds_named(const struct orr_seeds *seeds, struct orr_error *err);
/* The same where a schedule lays out a whole step by its durations, as if every pass took as long
 * as any other one: what is written for such passes is often better so. Nothing where they do. */
int orr_seeds_evened(const struct orr_seeds *seeds, struct orr_error *err);
/* All of them with other values of their parameters, every word with every value of one number: all
 * values that can make a difference where a step is small, ever fewer of the larger ones where it
 * is not. */
int orr_seeds_swept(const struct orr_seeds *seeds, struct orr_error *err);
/* One schedule with its data as it is, wanted or not. One that does not serve the pipeline is no
 * seed, and no failure. */
int orr_seeds_lay_out(const struct orr_seeds *seeds, const struct orr_schedule *schedule,
		      struct orr_error *err);
/* Another order, if it suits: one worker a stage, which owns it. timeline: of a greedy order; of a
 * strict one it may be NULL. */
int orr_seeds_add(const struct orr_seeds *seeds, const struct orr_jobs *jobs,
		  const struct orr_timeline *timeline, struct orr_error *err);

/* Limit the stage stashes of a worker by bytes: as many of the largest, and of the smallest. */
void orr_seeds_limit(struct orr_seeds *seeds, int64_t bytes);

/* Workers by other names: 0 is that of stage 0, 1 the next one that comes, and so on. Fills
 * alike[n_stages]. Workers that differ keep their names. */
int orr_seeds_rename(int *alike, const int *worker, const struct orr_pipeline *p,
		     struct orr_error *err);
