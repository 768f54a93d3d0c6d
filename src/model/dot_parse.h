#ifndef ORR_DOT_PARSE_H
#define ORR_DOT_PARSE_H
/* DOT text -> tree. Private to the DOT reader. */
#include "dot_tree.h"

/* Parse one digraph, a model, or one graph, a machine. file stands in the messages. *dot needs
 * orr_dot_fini(), after an error too. */
int orr_dot_parse(struct orr_dot *dot, const char *file, const char *text, bool model,
		  struct orr_error *err);
#endif
