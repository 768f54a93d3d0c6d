#include "orrery/machine.h"

#include <math.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/quantity.h"

#define MOST_WORKERS (1 << 20)

const char *orr_all_reduce_name(enum orr_all_reduce all_reduce)
{
	static const char *const names[] = {"ring", "tree", "hierarchical", "auto"};

	return names[all_reduce];
}

static void drop_single(struct orr_levels *levels)
{
	int n = 0;

	for (int l = 0; l < levels->n; l++) {
		if (levels->workers[l] == 1 && (n || l + 1 < levels->n))
			continue;
		levels->workers[n] = levels->workers[l];
		levels->latency_ns[n] = levels->latency_ns[l];
		levels->bytes_per_s[n++] = levels->bytes_per_s[l];
	}
	levels->n = n;
}

/* Of each level, or none: rates, or else latencies. */
static int read_links(struct orr_levels *levels, const char *list, bool rates, bool *units,
		      const char *workers, struct orr_error *err)
{
	const char *what = rates ? "[bandwidth]" : "[latency]", *at = list;
	int n = 0, code;

	for (; at && n < levels->n; n++) {
		const char *part = orr_part_next(&at, ',');
		bool plain = false;

		code = rates ? orr_rate_parse(&levels->bytes_per_s[n], part, what, err)
			     : orr_duration_parse(&levels->latency_ns[n], &plain, part, what, err);
		if (code)
			return code;
		if (!rates && n && plain != *units)
			return orr_fail(err, ORR_E_INPUT,
					"%s %.60s: give all of them a unit, or none", what, list);
		if (!rates)
			*units = plain;
	}
	if (!list || (!at && n == levels->n))
		return 0;
	return orr_fail(
		err, ORR_E_INPUT,
		"%s %.60s: [workers] %.40s has %d level%s: give as many links, innermost first",
		what, list, workers, levels->n, levels->n == 1 ? "" : "s");
}

int orr_levels_parse(struct orr_levels *levels, const char *workers, const char *bandwidths,
		     const char *latencies, bool *units, struct orr_error *err)
{
	const char *of = workers;
	int64_t total = 1;
	int code;

	*levels = (struct orr_levels){0};
	while (of) {
		int64_t count = 0;

		if (levels->n == ORR_MOST_LEVELS)
			return orr_fail(err, ORR_E_INPUT,
					"[workers] %.40s: give at most %d levels, innermost first, "
					"such as 4x2",
					workers, ORR_MOST_LEVELS);
		if (!*of || *of == 'x')
			return orr_fail(err, ORR_E_INPUT,
					"[workers] %.40s: a number is missing beside an x: say 4, "
					"or 4x2 for 2 groups of 4",
					*workers ? workers : "''");
		if ((code = orr_count_next(&count, &of, 'x', 1, 4096, "[workers]", err)))
			return code;
		total *= count;
		if (total > MOST_WORKERS)
			return orr_fail(err, ORR_E_INPUT, "[workers] %.40s: at most %d in all",
					workers, MOST_WORKERS);
		levels->workers[levels->n++] = (int)count;
	}
	if ((code = read_links(levels, bandwidths, true, units, workers, err)) ||
	    (code = read_links(levels, latencies, false, units, workers, err)))
		return code;
	drop_single(levels);
	return 0;
}

int orr_link_parse(struct orr_link_cost *link, bool *units, const char *text, const char *what,
		   struct orr_error *err)
{
	int code = orr_rate_parse(&link->bytes_per_s, orr_part_next(&text, ','), what, err);

	link->latency_ns = 0;
	if (code ||
	    (text && (code = orr_duration_parse(&link->latency_ns, units, text, what, err))))
		return code;
	*units = *units && link->latency_ns;
	return link->bytes_per_s > 0 ? 0
				     : orr_fail(err, ORR_E_INPUT,
						"%s: 0: leave it out for an infinite one", what);
}

int orr_levels_workers(const struct orr_levels *levels)
{
	int n = 1;

	for (int l = 0; l < levels->n; l++)
		n *= levels->workers[l];
	return n;
}

