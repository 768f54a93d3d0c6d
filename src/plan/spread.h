#pragma once
/* Operators on any workers, what they send to each other counted: a local search for the placement
 * whose busiest worker or link is least busy. Private to the planner. */
#include <stdbool.h>
#include <stdint.h>
#include "orrery/orrery.h"
#include "orrery/machine.h"

struct orr_sent_list;

/* A worker that has several readers of what another one makes reads it once. */
struct orr_spread_problem {
	int n;                               /* operators */
	const int64_t *work_ns, *held_bytes; /* [n] */
	const struct orr_sent_list *sent;    /* see crossing.h */
	const struct orr_machine *machine;   /* with its links, and each worker's memory */
	bool added; /* to what a worker computes comes what it sends, once, and what it reads; else
		       each direction of a link is busy by itself */
};

/* Make worker[n] better, if that can be found; *busiest_ns is then its. Fixed seed: every run does
 * the same. */
int orr_spread_improve(const struct orr_spread_problem *x, int *worker, int64_t *busiest_ns,
		       struct orr_error *err);
