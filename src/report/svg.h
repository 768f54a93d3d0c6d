#pragma once
/* (private to the SVG drawing) Its sizes, and what its upper half, the jobs, and its lower half,
 * the stashes, have in common. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "orrery/orrery.h"

struct orr_figures;
struct orr_layout;

#define ROW_FILL "#f5f5f6"
#define GRID "#dcdce0"
#define INK "#222"
#define QUIET "#666"

#define LEFT 48 /* margin */
#define TOP 70  /* of the first worker's row */

/* Widths are in tenths of a pixel where times are concerned: whole numbers make short paths. */
struct svg {
	FILE *file;
	const struct orr_layout *layout;
	const struct orr_figures *figures;
	int width;                       /* of the drawing, without margins */
	int right;                       /* margin for the peaks */
	int grid;                        /* tenths of a pixel that times are rounded to */
	double pitch, height;            /* from row to row; of a row */
	double memory_top, memory_pitch; /* of the curves */
	double memory_height;            /* of a curve; 0: nothing is kept */
	bool outlined;                   /* cells are wide enough for outlines */
	bool bytes;                      /* curves are in bytes */
	int64_t peak;                    /* of all workers */
	double font;                     /* of the labels in cells; 0: none */
	bool whole;                      /* labels are 2F0, not 0 */
};

double orr_svg_row_top(const struct svg *svg, int w);
int orr_svg_tenths(const struct svg *svg, int64_t time_ns);
/* Of a path: a box in worker w's row, in tenths. */
void orr_svg_write_box(const struct svg *svg, int w, int from, int width);
void orr_svg_write_escaped(FILE *file, const char *text);
/* attributes: of the text element; text is escaped. */
void orr_svg_write_text(const struct svg *svg, double x, double y, const char *attributes,
			const char *text);
/* Backgrounds, on which idle time shows, and names of workers at regular distances. */
void orr_svg_write_rows(const struct svg *svg, double top, double pitch, double height);
/* The curves and their heading. */
int orr_svg_write_memory(const struct svg *svg, struct orr_error *err);