struct orr_machine orr_machine_default(int n_workers)
{
	return (struct orr_machine){.n_workers = n_workers, .flops_per_s = 1e10};
}

void orr_cluster_destroy(struct orr_cluster *cluster)
{
	if (!cluster)
		return;
	for (int w = 0; w < cluster->n_workers; w++)
		free(cluster->workers[w].name);
	for (int g = 0; g < cluster->n_groups; g++)
		free(cluster->groups[g].name);
	free(cluster->workers);
	free(cluster->groups);
	free(cluster->pairs);
	free(cluster->name);
	free(cluster->text);
	free(cluster);
}

/* The slowest of both, part by part. */
static void slow_down(struct orr_machine *m, struct orr_link_cost link)
{
	if (link.latency_ns > m->latency_ns)
		m->latency_ns = link.latency_ns;
	if (link.bytes_per_s > 0 &&
	    (m->bandwidth_bytes_per_s <= 0 || link.bytes_per_s < m->bandwidth_bytes_per_s))
		m->bandwidth_bytes_per_s = link.bytes_per_s;
}

void orr_machine_set_levels(struct orr_machine *m, const struct orr_levels *levels)
{
	m->n_workers = orr_levels_workers(levels);
	m->levels = (struct orr_levels){0};
	m->latency_ns = 0;
	m->bandwidth_bytes_per_s = 0;
	for (int l = 0; l < levels->n; l++)
		slow_down(m, (struct orr_link_cost){levels->latency_ns[l], levels->bytes_per_s[l]});
	if (levels->n > 1 && (m->latency_ns || m->bandwidth_bytes_per_s > 0))
		m->levels = *levels;
}

struct orr_machine orr_machine_of(const struct orr_cluster *cluster, int n)
{
	struct orr_machine m = orr_machine_default(n ? n : cluster->n_workers);

	m.cluster = cluster;
	m.host = cluster->host;
	for (int w = 0; w < m.n_workers; w++)
		if (cluster->workers[w].memory_bytes > m.memory_bytes)
			m.memory_bytes = cluster->workers[w].memory_bytes;
	for (int v = 0; v < m.n_workers; v++)
		for (int w = 0; w < v; w++)
			slow_down(&m, orr_machine_link(&m, w, v));
	return m;
}

double orr_machine_speed(const struct orr_machine *m, int w)
{
	return m->cluster ? m->cluster->workers[w].speed : 1;
}

double orr_machine_speeds(const struct orr_machine *m)
{
	double sum = 0;

	for (int w = 0; w < m->n_workers; w++)
		sum += orr_machine_speed(m, w);
	return sum;
}

double orr_machine_fastest(const struct orr_machine *m)
{
	double fastest = 0;

	for (int w = 0; w < m->n_workers; w++)
		fastest = fmax(fastest, orr_machine_speed(m, w));
	return fastest;
}

int64_t orr_machine_memory(const struct orr_machine *m, int w)
{
	return m->cluster ? m->cluster->workers[w].memory_bytes : m->memory_bytes;
}

int64_t orr_machine_work_ns(const struct orr_machine *m, int w, int64_t ns)
{
	double speed = orr_machine_speed(m, w);

	return speed == 1 ? ns : llround((double)ns / speed);
}

void orr_machine_turns(const struct orr_machine *m, const int *workers, int k, int *turns, int n)
{
	int *serves = turns + n;

	for (int i = 0; i < k; i++)
		serves[i] = 0;
	for (int b = 0; b < n; b++) {
		int next = b % k;
		double earliest = HUGE_VAL;

		for (int i = 0; i < k && m->cluster; i++) {
			double end = (serves[i] + 1) / orr_machine_speed(m, workers[i]);

			if (end < earliest * (1 - 1e-12)) {
				earliest = end;
				next = i;
			}
		}
		turns[b] = next;
		serves[next]++;
	}
}

/* The group of worker w that is n groups further out than its own; -1: there is none. */
static int group_around(const struct orr_cluster *c, int w, int n)
{
	int group = c->workers[w].group;

	while (n-- && group >= 0)
		group = c->groups[group].parent;
	return group;
}

