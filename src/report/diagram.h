#pragma once
/* Timelines, drawn: text for a terminal, SVG for a paper, Chrome trace JSON for Perfetto. One row a
 * worker. Simulated and measured ones alike. */
#include <stdbool.h>
#include <stdio.h>
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_recovery;
struct orr_timeline;

/* Text, columns wide; colour: with ANSI escapes. */
int orr_diagram_text(FILE *file, const struct orr_timeline *t, int columns, bool colour,
		     struct orr_error *err);
/* The same figure in SVG, with the memory curve underneath and a legend; and of r, unless NULL, the
 * training in which a worker is lost. */
int orr_diagram_svg(FILE *file, const struct orr_timeline *t, const struct orr_recovery *r,
		    struct orr_error *err);
/* Chrome trace events: one track a worker, memory counters, flow arrows for transfers. Several
 * timelines (a prediction and a measurement) become several processes. */
int orr_diagram_trace(FILE *file, const struct orr_timeline *const *timelines,
		      const char *const *names, int n_timelines, struct orr_error *err);

ORR_END
