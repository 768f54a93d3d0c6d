/* A machine file: an undirected graph in DOT. A node is a worker, a subgraph a group of workers, an
 * edge a link of two that is not as their group's. */
#include "orrery/machine.h"

#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/dot.h"
#include "model/dot_tree.h"
#include "path.h"
#include "base/grow.h"
#include "base/input_file.h"
#include "base/quantity.h"
#include "base/utf8.h"

#define MOST_WORKERS 4096
#define MOST_NAME 200
#define MOST_PLACE 320

struct reader {
	struct orr_cluster *cluster;
	struct orr_dot dot;
	const char *file;
	int *inside;  /* [dot.n_nodes] the innermost group, a subgraph */
	int *source;  /* [MOST_WORKERS] node of each worker */
	bool *linked; /* [n_workers * n_workers] which have a link of their own */
	int group_room, pair_room;
	bool plain, unit; /* latencies seen; a plain 0 is neither */
	struct orr_error *err;
};

/* ---- attributes ---- */

/* What has attributes, and what Graphviz draws it as. */
enum kind { WORKER, LINK, GROUP, MACHINE };
static const char *const kind_names[] = {"a worker", "a link", "a group of workers", "a machine"};
static const char drawn_as[] = {'n', 'e', 'g', 'g'};

/* What they say. */
struct said {
	struct orr_cluster_worker worker;
	struct orr_cluster_group group;
	struct orr_cluster machine;
	int repeat;
};

enum form { SPEED, MEMORY, NUMBER, TIME, HOST, RATE, CHOICE, ALL_REDUCE, TRUTH, PORTS, SLOWDOWN };
#define OF(kind) (1 << (kind))
#define AT(member) offsetof(struct said, member)

static const struct key {
	const char *name;
	int of; /* kinds */
	enum form form;
	size_t at;
	const char *word, *other; /* CHOICE: true, or false; RATE: what leaving it out means */
} keys[] = {{"speed", OF(WORKER), SPEED, AT(worker.speed), NULL, NULL},
	    {"memory", OF(WORKER), MEMORY, AT(worker.memory_bytes), NULL, NULL},
	    {"latency", OF(LINK) | OF(GROUP) | OF(MACHINE), TIME, AT(group.link.latency_ns), NULL,
	     NULL},
	    {"bandwidth", OF(LINK) | OF(GROUP) | OF(MACHINE), RATE, AT(group.link.bytes_per_s),
	     "an infinite one", NULL},
	    {"host", OF(MACHINE), HOST, AT(machine.host), NULL, NULL},
	    {"overhead", OF(MACHINE), TIME, AT(machine.overhead_ns), NULL, NULL},
	    {"ports", OF(GROUP) | OF(MACHINE), PORTS, AT(group.ports), NULL, NULL},
	    {"uplink", OF(GROUP), RATE, AT(group.uplink_bytes_per_s), "no uplink", NULL},
	    {"lanes", OF(GROUP), NUMBER, AT(group.lanes), NULL, NULL},
	    {"rails", OF(GROUP), TRUTH, AT(group.rails), NULL, NULL},
	    {"repeat", OF(WORKER) | OF(GROUP), NUMBER, AT(repeat), NULL, NULL},
	    {"duplex", OF(MACHINE), CHOICE, AT(machine.half_duplex), "half", "full"},
	    {"waiting", OF(MACHINE), CHOICE, AT(machine.in_order), "in_order", "free"},
	    {"model", OF(MACHINE), CHOICE, AT(machine.shared), "shared", "exclusive"},
	    {"all_reduce", OF(MACHINE), ALL_REDUCE, AT(machine.all_reduce), NULL, NULL},
	    {"streams", OF(MACHINE), NUMBER, AT(machine.streams), NULL, NULL},
	    {"slowdown", OF(MACHINE), SLOWDOWN, AT(machine.slowdown), NULL, NULL}};
#define N_KEYS (sizeof(keys) / sizeof(*keys))

