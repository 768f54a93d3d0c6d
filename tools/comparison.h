#ifndef ORR_COMPARISON_H
#define ORR_COMPARISON_H
/* What compare writes: a table for people, one JSON object, or a CSV of all rows. */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "orrery/error.h"

struct orr_comparison;
struct orr_machine;
struct orr_noise;

/* All that was tried with one number of microbatches and one memory. */
struct comparison {
	struct orr_comparison *rows;   /* owned */
	const struct orr_noise *noise; /* borrowed; NULL: none */
	int n_microbatches;
	int64_t limit_bytes; /* memory of a worker; 0: no limit */
	bool front;          /* with a front's rows */
	int64_t within_ns;   /* of a front: the least memory for this makespan is said; 0: not */
	char title[256];
};

void comparison_print(const struct comparison *c);
/* The rows, the cuts that they were tried on, with stages and operators, and the common part of the
 * tables; graph: its name. New reference; NULL with err filled. */
json_t *comparison_json(const struct comparison *tables, int n, const char *graph,
			const struct orr_machine *machine, struct orr_error *err);
/* A heading and a line a row, those that do not fit with the reason. Times as in JSON. */
struct comparison_csv {
	const struct comparison *tables;
	int n;
	int n_workers;
};
int comparison_write_csv(FILE *file, const void *csv, struct orr_error *err);
#endif
