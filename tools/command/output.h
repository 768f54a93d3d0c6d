#pragma once
/* What a command writes: JSON on standard output, and files. */
#include <jansson.h>
#include <stdbool.h>
#include "orrery/orrery.h"
#include "output_file.h"

struct orr_page;
struct orr_recovery;
struct orr_timeline;

struct output_options {
	bool json;
	const char *svg, *csv, *figures, *trace, *html; /* NULL: not wanted */
	bool strict_csv; /* refuse a schedule that a CSV cannot express, see export.h */
};

/* output_check_file() of each; after those of the command's own files. */
int output_check(const struct output_options *o, struct orr_error *err);

/* The files of o: the last of n timelines drawn and as a schedule, all of them in the trace; and
 * drawn, unless NULL, the loss. */
int output_timelines(const struct output_options *o, const struct orr_timeline *const *timelines,
		     const char *const *names, int n, const struct orr_recovery *loss,
		     struct orr_error *err);
/* The CSV of figures of o, from a report. */
int output_figures(const struct output_options *o, const json_t *report, struct orr_error *err);
/* The page of o. */
int output_html(const struct output_options *o, const struct orr_page *page, struct orr_error *err);
/* What ends a report for people. */
#define OUTPUT_DEFINED_BY "`orrery simulate --help` defines these figures."
/* One object on standard output; takes the reference. NULL: there was no memory, err says so. */
int output_json(json_t *json, struct orr_error *err);

/* The middle of n numbers, which it sorts, or the mean of the two that are. */
double output_median(double *numbers, int64_t n);
/* Columns of the terminal on standard output, 100 where there is none. */
int output_columns(void);
/* A terminal that wants colour: standard output is one and NO_COLOR is not set. */
int output_wants_colour(void);
