/* The way from a worker to another, and how long it is. */
#include "path.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/max.h"
#include "orrery/machine.h"

int orr_ends_compare(const void *a, const void *b)
{
	const int *x = a, *y = b;

	if (x[0] != y[0])
		return x[0] < y[0] ? -1 : 1;
	return (x[1] > y[1]) - (x[1] < y[1]);
}

bool orr_machine_half_duplex(const struct orr_machine *m)
{
	return m->cluster && m->cluster->half_duplex;
}

/* ---- what is on the way ---- */

enum kind { LINK, PORT, UPLINK, STREAM };

static uint64_t key_of(enum kind kind, int a, int b)
{
	return (uint64_t)kind << 62 | (uint64_t)a << 31 | (uint64_t)b;
}

/* The innermost level that joins the two. */
static int level_between(const struct orr_levels *levels, int from, int to)
{
	int l = 0;

	for (; l + 1 < levels->n; l++) {
		from /= levels->workers[l];
		to /= levels->workers[l];
		if (from == to)
			break;
	}
	return l;
}

/* Parents have lower numbers. */
int orr_cluster_group_between(const struct orr_cluster *c, int from, int to)
{
	int a = c->workers[from].group, b = c->workers[to].group;

	while (a != b)
		if (a > b)
			a = c->groups[a].parent;
		else
			b = c->groups[b].parent;
	return a;
}

/* Uplinks of the groups of worker w inside a group. */
static int add_uplinks(struct orr_stretch *way, int n, const struct orr_cluster *c, int w,
		       int group, bool enters)
{
	for (int g = c->workers[w].group; g != group; g = c->groups[g].parent) {
		const struct orr_cluster_group *has = &c->groups[g];
		/* which of its workers share one does not depend on where the count begins */
		int lane = has->rails ? w % has->lanes : -1;

		if (has->lanes)
			way[n++] = (struct orr_stretch){
				key_of(UPLINK, 2 * g + (enters && !c->half_duplex), lane + 1),
				has->uplink_bytes_per_s, lane < 0 ? has->lanes : 1, true};
	}
	return n;
}

static const struct orr_cluster_pair *find_pair(const struct orr_cluster *c, int from, int to)
{
	const struct orr_cluster_pair key = {.from = from < to ? from : to,
					     .to = from < to ? to : from};

	return c->n_pairs
		       ? bsearch(&key, c->pairs, (size_t)c->n_pairs, sizeof(key), orr_ends_compare)
		       : NULL;
}

static double slower(double a, double b)
{
	return !(a > 0) ? b : !(b > 0) ? a : fmin(a, b);
}

static double faster(double a, double b)
{
	return a > 0 && b > 0 ? fmax(a, b) : 0;
}

uint64_t orr_machine_link_key(int from, int to)
{
	if (from == ORR_HOST || to == ORR_HOST) /* no group has number 0 for its ports */
		return key_of(PORT, 0, from == ORR_HOST ? 2 * to + 1 : 2 * from);
	return key_of(LINK, from, to);
}

/* The link of the two, as fast as the slowest stretch, and uplinks. A link of their own passes
 * none.
 */
static int find_links(struct orr_stretch way[ORR_MOST_STRETCHES], struct orr_link_cost *link,
		      const struct orr_machine *m, int from, int to)
{
	bool turned = orr_machine_half_duplex(m) && from > to && to != ORR_HOST;
	int l = level_between(&m->levels, from, to), n = 1;
	const struct orr_cluster *c = m->cluster;

	if (from == ORR_HOST || to == ORR_HOST) {
		*link = m->host;
	} else if (c) {
		const struct orr_cluster_pair *own = find_pair(c, from, to);
		int group = orr_cluster_group_between(c, from, to);

		*link = own ? own->link : c->groups[group].link;
		n = own ? n : add_uplinks(way, n, c, from, group, false);
		n = own ? n : add_uplinks(way, n, c, to, group, true);
	} else {
		*link = m->levels.n
				? (struct orr_link_cost){m->levels.latency_ns[l],
							 m->levels.bytes_per_s[l]}
				: (struct orr_link_cost){m->latency_ns, m->bandwidth_bytes_per_s};
	}
	for (int i = 1; i < n; i++)
		link->bytes_per_s = slower(link->bytes_per_s, way[i].bytes_per_s);
	way[0] = (struct orr_stretch){orr_machine_link_key(turned ? to : from, turned ? from : to),
				      link->bytes_per_s, 1, false};
	return n;
}

