#ifndef ORR_OPERATOR_H
#define ORR_OPERATOR_H
#include "orrery/orrery.h"

struct orr_graph;
struct orr_operator;

/* Free what o owns. */
void orr_operator_fini(struct orr_operator *o);
/* Refuse o as the input that it is: why, after its place in the file. */
int orr_operator_fail(const struct orr_graph *g, const struct orr_operator *o,
		      struct orr_error *err, const char *why);
#endif
