#pragma once
/* A report to look at: one HTML file with everything in it, which asks for nothing over a network.
 * Timelines with what each job waited for, memory, idle time by cause, the critical path, tables,
 * losses. */
#include <stdbool.h>
#include <stdio.h>
#include <jansson.h>
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_timeline;

struct orr_page {
	const char *command; /* "simulate": what is said first */
	json_t *report;      /* borrowed: what the command's --json says */
	const struct orr_timeline *const
		*timelines; /* none, or the prediction and what was measured */
	const char *const *names;
	int n_timelines;
	/* (optional, borrowed) an array of losses by step: {"step", "loss"}, "test_loss" where it
	 * was evaluated; a loss that is not finite is null */
	json_t *losses;
	/* (optional, borrowed) the command line, which a page with the engine begins with:
	 * {"graph", "options": {name: text or null}, "files": {path: text}}; without one the page
	 * has no engine */
	json_t *study;
};

/* Has the build an engine for pages, tools/page/build's? Else a study is left out. */
bool orr_html_has_engine(void);

/* All jobs of the timelines must have run. */
int orr_html_write(FILE *file, const struct orr_page *page, struct orr_error *err);

ORR_END