/* A port is as fast as the fastest link that it is for. */
static double port_rate(const struct orr_cluster *c, int w, int ports)
{
	double fastest = 1e-9;

	for (int g = c->workers[w].group; g >= 0; g = c->groups[g].parent)
		if (c->groups[g].ports == ports)
			fastest = faster(fastest, c->groups[g].link.bytes_per_s);
	for (int i = 0; i < c->n_pairs; i++) {
		const struct orr_cluster_pair *pair = &c->pairs[i];

		if ((pair->from == w || pair->to == w) &&
		    c->groups[orr_cluster_group_between(c, pair->from, pair->to)].ports == ports)
			fastest = faster(fastest, pair->link.bytes_per_s);
	}
	return fastest;
}

int orr_machine_path(struct orr_stretch way[ORR_MOST_STRETCHES], const struct orr_machine *m,
		     int from, int to)
{
	const struct orr_cluster *c = m->cluster;
	bool host = from == ORR_HOST || to == ORR_HOST;
	int ports = c && !host ? c->groups[orr_cluster_group_between(c, from, to)].ports : 0;
	struct orr_link_cost link;
	int n = find_links(way, &link, m, from, to);

	for (int receives = 0; ports && receives < 2; receives++) {
		int w = receives ? to : from;

		way[n++] = (struct orr_stretch){key_of(PORT, ports, 2 * w + receives),
						port_rate(c, w, ports), 1, false};
	}
	for (int receives = 0; c && c->streams && !host && receives < 2; receives++)
		way[n++] = (struct orr_stretch){
			key_of(STREAM, 0, 2 * (receives ? to : from) + receives), 0, c->streams,
			false};
	return n;
}

int orr_machine_stream_of(uint64_t key)
{
	return key >> 31 == key_of(STREAM, 0, 0) >> 31 ? (int)(key & INT32_MAX) / 2 : -1;
}

struct orr_link_cost orr_machine_link(const struct orr_machine *m, int from, int to)
{
	struct orr_stretch way[ORR_MOST_STRETCHES];
	struct orr_link_cost link;

	(void)find_links(way, &link, m, from, to);
	return link;
}

/* ---- how long it takes ---- */

int64_t orr_within_clock(double ns)
{
	return ns < (double)(INT64_MAX / 4) ? llround(ns) : INT64_MAX / 4;
}

int64_t orr_machine_transfer_ns(const struct orr_machine *m, int from, int to, int64_t bytes)
{
	struct orr_link_cost link;

	if (from == to)
		return 0;
	link = orr_machine_link(m, from, to);
	link.latency_ns = smaller(link.latency_ns, INT64_MAX / 4);
	if (link.bytes_per_s > 0)
		link.latency_ns += orr_within_clock((double)bytes / link.bytes_per_s * 1e9);
	return link.latency_ns;
}

int64_t orr_ring_over_ns(const struct orr_link_cost *link, int k, int64_t bytes, int turns)
{
	int64_t ns = orr_within_clock(2.0 * (k - 1) * (double)link->latency_ns);

	if (link->bytes_per_s > 0)
		ns += orr_within_clock(turns * 2.0 * (k - 1) / k * (double)bytes *
				       (1 / link->bytes_per_s) * 1e9);
	return ns;
}

/* How often the ring over k workers passes a stretch in a step. */
static int hops_over(const struct orr_machine *m, const int *workers, int k,
		     const struct orr_stretch *stretch)
{
	int hops = 0;

	if (!stretch->uplink && !(k == 2 && orr_machine_half_duplex(m)))
		return 1;
	for (int i = 0; i < k; i++) {
		struct orr_stretch way[ORR_MOST_STRETCHES];
		struct orr_link_cost link;
		int n = find_links(way, &link, m, workers[i], workers[(i + 1) % k]);

		for (int l = 0; l < n; l++)
			hops += way[l].key == stretch->key;
	}
	return hops;
}

/* The ring's steps from one worker to the next, at the speed of the slowest stretch: where
 * more pass one than it has lanes, they take turns. */
static int64_t ring_link_ns(const struct orr_machine *m, const int *workers, int k, int i,
			    int64_t bytes)
{
	struct orr_stretch way[ORR_MOST_STRETCHES];
	struct orr_link_cost link;
	int n = find_links(way, &link, m, workers[i], workers[(i + 1) % k]);
	int64_t longest = 0;

	for (int l = 0; l < n; l++) {
		int hops = hops_over(m, workers, k, &way[l]);

		link.bytes_per_s = way[l].bytes_per_s;
		longest =
			larger(longest, orr_ring_over_ns(&link, k, bytes,
							 (hops + way[l].lanes - 1) / way[l].lanes));
	}
	return longest;
}

int64_t orr_machine_ring_ns(const struct orr_machine *m, const int *workers, int k, int64_t bytes)
{
	int64_t longest = 0;

	for (int i = 0; i < k && k > 1; i++)
		longest = larger(longest, ring_link_ns(m, workers, k, i, bytes));
	return longest;
}
