#pragma once
/* A timeline ready to be drawn: the boxes of each worker, in the order of time, and a time axis.
 * Text, SVG and trace draw from this, so that simulated and measured timelines look alike. */
#include <stdint.h>
#include <stdio.h>
#include "base/arrays.h"
#include "orrery/orrery.h"

struct orr_timeline;

/* The first three are the passes of enum orr_pass. */
enum orr_kind { ORR_KIND_F, ORR_KIND_B, ORR_KIND_W, ORR_KIND_UPDATE };
#define ORR_N_KINDS 4
extern const char *const orr_kind_names[ORR_N_KINDS];

struct orr_cell {
	int64_t start_ns, end_ns; /* from the first start of the timeline */
	int w, s, b;              /* b: -1 for an update */
	enum orr_kind kind;
};

struct orr_layout {
	const struct orr_timeline *timeline; /* borrowed */
	int n_workers;
	int64_t origin_ns;      /* the first start: time 0 of the drawing */
	int64_t span_ns;        /* from there to the last end; 0 for an empty timeline */
	struct orr_cell *cells; /* worker w's: cells[first[w]] to cells[first[w+1]-1], by start */
	int *first;             /* [n_workers + 1] */
	int n_cells;
	int most_stages; /* on one worker: with more than one, a label needs the stage */
	int64_t n_kind[ORR_N_KINDS];
	double shortest_ns; /* mean of the pass that is shortest on average; 0: none takes time */
	int last_s, last_b; /* the largest numbers to be printed */
	const char *unit;   /* of the axis: "units", "s", "ms", "us" or "ns" */
	int64_t unit_ns;
	struct orr_arrays all; /* owned */
};

/* Jobs that never ran are left out. The layout borrows t. */
int orr_layout_init(struct orr_layout *layout, const struct orr_timeline *t, struct orr_error *err);

/* A round distance (1, 2 or 5 times a power of ten): at most n ticks after 0 on the axis. */
int64_t orr_layout_tick_ns(const struct orr_layout *layout, int n);
/* A tick's label, in the axis' unit, which is not printed. This and the next in the memory of
 * orr_text(). */
const char *orr_layout_tick_text(const struct orr_layout *layout, int64_t time_ns);
/* "2F0", or the microbatch, or its last digit; an update is "2U", or "U". */
enum orr_label { ORR_LABEL_JOB, ORR_LABEL_NUMBER, ORR_LABEL_DIGIT };
const char *orr_layout_label(const struct orr_cell *cell, enum orr_label label);
/* "w1 gpu.0 x2": the name of a worker's row. */
const char *orr_layout_worker(const struct orr_timeline *t, int w);

/* The end of every writer: flush, and say so if the file did not take everything. */
int orr_layout_finish(FILE *file, const char *what, struct orr_error *err);

/* What drawings as SVG have in common. */
#define ROW_FILL "#f5f5f6"
#define GRID "#dcdce0"
#define INK "#222"
#define QUIET "#666"

void orr_svg_write_escaped(FILE *file, const char *text);
/* style: attributes of the text element; text is escaped. */
void orr_svg_write_text(FILE *file, double x, double y, const char *style, const char *text);
