#include "dot_tree.h"

#include <string.h>

#include "base/hash.h"
#include "base/mix.h"

const char *orr_dot_text(struct orr_dot *dot, const char *text)
{
	size_t size = text ? strlen(text) + 1 : 1;
	char *copy = orr_arrays_add(&dot->all, size, 1);

	dot->all.failed = dot->all.failed || !text;
	return copy && text ? memcpy(copy, text, size) : "";
}

bool orr_dot_grow(struct orr_dot *dot, void *array, int n, int *room, size_t size)
{
	void **at = array, *more;

	if (n < *room)
		return true;
	if (!(more = orr_arrays_add(&dot->all, 2 * (size_t)n + 4, size)))
		return false;
	if (n)
		memcpy(more, *at, (size_t)n * size);
	*at = more;
	*room = 2 * n + 4;
	return true;
}

/* ---- tables ---- */

/* Of this key; where key is the hash of a name, of the node of that name. */
static struct orr_dot_place *place_of(const struct orr_dot *dot, const struct orr_dot_table *t,
				      uint64_t key, const char *name)
{
	struct orr_dot_place *at;

	for (size_t i = (size_t)(key * ORR_MIX_STEP >> 20);; i++) {
		at = &t->places[i & (t->room - 1)];
		if (!at->number ||
		    (at->key == key && (!name || !strcmp(dot->nodes[at->number - 1].name, name))))
			return at;
	}
}

/* The number that is there, or 0, which the caller replaces; NULL: no memory. */
static int *number_of(struct orr_dot *dot, struct orr_dot_table *t, uint64_t key, const char *name)
{
	struct orr_dot_table more = {.n = t->n, .room = t->room ? 2 * t->room : 64};
	struct orr_dot_place *at;

	if (2 * (t->n + 1) > t->room) { /* so that a free place remains */
		if (!(more.places = orr_arrays_add(&dot->all, more.room, sizeof(*more.places))))
			return NULL;
		for (size_t i = 0; i < t->room; i++) {
			int number = t->places[i].number;

			if (number)
				*place_of(dot, &more, t->places[i].key,
					  name ? dot->nodes[number - 1].name : NULL) = t->places[i];
		}
		*t = more;
	}
	at = place_of(dot, t, key, name);
	t->n += !at->number;
	at->key = key;
	return &at->number;
}

static int *number_of_pair(struct orr_dot *dot, struct orr_dot_table *t, int x, int y)
{
	return number_of(dot, t, (uint64_t)(unsigned)x << 32 | (unsigned)y, NULL);
}

/* ---- what is collected ---- */

const char *orr_dot_plain_name(const char *name)
{
	static const char prefix[] = "cluster_";
	size_t length = strlen(prefix);

	return strncmp(name, prefix, length) == 0 && name[length] ? name + length : name;
}

const struct orr_dot_attribute *orr_dot_find(const struct orr_dot_attributes *of, const char *name)
{
	for (int i = 0; i < of->n; i++)
		if (strcmp(of->list[i].name, name) == 0)
			return &of->list[i];
	return NULL;
}

int orr_dot_set(struct orr_dot *dot, struct orr_dot_attributes *of, const char *name,
		const char *text, int line, int stated)
{
	int i = 0, again = 0;

	while (i < of->n && strcmp(of->list[i].name, name) != 0)
		i++;
	if (i == of->n && orr_dot_grow(dot, &of->list, i, &of->room, sizeof(*of->list)))
		of->n++;
	else if (i < of->n && of->list[i].stated == stated)
		again = of->list[i].line;
	if (i < of->n)
		of->list[i] = (struct orr_dot_attribute){name, text, line, stated};
	return again;
}

/* The defaults so far of subgraph s and those around it. */
static void set_defaults(struct orr_dot *dot, struct orr_dot_attributes *of, int s, bool edges)
{
	const struct orr_dot_attributes *defaults =
		edges ? &dot->subgraphs[s].edge_defaults : &dot->subgraphs[s].node_defaults;

	if (s)
		set_defaults(dot, of, dot->subgraphs[s].parent, edges);
	for (int i = 0; i < defaults->n; i++)
		(void)orr_dot_set(dot, of, defaults->list[i].name, defaults->list[i].text,
				  defaults->list[i].line, 0);
}