static int refuse_zero(const struct reader *r, const char *what, const char *means)
{
	return orr_fail(r->err, ORR_E_INPUT, "%s: 0: leave it out for %s", what, means);
}

static int read_memory(const struct reader *r, int64_t *bytes, const char *text, const char *what)
{
	int code = orr_size_parse(bytes, text, what, r->err);

	if (!code && *text && isdigit((unsigned char)text[strlen(text) - 1]) && *bytes)
		return orr_fail(r->err, ORR_E_INPUT,
				"%s: %.40s has no unit: say \"%.40sGB\", or \"%.40sB\"", what, text,
				text, text);
	return code || *bytes ? code : refuse_zero(r, what, "no limit");
}

/* A share of computing, in whole thousandths. */
static int read_slowdown(const struct reader *r, int *slowdown, const char *text, const char *what)
{
	double share = 0;
	int code = orr_real_parse(&share, text, 0, 0.9, what, r->err);

	*slowdown = (int)lround(share * 1000);
	if (code || *slowdown / 1000.0 == share)
		return code;
	return orr_fail(r->err, ORR_E_INPUT, "%s: '%.40s': give three decimals at most", what,
			text);
}

static int read_choice(const struct reader *r, const struct key *key, bool *first, const char *text,
		       const char *what)
{
	*first = !strcmp(text, key->word);
	if (*first || !strcmp(text, key->other))
		return 0;
	return orr_fail(r->err, ORR_E_INPUT, "%s: '%.40s': give %s or %s", what, text, key->word,
			key->other);
}

static int read_all_reduce(const struct reader *r, enum orr_all_reduce *to, const char *text,
			   const char *what)
{
	for (int i = 0; i <= ORR_ALL_REDUCE_AUTO; i++)
		if (!strcmp(text, orr_all_reduce_name((enum orr_all_reduce)i))) {
			*to = (enum orr_all_reduce)i;
			return 0;
		}
	return orr_fail(r->err, ORR_E_INPUT, "%s: '%.40s': give ring, tree, hierarchical or auto",
			what, text);
}

static int note_units(struct reader *r, bool plain, bool unit, const char *what)
{
	r->plain = r->plain || plain;
	r->unit = r->unit || unit;
	if (!r->plain || !r->unit)
		return 0;
	return orr_fail(
		r->err, ORR_E_INPUT,
		"%s: a plain number is units, and others have a unit of time: give all the same",
		what);
}

static int read_value(struct reader *r, const struct key *key, void *to, const char *text,
		      const char *what)
{
	struct orr_error *err = r->err;
	const struct orr_link_cost *host;
	int64_t n = 0;
	bool on = false;
	int code = 0;

	switch (key->form) {
	case SPEED:
		return orr_real_parse(to, text, 1e-6, 1e9, what, err);
	case MEMORY:
		return read_memory(r, to, text, what);
	case NUMBER:
		code = orr_count_parse(&n, text, 1, MOST_WORKERS, what, err);
		*(int *)to = (int)n;
		break;
	case TIME:
		code = orr_duration_parse(to, &on, text, what, err);
		return code ? code : note_units(r, on && *(int64_t *)to, !on, what);
	case HOST:
		code = orr_link_parse(to, &on, text, what, err);
		host = to;
		return code ? code : note_units(r, on, host->latency_ns && !on, what);
	case RATE:
		code = orr_rate_parse(to, text, what, err);
		return code || *(double *)to > 0 ? code : refuse_zero(r, what, key->word);
	case CHOICE:
		return read_choice(r, key, to, text, what);
	case ALL_REDUCE:
		return read_all_reduce(r, to, text, what);
	case TRUTH:
		return orr_attribute_truth(to, text, what, err);
	case PORTS: /* of the group that is next */
		code = orr_attribute_truth(&on, text, what, err);
		*(int *)to = on ? 1 + r->cluster->n_groups : 0;
		break;
	case SLOWDOWN:
		return read_slowdown(r, to, text, what);
	}
	return code;
}

