#ifndef ORR_DOT_TREE_H
#define ORR_DOT_TREE_H
/* What a DOT text says, with its lines: nodes, edges and subgraphs as Graphviz understands them.
 * Private to the DOT reader. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "orrery/error.h"

/* Numbers from 1 on, found by a hash; 0: none. */
struct orr_dot_table {
	uint64_t *keys;
	int *values;
	size_t n, room;
};

struct orr_dot_attribute {
	char *name, *text; /* owned; of HTML, which is for drawings: "" */
	int line;
	bool stated; /* by the node itself, and not by a default */
};

struct orr_dot_attributes {
	struct orr_dot_attribute *list; /* owned; each name once, the value that was said last */
	int n, room;
};

struct orr_dot_node {
	char *name; /* owned */
	int line;   /* where it is first named */
	struct orr_dot_attributes attributes;
};

struct orr_dot_edge {
	int from, to; /* nodes */
};

struct orr_dot_subgraph {
	char *name; /* owned; "" if it has none */
	int line, parent;
	struct orr_dot_attributes attributes; /* its own */
	struct orr_dot_attributes
		node_defaults; /* of nodes that are first named in it from here on */
	int *nodes;            /* owned; those in it or in its subgraphs, ascending */
	int n_nodes, room;
};

struct orr_dot {
	struct orr_dot_node *nodes; /* owned; in the order in which they are first named */
	int n_nodes, node_room;
	struct orr_dot_edge *edges; /* owned; in the order of the file */
	int n_edges, edge_room;
	struct orr_dot_subgraph *subgraphs; /* owned; 0: the whole graph; parents come first */
	int n_subgraphs, subgraph_room;
	struct orr_dot_attributes of_edges; /* whichever edge has them */
	/* while it is made: nodes by name; pairs of a subgraph and a node in it; of nodes with an
	 * edge, of which a strict graph has one */
	struct orr_dot_table names, members, joined;
	bool strict;
};

void orr_dot_fini(struct orr_dot *dot);

/* NULL: there is none. */
const struct orr_dot_attribute *orr_dot_find(const struct orr_dot_attributes *of, const char *name);

/* Each of these fails for want of memory alone. Texts are copied. */
int orr_dot_set(struct orr_dot_attributes *of, const char *name, const char *text, int line,
		bool stated, struct orr_error *err);
/* The node of that name, or a new one with the defaults of subgraph s, in s and those around it. */
int orr_dot_node(struct orr_dot *dot, const char *name, int line, int s, int *node,
		 struct orr_error *err);
/* The subgraph of that name in parent, or a new one; one without a name is new. */
int orr_dot_subgraph(struct orr_dot *dot, const char *name, int line, int parent, int *s,
		     struct orr_error *err);
int orr_dot_edge(struct orr_dot *dot, int from, int to, struct orr_error *err);

/* Room for one more than n of size bytes in *list. */
int orr_dot_grow(void *list, int n, int *room, size_t size, struct orr_error *err);
/* Ascending. */
void orr_dot_sort(int *numbers, int n);
#endif