int orr_dot_node(struct orr_dot *dot, const char *name, int line, int s)
{
	int *number = number_of(dot, &dot->names, orr_hash(ORR_HASH, name, strlen(name)), name),
	    node;

	if (!number || (!*number && !orr_dot_grow(dot, &dot->nodes, dot->n_nodes, &dot->node_room,
						  sizeof(*dot->nodes))))
		return -1;
	if (!*number) {
		dot->nodes[dot->n_nodes] = (struct orr_dot_node){.name = name, .line = line};
		set_defaults(dot, &dot->nodes[dot->n_nodes].attributes, s, false);
		*number = ++dot->n_nodes;
	}
	node = *number - 1;
	for (; s > 0; s = dot->subgraphs[s].parent) { /* the whole graph has all of them */
		struct orr_dot_subgraph *subgraph = &dot->subgraphs[s];
		int *member = number_of_pair(dot, &dot->members, s, node);

		if (!member || *member ||
		    !orr_dot_grow(dot, &subgraph->nodes, subgraph->n_nodes, &subgraph->room,
				  sizeof(int)))
			break;
		subgraph->nodes[subgraph->n_nodes++] = node;
		*member = 1;
	}
	return node;
}

int orr_dot_subgraph(struct orr_dot *dot, const char *name, int line, int parent)
{
	int s = *name ? 1 : dot->n_subgraphs;

	while (s < dot->n_subgraphs &&
	       (dot->subgraphs[s].parent != parent || strcmp(dot->subgraphs[s].name, name) != 0))
		s++;
	if (s < dot->n_subgraphs)
		return s;
	if (!orr_dot_grow(dot, &dot->subgraphs, s, &dot->subgraph_room, sizeof(*dot->subgraphs)))
		return 0;
	dot->subgraphs[dot->n_subgraphs++] =
		(struct orr_dot_subgraph){.name = name, .line = line, .parent = parent};
	return s;
}

int orr_dot_list(struct orr_dot *dot)
{
	if (!orr_dot_grow(dot, &dot->of_edges, dot->n_of_edges, &dot->of_edges_room,
			  sizeof(*dot->of_edges)))
		return 0;
	dot->of_edges[dot->n_of_edges] = (struct orr_dot_attributes){0};
	return dot->n_of_edges++;
}

int orr_dot_edge_list(struct orr_dot *dot, int s, bool own)
{
	int list;

	if (!own && dot->defaults && dot->defaults_of == s)
		return dot->defaults;
	list = orr_dot_list(dot);
	set_defaults(dot, &dot->of_edges[list], s, true);
	if (own)
		return list;
	if (!dot->of_edges[list].n) {
		dot->n_of_edges--;
		list = 0;
	}
	dot->defaults = list;
	dot->defaults_of = s;
	return list;
}

/* What list `with` states over what list `on` has, as a new list. */
static int merge_lists(struct orr_dot *dot, int on, int with)
{
	int merged = orr_dot_list(dot);

	for (int pass = 0; pass < 2; pass++) {
		const struct orr_dot_attributes *from = &dot->of_edges[pass ? with : on];

		for (int i = 0; i < from->n; i++)
			if (!pass || from->list[i].stated)
				(void)orr_dot_set(dot, &dot->of_edges[merged], from->list[i].name,
						  from->list[i].text, from->list[i].line,
						  from->list[i].stated);
	}
	return merged;
}

void orr_dot_edge(struct orr_dot *dot, int from, int to, int attributes)
{
	int *number = dot->strict ? number_of_pair(dot, &dot->joined, from, to) : NULL;

	if (number && *number) {
		if (attributes)
			dot->edges[*number - 1].attributes =
				merge_lists(dot, dot->edges[*number - 1].attributes, attributes);
		return;
	}
	if (!orr_dot_grow(dot, &dot->edges, dot->n_edges, &dot->edge_room, sizeof(*dot->edges)))
		return;
	dot->edges[dot->n_edges++] = (struct orr_dot_edge){from, to, attributes};
	if (number)
		*number = dot->n_edges;
}

void orr_dot_fini(struct orr_dot *dot)
{
	orr_arrays_free(&dot->all);
	*dot = (struct orr_dot){0};
}
