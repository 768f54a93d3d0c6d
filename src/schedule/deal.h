#pragma once
struct orr_jobs;
struct orr_keyed;

/* by_worker and position, where first is there, from an order of all jobs. */
void orr_jobs_deal(struct orr_jobs *jobs, const struct orr_keyed *order, int n);