static int refuse_attribute(const struct reader *r, const struct orr_dot_attribute *a,
			    enum kind kind)
{
	struct orr_nearest near = orr_nearest_to(a->name);
	const char *allowed = "", *last = NULL;

	for (size_t k = 0; k < N_KEYS; k++) {
		if (!(keys[k].of & OF(kind)))
			continue;
		if (last)
			allowed = orr_text("%s%s%s", allowed, *allowed ? ", " : "", last);
		orr_nearest_try(&near, last = keys[k].name, NULL);
	}
	return orr_fail(r->err, ORR_E_INPUT,
			"%s:%d: %.60s%s is no attribute of %s: use %s and %s, or what Graphviz "
			"draws with",
			r->file, a->line, a->name, orr_nearest_hint(&near), kind_names[kind],
			allowed, last);
}

/* Messages begin with the place: "cluster.dot:3: gpu: speed". *n: how many are ours. */
static int read_attributes(struct reader *r, struct said *said, int *n, enum kind kind,
			   const struct orr_dot_attributes *of, const char *owner)
{
	int code = 0;

	*n = 0;
	for (int i = 0; i < of->n && !code; i++) {
		const struct orr_dot_attribute *a = &of->list[i];
		const char *what =
			orr_text("%.100s:%d: %.80s: %s", r->file, a->line, owner, a->name);
		size_t k = 0;

		while (k < N_KEYS && (!(keys[k].of & OF(kind)) || strcmp(keys[k].name, a->name)))
			k++;
		*n += k < N_KEYS;
		if (k < N_KEYS)
			code = read_value(r, &keys[k], (char *)said + keys[k].at, a->text, what);
		else if (!strcmp(a->name, "model") || !orr_attribute_draws(drawn_as[kind], a->name))
			code = refuse_attribute(r, a, kind);
	}
	return code;
}

/* The lanes of an uplink; and there is a limit to the uplinks on a way. */
static int check_uplink(const struct reader *r, int s, struct orr_cluster_group *group)
{
	const struct orr_dot_subgraph *subgraph = &r->dot.subgraphs[s];
	int n = 0;

	if (!(group->uplink_bytes_per_s > 0)) {
		if (group->lanes || group->rails)
			return orr_fail(r->err, ORR_E_INPUT,
					"%s:%d: %.60s: %s are of an uplink: give its bandwidth, "
					"such as uplink=\"25GB/s\"",
					r->file, subgraph->line, subgraph->name,
					group->lanes ? "lanes" : "rails");
		return 0;
	}
	group->lanes = group->lanes ? group->lanes : 1;
	for (int g = group->parent; g >= 0; g = r->cluster->groups[g].parent)
		n += r->cluster->groups[g].lanes > 0;
	return n < ORR_MOST_UPLINKS
		       ? 0
		       : orr_fail(
				 r->err, ORR_E_INPUT,
				 "%s:%d: %.60s: more than %d uplinks in one another: leave out the "
				 "fastest",
				 r->file, subgraph->line, subgraph->name, ORR_MOST_UPLINKS);
}

/* Of a subgraph, or the whole machine. */
static int read_group(struct reader *r, int s, struct said *said)
{
	const struct orr_dot_subgraph *subgraph = &r->dot.subgraphs[s];
	int n, code;

	said->machine = *r->cluster;
	code = read_attributes(r, said, &n, s ? GROUP : MACHINE, &subgraph->attributes,
			       s ? subgraph->name : "the machine");
	*r->cluster = said->machine;
	return code ? code : check_uplink(r, s, &said->group);
}

/* ---- workers and groups ---- */

/* A name that Graphviz draws a box for, without what makes it do so; copies are numbered. */
static char *name_of(const char *name, const char *copy)
{
	/* it is printed */
	return orr_utf8_copy(orr_text("%.100s%.90s", orr_dot_plain_name(name), copy));
}

