#pragma once
/* What compare writes: a table for people, one JSON object, or a CSV of all rows. */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_comparison;
struct orr_machine;
struct orr_noise;

/* All that was tried with one number of microbatches and one memory. */
struct orr_compared {
	struct orr_comparison *rows;   /* borrowed */
	const struct orr_noise *noise; /* borrowed; NULL: none */
	int n_microbatches;
	int64_t limit_bytes; /* memory of a worker; 0: no limit */
	bool front;          /* with a front's rows */
	int64_t within_ns;   /* of a front: the least memory for this makespan is said; 0: not */
	char title[256];
	/* of the legend: what asks for within_ns, and what defines the other figures */
	const char *within_by, *defined_by;
};

void orr_compared_write(FILE *file, const struct orr_compared *c);
/* The rows, the cuts that they were tried on, with stages and operators, and the common part of the
 * tables; graph: its name. New reference; NULL with err filled. */
json_t *orr_compared_json(const struct orr_compared *tables, int n, const char *graph,
			  const struct orr_machine *machine, struct orr_error *err);
/* A heading and a line a row, those that do not fit with the reason: from that object, with the
 * rows of each table together. */
int orr_compared_csv(FILE *file, const json_t *report, const struct orr_compared *tables, int n,
		     struct orr_error *err);

ORR_END
