#ifndef ORR_TOOLS_SPLIT_H
#define ORR_TOOLS_SPLIT_H
/* Plans of graphs that are split, as text. */
#include <stdbool.h>

struct orr_graph;
struct orr_split_plan;

/* Does the file say of an operator that it is split? */
bool split_is_said(const struct orr_graph *g);
/* How it was split, the step of the workers, and what else was tried. */
void split_print(const struct orr_split_plan *plan);
#endif