static int add_workers(struct reader *r, int node, int group, const char *copy)
{
	const struct orr_dot_node *x = &r->dot.nodes[node];
	struct said said = {.worker = {.speed = 1, .group = group}, .repeat = 1};
	struct orr_cluster *c = r->cluster;
	int n, code = read_attributes(r, &said, &n, WORKER, &x->attributes, x->name);

	for (int i = 0; i < said.repeat && !code; i++) {
		if (c->n_workers == MOST_WORKERS)
			return orr_fail(r->err, ORR_E_INPUT,
					"%s:%d: more than %d workers: take fewer", r->file, x->line,
					MOST_WORKERS);
		r->source[c->n_workers] = node;
		if (!(said.worker.name = name_of(
			      x->name, orr_text(said.repeat > 1 ? "%.80s.%d" : "%.80s", copy, i))))
			return orr_no_memory(r->err, r->file);
		c->workers[c->n_workers++] = said.worker;
	}
	return code;
}

static bool is_group(const struct orr_dot_subgraph *subgraph)
{
	return *subgraph->name || subgraph->attributes.n;
}

/* The subgraph right inside s that has the node; s itself: it is in none; -1: it is not in s. */
static int child_with(const struct reader *r, int s, int node)
{
	int at = r->inside[node], child = s;

	while (at > s) {
		child = at;
		do
			at = r->dot.subgraphs[at].parent;
		while (at > s && !is_group(&r->dot.subgraphs[at]));
	}
	return at == s ? child : -1;
}

static int add_group(struct reader *r, int s, int parent, const char *copy);

/* The workers of s, and of the groups in it, in the order of the file. */
static int fill_group(struct reader *r, int s, int group, const char *copy)
{
	int code = 0;

	for (int node = 0; node < r->dot.n_nodes && !code; node++) {
		int child = child_with(r, s, node);

		if (child == s)
			code = add_workers(r, node, group, copy);
		else if (child > s && r->dot.subgraphs[child].nodes[0] == node)
			code = add_group(r, child, group, copy);
	}
	return code;
}

/* As often as it repeats; recursion is as deep as subgraphs nest. */
static int add_group(struct reader *r, int s, int parent, const char *copy)
{
	struct orr_cluster *c = r->cluster;
	int repeat = 1, code = 0;

	for (int i = 0; i < repeat && !code; i++) {
		struct said x = {.group.parent = parent, .repeat = 1};
		int id = c->n_groups;
		char own[MOST_NAME];

		if (parent >= 0) {
			x.group.link = c->groups[parent].link;
			x.group.ports = c->groups[parent].ports;
		}
		if ((code = read_group(r, s, &x)))
			return code;
		if (s && !*r->dot.subgraphs[s].name)
			return orr_fail(
				r->err, ORR_E_INPUT,
				"%s:%d: a group of workers needs a name: say subgraph NAME {",
				r->file, r->dot.subgraphs[s].line);
		repeat = x.repeat;
		(void)snprintf(own, sizeof(own), repeat > 1 ? "%.80s.%d" : "%.80s", copy, i);
		if (!orr_grow(&c->groups, id, &r->group_room, sizeof(*c->groups)) ||
		    !(x.group.name = name_of(s ? r->dot.subgraphs[s].name : "", own)))
			return orr_no_memory(r->err, r->file);
		c->groups[c->n_groups++] = x.group;
		code = fill_group(r, s, id, own);
	}
	return code;
}

/* Every worker is in one innermost group. */
static int find_groups(struct reader *r)
{
	for (int s = 1; s < r->dot.n_subgraphs; s++) {
		const struct orr_dot_subgraph *subgraph = &r->dot.subgraphs[s];
		int around = subgraph->parent;

		while (around && !is_group(&r->dot.subgraphs[around]))
			around = r->dot.subgraphs[around].parent;
		for (int i = 0; i < subgraph->n_nodes && is_group(subgraph); i++) {
			int node = subgraph->nodes[i];

			if (r->inside[node] != around)
				return orr_fail(
					r->err, ORR_E_INPUT,
					"%s:%d: worker %.60s is in two groups, %.60s and %.60s: "
					"leave it in one (a link inside a subgraph puts both its "
					"ends there: write it outside)",
					r->file, r->dot.nodes[node].line, r->dot.nodes[node].name,
					r->dot.subgraphs[r->inside[node]].name, subgraph->name);
			r->inside[node] = s;
		}
	}
	return 0;
}

