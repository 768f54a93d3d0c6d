#pragma once
/* Units joined inside the stages of a cut that is known, far from where it cuts: what is near stays
 * as fine as it is, so that the next cut can be better. Private to the planner. */
#include "orrery/orrery.h"

struct orr_refining;
struct orr_units;

/* stage_of: [n_operators] of the known cut. Borrows both; u has an operator in each unit but for
 * those without cost. */
int orr_refining_create(struct orr_refining **out, struct orr_units *u, const int *stage_of,
			struct orr_error *err);
/* Join n pairs of units, the farthest from the cut first, and of those the cheapest; how many there
 * were. Numbers of units are not topological then. */
int orr_refining_join(struct orr_refining *r, int n);
void orr_refining_destroy(struct orr_refining *r); /* NULL is fine */
