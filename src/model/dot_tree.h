#pragma once
/* What a DOT text says, with its lines: nodes, edges and subgraphs as Graphviz understands them.
 * Private to the DOT reader. */
#include "orrery/orrery.h"

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
	char *name;  /* owned */
	int line;    /* where it is first named */
	bool stated; /* in a statement of its own, and not by edges alone */
	struct orr_dot_attributes attributes;
};

struct orr_dot_edge {
	int from, to;   /* nodes */
	int attributes; /* of_edges[attributes], which edges may share; 0: it has none */
};

struct orr_dot_subgraph {
	char *name; /* owned; "" if it has none */
	int line, parent;
	struct orr_dot_attributes attributes; /* its own */
	/* of nodes that are first named in it from here on, and of edges that stand in it */
	struct orr_dot_attributes node_defaults, edge_defaults;
	int *nodes; /* owned; those in it or in its subgraphs, ascending */
	int n_nodes, room;
};

struct orr_dot {
	struct orr_dot_node *nodes; /* owned; in the order in which they are first named */
	int n_nodes, node_room;
	struct orr_dot_edge *edges; /* owned; in the order of the file */
	int n_edges, edge_room;
	struct orr_dot_subgraph *subgraphs; /* owned; 0: the whole graph; parents come first */
	int n_subgraphs, subgraph_room;
	struct orr_dot_attributes *of_edges; /* owned; lists; 0 is empty */
	int n_of_edges, of_edges_room;
	int defaults_of, defaults; /* the last subgraph whose edges' defaults made a list, which it
				      is; 0: none since they changed */
	/* while it is made: nodes by name; pairs of a subgraph and a node in it; of nodes with an
	 * edge, of which a strict graph has one */
	struct orr_dot_table names, members, joined;
	bool strict;
};

/* Parse one digraph, a model, or one graph, a machine. file stands in the messages. *dot needs
 * orr_dot_fini(), after an error too. */
int orr_dot_parse(struct orr_dot *dot, const char *file, const char *text, bool model,
		  struct orr_error *err);
void orr_dot_fini(struct orr_dot *dot);

/* A subgraph's or worker's name without "cluster_", for which Graphviz draws a box. */
const char *orr_dot_plain_name(const char *name);

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
/* A list with the defaults of edges in subgraph s; own: for attributes of its own to be set, and
 * else 0 where there are no defaults. */
int orr_dot_edge_list(struct orr_dot *dot, int s, bool own, int *list, struct orr_error *err);
/* attributes: their list. One that is there in a strict graph gets what is stated. */
int orr_dot_edge(struct orr_dot *dot, int from, int to, int attributes, struct orr_error *err);

/* Ascending. */
void orr_dot_sort(int *numbers, int n);