/* ---- links of two ---- */

static int check_end(const struct reader *r, int node)
{
	const struct orr_dot_node *end = &r->dot.nodes[node];
	struct orr_nearest near = orr_nearest_to(end->name);

	for (int s = r->inside[node]; s; s = r->dot.subgraphs[s].parent)
		if (orr_dot_find(&r->dot.subgraphs[s].attributes, "repeat"))
			return orr_fail(r->err, ORR_E_INPUT,
					"%s:%d: a link of worker %.60s, whose group %.60s repeats: "
					"give the group a bandwidth, or write its copies out",
					r->file, end->line, end->name, r->dot.subgraphs[s].name);
	if (end->stated)
		return 0;
	for (int i = 0; i < r->dot.n_nodes; i++)
		if (r->dot.nodes[i].stated)
			orr_nearest_try(&near, r->dot.nodes[i].name, NULL);
	return orr_fail(
		r->err, ORR_E_INPUT,
		"%s:%d: a link of %.60s%s, which is no worker: name it first, in a line of its own",
		r->file, end->line, end->name, orr_nearest_hint(&near));
}

/* Of workers v < w; what it does not say is their group's. */
static int add_pair(struct reader *r, int v, int w, const struct orr_dot_attributes *of,
		    const char *owner)
{
	struct orr_cluster *c = r->cluster;
	struct orr_machine m = {.cluster = c};
	struct said said = {0};
	size_t at = (size_t)v * (size_t)c->n_workers + (size_t)w;
	int code, n_ours, n = c->n_pairs;

	c->n_pairs = 0;
	said.group.link = orr_machine_link(&m, v, w);
	c->n_pairs = n;
	if ((code = read_attributes(r, &said, &n_ours, LINK, of, owner)))
		return code;
	if (!n_ours)
		return orr_fail(r->err, ORR_E_INPUT,
				"%s: link %s says nothing: give it a latency or a bandwidth",
				r->file, owner);
	if (r->linked[at])
		return orr_fail(r->err, ORR_E_INPUT,
				"%s:%d: a second link of %.60s and %.60s: leave one out", r->file,
				of->list[of->n - 1].line, c->workers[v].name, c->workers[w].name);
	r->linked[at] = true;
	if (!orr_grow(&c->pairs, n, &r->pair_room, sizeof(*c->pairs)))
		return orr_no_memory(r->err, r->file);
	c->pairs[c->n_pairs++] = (struct orr_cluster_pair){v, w, said.group.link};
	return 0;
}

/* Of each worker that one end stands for with each of the other's. */
static int add_edge(struct reader *r, const struct orr_dot_edge *edge)
{
	const struct orr_dot_attributes *of = &r->dot.of_edges[edge->attributes];
	const struct orr_cluster *c = r->cluster;
	char owner[MOST_PLACE];
	int code, n = 0;

	(void)snprintf(owner, sizeof(owner), "%.80s -- %.80s", r->dot.nodes[edge->from].name,
		       r->dot.nodes[edge->to].name);
	if ((code = check_end(r, edge->from)) || (code = check_end(r, edge->to)))
		return code;
	for (int v = 0; v < c->n_workers; v++)
		for (int w = v + 1; w < c->n_workers && !code; w++)
			if ((r->source[v] == edge->from && r->source[w] == edge->to) ||
			    (r->source[v] == edge->to && r->source[w] == edge->from)) {
				code = add_pair(r, v, w, of, owner);
				n++;
			}
	if (!code && !n)
		return orr_fail(r->err, ORR_E_INPUT,
				"%s:%d: a link of %.60s with itself: leave it out", r->file,
				r->dot.nodes[edge->from].line, r->dot.nodes[edge->from].name);
	return code;
}

