#include "dot_tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/hash.h"
#include "base/mix.h"

static int no_memory(struct orr_error *err)
{
	return orr_fail(err, ORR_E_NOMEM, "no memory to read the graph");
}

/* ---- tables ---- */

static size_t place_of(const struct orr_dot_table *t, uint64_t key, const struct orr_dot *dot,
		       const char *name)
{
	size_t i = (size_t)(key * ORR_MIX_STEP >> 20) & (t->room - 1);

	while (t->values[i] && (t->keys[i] != key ||
				(name && strcmp(dot->nodes[t->values[i] - 1].name, name) != 0)))
		i = (i + 1) & (t->room - 1);
	return i;
}

/* Room for one more, so that a free place remains. */
static int table_grow(struct orr_dot_table *t, struct orr_error *err)
{
	struct orr_dot_table more = {.n = t->n, .room = t->room ? 2 * t->room : 64};

	if (2 * (t->n + 1) <= t->room)
		return 0;
	more.keys = calloc(more.room, sizeof(*more.keys));
	more.values = calloc(more.room, sizeof(*more.values));
	if (!more.keys || !more.values) {
		free(more.keys);
		free(more.values);
		return no_memory(err);
	}
	for (size_t i = 0; i < t->room; i++)
		if (t->values[i]) {
			size_t k = (size_t)(t->keys[i] * ORR_MIX_STEP >> 20) & (more.room - 1);

			while (more.values[k])
				k = (k + 1) & (more.room - 1);
			more.keys[k] = t->keys[i];
			more.values[k] = t->values[i];
		}
	free(t->keys);
	free(t->values);
	*t = more;
	return 0;
}

/* Add the pair with a number, or find the number that it has. *is_new: it was not there. */
static int add_pair(struct orr_dot_table *t, int x, int y, int *number, bool *is_new,
		    struct orr_error *err)
{
	uint64_t key = (uint64_t)(unsigned)x << 32 | (unsigned)y;
	int code = table_grow(t, err);
	size_t i;

	if (code)
		return code;
	i = place_of(t, key, NULL, NULL);
	*is_new = !t->values[i];
	t->n += *is_new;
	t->keys[i] = key;
	t->values[i] = *number = *is_new ? *number : t->values[i];
	return 0;
}

