#pragma once
/* What a DOT text says, with its lines: nodes, edges and subgraphs as Graphviz understands them.
 * Private to the DOT reader. */
#include "base/arrays.h"
#include "orrery/orrery.h"

/* Numbers from 1 on, found by a hash; 0: none. */
struct orr_dot_table {
	struct orr_dot_place {
		uint64_t key;
		int number;
	} * places;
	size_t n, room;
};

struct orr_dot_attribute {
	const char *name, *text; /* of HTML, which is for drawings: "" */
	int line;
	int stated; /* by the node itself, in the list of this number; 0: by a default */
};

struct orr_dot_attributes {
	struct orr_dot_attribute *list; /* each name once, the value that was said last */
	int n, room;
};

struct orr_dot_node {
	const char *name;
	int line;    /* where it is first named */
	bool stated; /* in a statement of its own, and not by edges alone */
	struct orr_dot_attributes attributes;
};

struct orr_dot_edge {
	int from, to;   /* nodes */
	int attributes; /* of_edges[attributes], which edges may share; 0: it has none */
};

struct orr_dot_subgraph {
	const char *name; /* "" if it has none */
	int line, parent;
	struct orr_dot_attributes attributes; /* its own */
	/* of nodes that are first named in it from here on, and of edges that stand in it */
	struct orr_dot_attributes node_defaults, edge_defaults;
	int *nodes; /* those in it or in its subgraphs, ascending */
	int n_nodes, room;
};

struct orr_dot {
	struct orr_dot_node *nodes; /* in the order in which they are first named */
	int n_nodes, node_room;
	struct orr_dot_edge *edges; /* in the order of the file */
	int n_edges, edge_room;
	struct orr_dot_subgraph *subgraphs; /* 0: the whole graph; parents come first */
	int n_subgraphs, subgraph_room;
	struct orr_dot_attributes *of_edges; /* lists; 0 is empty */
	int n_of_edges, of_edges_room;
	int defaults_of, defaults; /* the last subgraph whose edges' defaults made a list, which it
				      is; 0: none since they changed */
	/* while it is made: nodes by name; pairs of a subgraph and a node in it; of nodes with an
	 * edge, of which a strict graph has one */
	struct orr_dot_table names, members, joined;
	bool strict;
	struct orr_arrays all; /* everything here, names and texts too */
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

/* Where one of these fails, for want of memory alone, dot->all says so, and what it returns is a
 * number that there is, or -1. Names and texts are dot's. */

/* A copy of text; NULL: there was no memory for text. */
const char *orr_dot_text(struct orr_dot *dot, const char *text);
/* Room for one more than n elements of a size in *array, as orr_grow(). */
bool orr_dot_grow(struct orr_dot *dot, void *array, int n, int *room, size_t size);
/* The line where the same list states it already, or 0. */
int orr_dot_set(struct orr_dot *dot, struct orr_dot_attributes *of, const char *name,
		const char *text, int line, int stated);
/* The node of that name, or a new one with the defaults of subgraph s, in s and those around it. */
int orr_dot_node(struct orr_dot *dot, const char *name, int line, int s);
/* The subgraph of that name in parent, or a new one; one without a name is new. */
int orr_dot_subgraph(struct orr_dot *dot, const char *name, int line, int parent);
/* A new list, of attributes of edges. */
int orr_dot_list(struct orr_dot *dot);
/* A list with the defaults of edges in subgraph s; own: for attributes of its own to be set, and
 * else 0 where there are no defaults. */
int orr_dot_edge_list(struct orr_dot *dot, int s, bool own);
/* attributes: their list. One that is there in a strict graph gets what is stated. */
void orr_dot_edge(struct orr_dot *dot, int from, int to, int attributes);