static int add_edges(struct reader *r)
{
	struct orr_cluster *c = r->cluster;
	size_t n = (size_t)c->n_workers;
	int code = 0;

	if (r->dot.n_edges && !(r->linked = calloc(n * n, sizeof(*r->linked))))
		return orr_no_memory(r->err, r->file);
	for (int e = 0; e < r->dot.n_edges && !code; e++)
		code = add_edge(r, &r->dot.edges[e]);
	if (c->n_pairs)
		qsort(c->pairs, (size_t)c->n_pairs, sizeof(*c->pairs), orr_ends_compare);
	return code;
}

/* ---- the file ---- */

static int check_machine(const struct reader *r)
{
	const struct orr_cluster *c = r->cluster;

	for (int g = 0; g < c->n_groups && c->half_duplex; g++)
		if (c->groups[g].ports)
			return orr_fail(
				r->err, ORR_E_INPUT,
				"%s: duplex=half is of links, and with ports=true there are "
				"none: leave one out",
				r->file);
	if (c->slowdown && !c->streams)
		return orr_fail(
			r->err, ORR_E_INPUT,
			"%s: slowdown is of a worker whose streams are busy: say how many it "
			"has, such as streams=1",
			r->file);
	if (c->shared && c->in_order)
		return orr_fail(r->err, ORR_E_INPUT,
				"%s: waiting=in_order is of links that carry one thing at a time, "
				"and with model=shared they carry several: leave one out",
				r->file);
	return 0;
}

static int read_all(struct reader *r, const char *text)
{
	struct orr_cluster *c = r->cluster;
	int code;

	if (!(c->name = orr_utf8_copy(r->file)) || !(c->text = strdup(text)) ||
	    !(c->workers = calloc(MOST_WORKERS, sizeof(*c->workers))) ||
	    !(r->source = calloc(MOST_WORKERS, sizeof(*r->source))))
		return orr_no_memory(r->err, r->file);
	if ((code = orr_text_check(&text, r->file, r->err)) ||
	    (code = orr_dot_parse(&r->dot, r->file, text, false, r->err)))
		return code;
	if (!(r->inside = calloc((size_t)r->dot.n_nodes + 1, sizeof(*r->inside))))
		return orr_no_memory(r->err, r->file);
	if ((code = find_groups(r)) || (code = add_group(r, 0, -1, "")) || (code = add_edges(r)))
		return code;
	c->units = r->plain;
	if ((code = check_machine(r)))
		return code;
	return c->n_workers ? 0
			    : orr_fail(r->err, ORR_E_INPUT,
				       "%s: a machine without workers: a worker is a node, such as "
				       "gpu0 [speed=2, memory=\"16GB\"]",
				       r->file);
}

int orr_cluster_parse(struct orr_cluster **out, const char *name, const char *text,
		      struct orr_error *err)
{
	struct orr_error unheard;
	struct reader r = {.file = name, .err = err ? err : &unheard};
	int code;

	if (!(r.cluster = calloc(1, sizeof(*r.cluster))))
		return orr_no_memory(err, name);
	if ((code = read_all(&r, text)))
		orr_cluster_destroy(r.cluster);
	else
		*out = r.cluster;
	orr_dot_fini(&r.dot);
	free(r.inside);
	free(r.source);
	free(r.linked);
	return orr_text_fail(code, r.err);
}

int orr_cluster_read(struct orr_cluster **out, const char *path, struct orr_error *err)
{
	char *text;
	int code = orr_input_read(&text, NULL, path, "a machine file: src/plan/README.md has one",
				  err);

	if (code)
		return code;
	code = orr_cluster_parse(out, path, text, err);
	free(text);
	return code;
}