static void table_fini(struct orr_dot_table *t)
{
	free(t->keys);
	free(t->values);
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

int orr_dot_set(struct orr_dot_attributes *of, const char *name, const char *text, int line,
		bool stated, struct orr_error *err)
{
	char *copy = strdup(text);
	int i = 0;

	if (!copy)
		return no_memory(err);
	while (i < of->n && strcmp(of->list[i].name, name) != 0)
		i++;
	if (i == of->n) {
		char *own = strdup(name);

		if (!own || !orr_grow(&of->list, of->n, &of->room, sizeof(*of->list))) {
			free(own);
			free(copy);
			return no_memory(err);
		}
		of->list[of->n++] = (struct orr_dot_attribute){.name = own};
	}
	free(of->list[i].text);
	of->list[i].text = copy;
	of->list[i].line = line;
	of->list[i].stated = stated;
	return 0;
}

/* The defaults so far of subgraph s and those around it. */
static int set_defaults(const struct orr_dot *dot, struct orr_dot_attributes *of, int s, bool edges,
			struct orr_error *err)
{
	const struct orr_dot_attributes *defaults =
		edges ? &dot->subgraphs[s].edge_defaults : &dot->subgraphs[s].node_defaults;
	int code = s ? set_defaults(dot, of, dot->subgraphs[s].parent, edges, err) : 0;

	for (int i = 0; i < defaults->n && !code; i++)
		code = orr_dot_set(of, defaults->list[i].name, defaults->list[i].text,
				   defaults->list[i].line, false, err);
	return code;
}

int orr_dot_node(struct orr_dot *dot, const char *name, int line, int s, int *node,
		 struct orr_error *err)
{
	uint64_t key = orr_hash(ORR_HASH, name, strlen(name));
	int code = table_grow(&dot->names, err);
	bool is_new = false;
	int member = 1;
	size_t i;

	if (code)
		return code;
	i = place_of(&dot->names, key, dot, name);
	if (!dot->names.values[i]) {
		if (!orr_grow(&dot->nodes, dot->n_nodes, &dot->node_room, sizeof(*dot->nodes)))
			return no_memory(err);
		dot->nodes[dot->n_nodes] =
			(struct orr_dot_node){.name = strdup(name), .line = line};
		if (!dot->nodes[dot->n_nodes++].name)
			return no_memory(err);
		dot->names.keys[i] = key;
		dot->names.values[i] = dot->n_nodes;
		dot->names.n++;
		if ((code = set_defaults(dot, &dot->nodes[dot->n_nodes - 1].attributes, s, false,
					 err)))
			return code;
	}
	*node = dot->names.values[i] - 1;
	for (; s > 0; s = dot->subgraphs[s].parent) { /* the whole graph has all of them */
		struct orr_dot_subgraph *subgraph = &dot->subgraphs[s];

		if ((code = add_pair(&dot->members, s, *node, &member, &is_new, err)) || !is_new)
			return code;
		if (!orr_grow(&subgraph->nodes, subgraph->n_nodes, &subgraph->room,
			      sizeof(*subgraph->nodes)))
			return no_memory(err);
		subgraph->nodes[subgraph->n_nodes++] = *node;
	}
	return 0;
}

int orr_dot_subgraph(struct orr_dot *dot, const char *name, int line, int parent, int *found,
		     struct orr_error *err)
{
	for (*found = 1; *name && *found < dot->n_subgraphs; ++*found)
		if (dot->subgraphs[*found].parent == parent &&
		    strcmp(dot->subgraphs[*found].name, name) == 0)
			return 0;
	if (!orr_grow(&dot->subgraphs, dot->n_subgraphs, &dot->subgraph_room,
		      sizeof(*dot->subgraphs)))
		return no_memory(err);
	*found = dot->n_subgraphs;
	dot->subgraphs[dot->n_subgraphs++] =
		(struct orr_dot_subgraph){.name = strdup(name), .line = line, .parent = parent};
	return dot->subgraphs[*found].name ? 0 : no_memory(err);
}

static int add_list(struct orr_dot *dot, int *list, struct orr_error *err)
{
	if (!orr_grow(&dot->of_edges, dot->n_of_edges, &dot->of_edges_room, sizeof(*dot->of_edges)))
		return no_memory(err);
	*list = dot->n_of_edges;
	dot->of_edges[dot->n_of_edges++] = (struct orr_dot_attributes){0};
	return 0;
}

int orr_dot_edge_list(struct orr_dot *dot, int s, bool own, int *list, struct orr_error *err)
{
	int code = 0;

	if (!dot->n_of_edges && (code = add_list(dot, list, err)))
		return code;
	if (!own && dot->defaults && dot->defaults_of == s) {
		*list = dot->defaults;
		return 0;
	}
	if ((code = add_list(dot, list, err)) ||
	    (code = set_defaults(dot, &dot->of_edges[*list], s, true, err)))
		return code;
	if (own)
		return 0;
	if (!dot->of_edges[*list].n) {
		dot->n_of_edges--;
		*list = 0;
	}
	dot->defaults = *list;
	dot->defaults_of = s;
	return 0;
}

/* Set what list `with` states over what list `on` has, as a new list. */
static int merge_lists(struct orr_dot *dot, int on, int with, int *merged, struct orr_error *err)
{
	int code = add_list(dot, merged, err);

	for (int pass = 0; pass < 2 && !code; pass++) {
		const struct orr_dot_attributes *from = &dot->of_edges[pass ? with : on];

		for (int i = 0; i < from->n && !code; i++)
			if (!pass || from->list[i].stated)
				code = orr_dot_set(&dot->of_edges[*merged], from->list[i].name,
						   from->list[i].text, from->list[i].line,
						   from->list[i].stated, err);
	}
	return code;
}

int orr_dot_edge(struct orr_dot *dot, int from, int to, int attributes, struct orr_error *err)
{
	bool is_new = true;
	int number = dot->n_edges + 1,
	    code = dot->strict ? add_pair(&dot->joined, from, to, &number, &is_new, err) : 0;

	if (code)
		return code;
	if (!is_new && !attributes)
		return 0;
	if (!is_new)
		return merge_lists(dot, dot->edges[number - 1].attributes, attributes,
				   &dot->edges[number - 1].attributes, err);
	if (!orr_grow(&dot->edges, dot->n_edges, &dot->edge_room, sizeof(*dot->edges)))
		return no_memory(err);
	dot->edges[dot->n_edges++] = (struct orr_dot_edge){from, to, attributes};
	return 0;
}

static int compare_numbers(const void *a, const void *b)
{
	const int *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

void orr_dot_sort(int *numbers, int n)
{
	if (n)
		qsort(numbers, (size_t)n, sizeof(*numbers), compare_numbers);
}

static void attributes_fini(struct orr_dot_attributes *of)
{
	for (int i = 0; i < of->n; i++) {
		free(of->list[i].name);
		free(of->list[i].text);
	}
	free(of->list);
}

void orr_dot_fini(struct orr_dot *dot)
{
	for (int i = 0; i < dot->n_nodes; i++) {
		free(dot->nodes[i].name);
		attributes_fini(&dot->nodes[i].attributes);
	}
	for (int s = 0; s < dot->n_subgraphs; s++) {
		free(dot->subgraphs[s].name);
		free(dot->subgraphs[s].nodes);
		attributes_fini(&dot->subgraphs[s].attributes);
		attributes_fini(&dot->subgraphs[s].node_defaults);
		attributes_fini(&dot->subgraphs[s].edge_defaults);
	}
	for (int i = 0; i < dot->n_of_edges; i++)
		attributes_fini(&dot->of_edges[i]);
	free(dot->of_edges);
	table_fini(&dot->names);
	table_fini(&dot->members);
	table_fini(&dot->joined);
	free(dot->nodes);
	free(dot->edges);
	free(dot->subgraphs);
	*dot = (struct orr_dot){0};
}
