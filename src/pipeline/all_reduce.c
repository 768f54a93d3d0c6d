#include "all_reduce.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/grow.h"
#include "base/max.h"
#include "base/sort.h"

/* While one is laid out. */
struct layout {
	const struct orr_machine *m;
	struct orr_reduction *sum;
	int64_t most_ns; /* of latency, of the level's edges */
	bool failed;
};

/* ---- what passes which stretch ---- */

static void begin_level(struct layout *x, int steps, int parts)
{
	x->sum->levels[x->sum->n_levels] = (struct orr_reduction_level){
		.first = x->sum->n_loads, .steps = steps, .parts = parts, .least_ns = INT64_MAX};
	x->most_ns = 0;
}

static void add_edge(struct layout *x, int from, int to)
{
	struct orr_reduction_level *level = &x->sum->levels[x->sum->n_levels];
	struct orr_stretch way[ORR_MOST_STRETCHES];
	int64_t ns = orr_machine_link(x->m, from, to).latency_ns;
	int n = orr_machine_path(way, x->m, from, to);

	level->least_ns = smaller(level->least_ns, ns);
	x->most_ns = larger(x->most_ns, ns);
	for (int i = 0; i < n && !x->failed; i++)
		if (orr_grow(&x->sum->loads, x->sum->n_loads, &x->sum->room,
			     sizeof(*x->sum->loads)))
			x->sum->loads[x->sum->n_loads++] = (struct orr_passing){way[i], 1};
		else
			x->failed = true;
}

static int compare_loads(const void *a, const void *b)
{
	uint64_t x = ((const struct orr_passing *)a)->stretch.key,
		 y = ((const struct orr_passing *)b)->stretch.key;

	return (x > y) - (x < y);
}

/* Each stretch once. */
static void end_level(struct layout *x, double latency_ns)
{
	struct orr_reduction *sum = x->sum;
	struct orr_reduction_level *level = &sum->levels[sum->n_levels++];
	struct orr_passing *loads = sum->loads + level->first;
	int n = sum->n_loads - level->first;

	if (n)
		qsort(loads, (size_t)n, sizeof(*loads), compare_loads);
	for (int i = 0; i < n; i++)
		if (level->n && loads[level->n - 1].stretch.key == loads[i].stretch.key)
			loads[level->n - 1].hops++;
		else
			loads[level->n++] = loads[i];
	sum->n_loads = level->first + level->n;
	level->latency_ns = orr_within_clock(latency_ns);
}

/* ---- trees ---- */

/* Of number i in a tree of k whose root is 0 and whose odd numbers are leaves; -1: it is the root.
 */
static int parent_in_first(int i, int k)
{
	int bit = i & -i, up = (i ^ bit) | bit << 1;

	if (!i)
		return -1;
	return up < k ? up : i ^ bit;
}

/* The second tree is the first's mirror image or, of an odd k, the first by one further. */
static int parent_of(int i, int k, int tree)
{
	int up = parent_in_first(!tree ? i : k % 2 ? (i + k - 1) % k : k - 1 - i, k);

	return !tree || up < 0 ? up : k % 2 ? (up + 1) % k : k - 1 - up;
}

static void lay_out_trees(struct layout *x, const int *owners, int k)
{
	double longest_ns = 0;

	begin_level(x, 1, 2);
	for (int tree = 0; tree < 2; tree++)
		for (int i = 0; i < k; i++) {
			int up = parent_of(i, k, tree);
			double ns = 0;

			if (up < 0)
				continue;
			add_edge(x, owners[i], owners[up]);
			add_edge(x, owners[up], owners[i]);
			for (int at = i; up >= 0; at = up, up = parent_of(at, k, tree))
				ns += (double)orr_machine_link(x->m, owners[at], owners[up])
					      .latency_ns;
			longest_ns = fmax(longest_ns, ns);
		}
	end_level(x, 2 * longest_ns);
}

/* ---- rings by level ---- */

/* How far inside is the innermost group that has both? */
static int depth_between(const struct orr_cluster *c, int from, int to)
{
	int depth = 0;

	for (int g = orr_cluster_group_between(c, from, to); g; g = c->groups[g].parent)
		depth++;
	return depth;
}