static bool are_alike(const struct orr_cluster_group *a, const struct orr_cluster_group *b)
{
	return a->link.bytes_per_s == b->link.bytes_per_s &&
	       a->link.latency_ns == b->link.latency_ns && a->lanes == b->lanes &&
	       a->uplink_bytes_per_s == b->uplink_bytes_per_s;
}

bool orr_machine_nested(struct orr_levels *levels, const struct orr_machine *m)
{
	const struct orr_cluster *c = m->cluster;
	struct orr_levels found = {0};
	int size = 1;

	for (; c && size < m->n_workers && found.n < ORR_MOST_LEVELS; found.n++) {
		int l = found.n, first = group_around(c, 0, l), n = size;

		while (n < m->n_workers && group_around(c, n, l) == first)
			n += size;
		found.workers[l] = n / size;
		for (int w = 0; w < m->n_workers; w++) {
			int group = group_around(c, w, l);

			if (group < 0 || m->n_workers % n ||
			    (group != group_around(c, w - w % n, l)) ||
			    (w % n == 0 && w && group == group_around(c, w - 1, l)) ||
			    !are_alike(&c->groups[group], &c->groups[first]) ||
			    c->workers[w].speed != c->workers[0].speed ||
			    c->workers[w].memory_bytes != c->workers[0].memory_bytes)
				return false;
		}
		if (n > size) { /* uplinks may be slower than the links of the group */
			struct orr_link_cost link = orr_machine_link(m, 0, size);

			found.bytes_per_s[l] = link.bytes_per_s;
			found.latency_ns[l] = link.latency_ns;
		}
		size = n;
	}
	if (!c || c->n_pairs || size < m->n_workers)
		return false;
	drop_single(&found);
	*levels = found;
	return true;
}

/* The uplinks of the groups around worker w, and the ports of its links. */
static uint64_t hash_groups(const struct orr_cluster *c, int w, uint64_t hash)
{
	for (int g = c->workers[w].group; g >= 0; g = c->groups[g].parent) {
		const struct orr_cluster_group *is = &c->groups[g];
		int numbers[] = {g, is->ports, is->lanes, is->rails};

		hash = orr_hash(hash, numbers, sizeof(numbers));
		hash = orr_hash(hash, &is->uplink_bytes_per_s, sizeof(is->uplink_bytes_per_s));
		hash = orr_hash(hash, &is->link.bytes_per_s, sizeof(is->link.bytes_per_s));
	}
	return hash;
}

uint64_t orr_machine_hash(const struct orr_machine *m, uint64_t hash)
{
	const struct orr_cluster *c = m->cluster;
	const unsigned char shares = c ? (unsigned char)(c->half_duplex + 2 * c->in_order +
							 4 * c->shared + 8 * (int)c->all_reduce)
				       : 0;

	if (c && c->streams)
		hash = orr_hash(hash, (const int[]){c->streams, c->slowdown}, 2 * sizeof(int));
	for (int w = 0; c && w < m->n_workers; w++) {
		hash = orr_hash(hash, &c->workers[w].speed, sizeof(c->workers[w].speed));
		hash = orr_hash(hash, &shares, sizeof(shares));
		hash = hash_groups(c, w, hash);
		for (int v = 0; v < w; v++) {
			struct orr_link_cost link = orr_machine_link(m, v, w);

			hash = orr_hash(hash, &link, sizeof(link));
		}
	}
	if (m->host.latency_ns || m->host.bytes_per_s > 0)
		hash = orr_hash(hash, &m->host, sizeof(m->host));
	for (int l = 0; l < m->levels.n && !c; l++) {
		hash = orr_hash(hash, &m->levels.workers[l], sizeof(m->levels.workers[l]));
		hash = orr_hash(hash, &m->levels.latency_ns[l], sizeof(m->levels.latency_ns[l]));
		hash = orr_hash(hash, &m->levels.bytes_per_s[l], sizeof(m->levels.bytes_per_s[l]));
	}
	return hash;
}