/* How many are together in each group that far inside, if these are equally many; else 0. */
static int size_at(const int *between, int k, int depth)
{
	int size = 1;

	while (size < k && between[size] >= depth)
		size++;
	for (int i = 1; i < k; i++)
		if ((between[i] >= depth) != (i % size > 0))
			return 0;
	return k % size ? 0 : size;
}

/* Rings of n, of the owners at the same place of the groups of `size`. */
static void lay_out_rings(struct layout *x, const int *owners, int k, int size, int n)
{
	begin_level(x, 2 * (n - 1), size * n);
	for (int i = 0; i < k; i++) {
		bool last = i / size % n == n - 1;

		add_edge(x, owners[i], owners[last ? i - (n - 1) * size : i + size]);
	}
	end_level(x, 2.0 * (n - 1) * (double)x->most_ns);
}

/* The innermost level that has a group is first, and that of the whole machine last. */
static void lay_out_levels(struct layout *x, const int *owners, int k)
{
	struct orr_arrays all = {0};
	int *sorted = orr_arrays_add(&all, (size_t)k, sizeof(*sorted));
	int *between = orr_arrays_add(&all, (size_t)k, sizeof(*between));
	int deepest = 0, size = 1;

	x->failed = all.failed;
	if (!all.failed) {
		memcpy(sorted, owners, (size_t)k * sizeof(*sorted));
		qsort(sorted, (size_t)k, sizeof(*sorted), orr_compare_ints);
		for (int i = 1; i < k; i++) {
			between[i] = depth_between(x->m->cluster, sorted[i - 1], sorted[i]);
			deepest = (int)larger(deepest, between[i]);
		}
	}
	for (int depth = deepest; depth >= 0 && !x->failed; depth--) {
		int n = size_at(between, k, depth);

		if (n <= size)
			continue;
		lay_out_rings(x, sorted, k, size, n / size);
		size = n;
	}
	orr_arrays_free(&all);
}

/* ---- how long ---- */

int orr_reduction_step(const struct orr_reduction *sum, enum orr_ring_part part, int i, int *steps,
		       int *parts)
{
	int last = sum->n_levels - 1, level = i <= last ? i : 2 * last - i;
	bool whole = part == ORR_RING_ALL_REDUCE;

	if (i > (whole ? 2 * last : last))
		return -1;
	if (part == ORR_RING_ALL_GATHER)
		level = last - i;
	*parts = sum->levels[level].parts;
	*steps = sum->levels[level].steps;
	if (!whole || level < last)
		*steps /= 2;
	return level;
}

int64_t orr_reduction_latency(const struct orr_reduction *sum, enum orr_ring_part part)
{
	int64_t ns = 0;

	for (int l = 0; l < sum->n_levels; l++)
		ns = smaller(INT64_MAX / 4, ns + sum->levels[l].latency_ns);
	return part == ORR_RING_ALL_REDUCE ? ns : ns / 2;
}

int64_t orr_reduction_last_ns(const struct orr_reduction *sum, enum orr_ring_part part)
{
	return sum->levels[part == ORR_RING_REDUCE_SCATTER ? sum->n_levels - 1 : 0].least_ns;
}

/* As long as the stretch that takes longest: where links are shared, their lanes are, too. */
static int64_t level_ns(const struct orr_reduction *sum, int level, double bytes, bool shared)
{
	const struct orr_passing *load = sum->loads + sum->levels[level].first;
	double longest = 0;

	for (int i = 0; i < sum->levels[level].n; i++, load++) {
		double turns = (double)load->hops / load->stretch.lanes;

		if (load->stretch.bytes_per_s > 0)
			longest = fmax(longest, (shared ? turns : ceil(turns)) * bytes /
							load->stretch.bytes_per_s * 1e9);
	}
	return orr_within_clock(longest);
}

static int64_t sum_ns(const struct orr_reduction *sum, enum orr_ring_part part, int64_t bytes,
		      bool shared)
{
	int64_t ns = orr_reduction_latency(sum, part);
	int steps = 0, parts = 1, level;

	for (int i = 0; (level = orr_reduction_step(sum, part, i, &steps, &parts)) >= 0; i++)
		ns = smaller(INT64_MAX / 4,
			     ns + level_ns(sum, level, (double)bytes * steps / parts, shared));
	return ns;
}

enum orr_all_reduce orr_reductions_choose(const struct orr_reductions *sums,
					  const struct orr_machine *m, const int *owners, int k,
					  enum orr_ring_part part, int64_t bytes, int64_t *ns)
{
	enum orr_all_reduce best = ORR_ALL_REDUCE_RING;
	bool ring = m->cluster && m->cluster->all_reduce == ORR_ALL_REDUCE_AUTO,
	     shared = m->cluster && m->cluster->shared;

	*ns = orr_machine_ring_ns(m, owners, k, bytes);
	*ns -= part == ORR_RING_ALL_REDUCE ? 0 : *ns / 2; /* once round instead of twice */
	if (ring && shared)
		*ns = sum_ns(&sums->by[ORR_ALL_REDUCE_RING], part, bytes, shared);
	for (int i = ORR_ALL_REDUCE_TREE; i < ORR_ALL_REDUCES; i++) {
		int64_t other;

		if (!sums->by[i].n_levels ||
		    (i == ORR_ALL_REDUCE_TREE && part != ORR_RING_ALL_REDUCE))
			continue;
		other = sum_ns(&sums->by[i], part, bytes, shared);
		if (ring && other >= *ns)
			continue;
		*ns = other;
		best = (enum orr_all_reduce)i;
	}
	return best;
}

/* ---- all of them ---- */

void orr_reductions_fini(struct orr_reductions *sums)
{
	for (int i = 0; i < ORR_ALL_REDUCES; i++)
		free(sums->by[i].loads);
}

static enum orr_all_reduce way_of(const struct orr_machine *m)
{
	return m->cluster ? m->cluster->all_reduce : ORR_ALL_REDUCE_RING;
}

int orr_reductions_make(struct orr_reductions *sums, const struct orr_machine *m, const int *owners,
			int k, struct orr_error *err)
{
	enum orr_all_reduce how = way_of(m);
	bool failed = false;

	for (int i = 0; i < ORR_ALL_REDUCES && !sums->by[i].n_levels && !failed; i++) {
		struct layout x = {.m = m, .sum = &sums->by[i]};

		if (i && how != ORR_ALL_REDUCE_AUTO && how != (enum orr_all_reduce)i)
			continue;
		if (i == ORR_ALL_REDUCE_TREE && k > 2)
			lay_out_trees(&x, owners, k);
		else if (i == ORR_ALL_REDUCE_HIERARCHICAL)
			lay_out_levels(&x, owners, k);
		else
			lay_out_rings(&x, owners, k, 1, k);
		failed = x.failed;
	}
	return failed ? orr_no_memory(err, "all-reduce") : 0;
}

/* ---- what they take alone ---- */

bool orr_sums_are_rings(const struct orr_machine *m, bool in_parts)
{
	return way_of(m) == ORR_ALL_REDUCE_RING || (way_of(m) == ORR_ALL_REDUCE_TREE && in_parts);
}

int orr_sum_ns(int64_t *ns, const struct orr_machine *m, const int *owners, int k, bool in_parts,
	       int64_t bytes, struct orr_error *err)
{
	struct orr_reductions sums = {0};
	int code = 0;

	*ns = 0;
	if (k < 2 || !bytes)
		return 0;
	if (orr_sums_are_rings(m, in_parts))
		*ns = orr_machine_ring_ns(m, owners, k, bytes);
	else if (!(code = orr_reductions_make(&sums, m, owners, k, err)))
		for (int part = in_parts; part <= 2 * in_parts; part++) {
			int64_t part_ns;

			(void)orr_reductions_choose(&sums, m, owners, k, (enum orr_ring_part)part,
						    bytes, &part_ns);
			*ns += part_ns;
		}
	orr_reductions_fini(&sums);
	return code;
}
