/* The costs, per microbatch of one stage on r components of a level with links of bandwidth B:
 *
 *   t = max(inner / r + (update + ring) / m, transfer),
 *   inner     what the stage takes on one component: on a worker its forward and backward, on a
 *             group of workers the slowest stage of the best pipeline inside, found one level
 *             further in;
 *   ring      2 (k-1)/k parameters / B, of its k workers, once in a step of m microbatches; on a
 *             machine that adds up otherwise, what that takes (pipeline/all_reduce.h);
 *   transfer  bytes / (B r), activations forward or gradients back, whichever are more, of the
 *             tensors that it reads from other stages of its level: links are full duplex. What it
 *             passes on to later ones goes there directly.
 *
 * A link joins two workers, so its stages have it to themselves: the tensors that a stage reads
 * come over several links where several stages made them, or where those have other replicas. Then
 * transfer is more than any link carries; with one level of workers, direct.c looks at every link
 * on its own, and the answer is exact. With more levels the search is not: what a plan takes is
 * counted afterwards, worker by worker (plan_cost.c).
 *
 * PipeDream's published optimizer counts t = max((inner + exchange) / r, transfer) with an exchange
 * of 4 (r-1) parameters / (B r) on inner workers after each round of microbatches: it is for
 * training without a flush. With n_microbatches 0 its exchange stands in place of the ring, so that
 * figures can be compared. It differs from ours in these too:
 * - it adds activations and gradients, whichever way they go;
 * - it divides the exchange by the workers inside a component for the first stage of a level only;
 * - it counts a tensor at every cut that it crosses, and not what the first stage sends where the
 * next one has more replicas;
 * - it takes incomparable antichains for places of a cut inside a level; here a stage always is
 * what lies between an ideal and a larger one, so that every plan can be run;
 * - it uses all workers unless told otherwise; here a plan may leave workers idle when that is
 * faster. */
#include "hierarchy.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/max.h"
#include "direct.h"
#include "ideals.h"
#include "pipeline/all_reduce.h"
#include "pipeline/charge.h"
#include "pipeline/parameter_cost.h"
#include "pipeline/path.h"
#include "shares.h"

/* The best pipeline between two ideals with at most this number of components: its last stage
 * begins at `cut` (-1: there is one stage) on r components, and what comes before has `before`. */
struct cell {
	double time_s;
	int64_t trained_bytes; /* of the stage on a worker that has most */
	int cut;
	short before, r;
};

struct table {
	struct cell *cells; /* [n_from * n * (m + 1)] */
	int n_from, m;
};

struct search {
	const struct orr_ideals *x;
	const struct orr_hierarchy_options *options;
	struct table level[ORR_MOST_LEVELS];
	bool *allowed; /* [n * n] the second lies inside the first, and what lies between may be a
			  stage */
	bool *inside;
	int64_t *sent; /* [n * n] bytes into and out of what lies between, where they are added */
	/* where workers differ: the link from each of the order to the next, and sums of speeds */
	struct orr_link_cost *links; /* [workers] */
	double *speeds;              /* [workers + 1] */
	/* Where sums are no rings: of each level and number of components or, where workers differ,
	 * of a first one and a number; zero until it is asked for. */
	struct sum {
		double byte_s, more_s; /* of one byte, and of each more */
	} * sums;
	size_t sums_each;     /* numbers */
	int *owners, *failed; /* [workers] of the sum that is made; [1] the first failure's code */
	struct orr_arrays all;
};

static struct cell *cell_at(const struct table *t, int n, int i, int j, int m)
{
	return &t->cells[((size_t)i * (size_t)n + (size_t)j) * (size_t)(t->m + 1) + (size_t)m];
}

static int inner_workers(const struct search *s, int level)
{
	int n = 1;

	for (int l = 0; l < level; l++)
		n *= s->options->levels.workers[l];
	return n;
}

static struct cell inner_best(const struct search *s, int level, int i, int j)
{
	const struct orr_ideals *x = s->x;

	if (level > 0)
		return *cell_at(&s->level[level - 1], x->n, i, j, s->level[level - 1].m);
	return (struct cell){
		.time_s = (double)(x->compute_ns[j] - x->compute_ns[i] + 2 * x->overhead_ns) * 1e-9,
		.trained_bytes = x->trained_bytes[j] - x->trained_bytes[i]};
}

static double exchange_s(const struct search *s, int level, int i, int j, int r)
{
	double rate = s->options->levels.bytes_per_s[level];
	double bytes = (double)(s->x->trained_bytes[j] - s->x->trained_bytes[i]);

	return rate > 0 ? 4 * (r - 1) * bytes / (rate * r) / inner_workers(s, level) : 0;
}

/* A sum is a line in its bytes; where the machine chooses the fastest, it takes no less than the
 * line from one byte to all that there are. */
static int make_sum(const struct search *s, struct sum *sum, int at, int r, int k)
{
	const struct orr_hierarchy_options *o = s->options;
	struct orr_hierarchy_stage stage = {.first = {o->order ? at : 0}};
	int64_t all_bytes = s->x->trained_bytes[s->x->n - 1] + 1, byte_ns, all_ns;
	bool in_parts = o->numerics.shard_optimizer;
	int code;

	for (int l = 0; l < o->levels.n; l++)
		stage.replicas[l] = o->order || l == at ? r : l < at ? o->levels.workers[l] : 1;
	orr_hierarchy_workers(s->owners, k, &stage, &o->levels, o->order);
	if ((code = orr_sum_ns(&byte_ns, o->machine, s->owners, k, in_parts, 1, NULL)) ||
	    (code = orr_sum_ns(&all_ns, o->machine, s->owners, k, in_parts, all_bytes, NULL)))
		return code;
	sum->byte_s = (double)byte_ns * 1e-9;
	sum->more_s = (double)(all_ns - byte_ns) * 1e-9 / (double)(all_bytes - 1);
	return 0;
}

/* Over the links of a level, or of k workers from a place of the order on. */
static int64_t ring_ns(const struct search *s, int at, int k, int64_t bytes)
{
	const struct orr_hierarchy_options *o = s->options;
	int turns = o->order && k == 2 && orr_machine_half_duplex(o->machine) ? 2 : 1;
	struct orr_link_cost last;
	int64_t longest;

	last = o->order ? orr_machine_link(o->machine, o->order[at + k - 1], o->order[at])
			: (struct orr_link_cost){o->levels.latency_ns[at],
						 o->levels.bytes_per_s[at]};
	longest = orr_ring_over_ns(&last, k, bytes, turns);
	for (int i = at; o->order && i < at + k - 1; i++)
		if (i == at || memcmp(&s->links[i], &s->links[i - 1], sizeof(last)) != 0)
			longest = larger(longest, orr_ring_over_ns(&s->links[i], k, bytes, turns));
	return longest;
}

/* On r components of the level `at`, with all of their workers; or on r workers from there on.
 * Replicas without a microbatch have no gradient to add. */
static double sum_s(const struct search *s, int at, int r, int64_t bytes)
{
	const struct orr_hierarchy_options *o = s->options;
	int k = (int)smaller(r * (o->order ? 1 : inner_workers(s, at)), o->n_microbatches);
	struct sum *sum;

	if (r < 2 || k < 2 || !bytes)
		return 0;
	if (!s->sums)
		return (double)ring_ns(s, at, k, bytes) * 1e-9;
	sum = &s->sums[(size_t)at * s->sums_each + (size_t)r];
	if (!(sum->byte_s + sum->more_s > 0) && !*s->failed)
		*s->failed = make_sum(s, sum, at, r, k);
	return sum->byte_s + sum->more_s * (double)(bytes - 1);
}

/* Of each of r replicas. */
static double update_s(const struct search *s, int i, int j, int r)
{
	int64_t ns = s->x->update_ns[j] - s->x->update_ns[i];

	return (double)(ns > 0 ? ns + s->x->overhead_ns : 0) * 1e-9 /
	       (s->options->numerics.shard_optimizer ? r : 1);
}

/* Do the directions of a link take turns? They do in PipeDream's optimizer. */
static bool in_turn(const struct orr_hierarchy_options *o)
{
	return !o->n_microbatches || (o->machine && orr_machine_half_duplex(o->machine));
}

/* What keeps a link busy: the direction that carries more, or both. */
static double busy_bytes(const struct search *s, int base, int i, int j)
{
	struct orr_sent sent = orr_tensors_sent(s->x, base, i, j);

	if (in_turn(s->options))
		return (double)sent.bytes + (double)sent.gradient_bytes;
	return (double)larger(sent.bytes, sent.gradient_bytes);
}

static double transfer_s(const struct search *s, int level, int base, int i, int j, int r)
{
	double rate = s->options->levels.bytes_per_s[level];

	return rate > 0 && s->options->activations && !s->options->added
		       ? busy_bytes(s, base, i, j) / (rate * r)
		       : 0;
}

/* Of everything that a stage sends and reads, where that is added. */
static double added_s(const struct search *s, int level, int i, int j)
{
	double rate = s->options->order ? s->options->machine->bandwidth_bytes_per_s
					: s->options->levels.bytes_per_s[level];

	return s->sent && rate > 0 ? (double)s->sent[(size_t)j * (size_t)s->x->n + (size_t)i] / rate
				   : 0;
}

static bool fits(const struct search *s, int i, int j, int r, int left, int64_t memory_bytes)
{
	const struct orr_hierarchy_options *o = s->options;
	int64_t flight = o->least_in_flight;

	if (o->levels.n == 1)
		flight = larger(flight, (left + r - 1) / r);
	if (o->most_in_flight)
		flight = smaller(flight, o->most_in_flight);
	return !memory_bytes ||
	       orr_parameters_kept(&o->numerics,
				   s->x->parameter_bytes[j] - s->x->parameter_bytes[i],
				   s->x->trained_bytes[j] - s->x->trained_bytes[i], r) +
			       (s->x->stash_bytes[j] - s->x->stash_bytes[i]) * flight <=
		       memory_bytes;
}

/* Without transfers; DBL_MAX where it may not be. left: components for it and all after it. */
static double busy_s(const struct search *s, int level, int i, int j, int r, int left)
{
	const struct orr_hierarchy_options *o = s->options;
	struct cell inner = inner_best(s, level, i, j);
	double m = o->n_microbatches, update = update_s(s, i, j, r);

	if (inner.time_s >= DBL_MAX || (r > 1 && o->straight) ||
	    (r < o->least_replicas && r < o->levels.workers[level]))
		return DBL_MAX;
	if (o->memory_bytes && level == 0 && !fits(s, i, j, r, left, o->memory_bytes))
		return DBL_MAX;
	if (!o->n_microbatches)
		return (inner.time_s + (level ? 0 : update) + exchange_s(s, level, i, j, r)) / r;
	inner.time_s += added_s(s, level, i, j);
	update *= level ? 1 - 1.0 / r : 1; /* inner levels count it, and replicas do not share it */
	return inner.time_s / r + (update + sum_s(s, level, r, inner.trained_bytes)) / m;
}

/* On r workers that differ, from number `first` of the order on; those of them who are not in the
 * gang yet join it. Microbatches are shared by speed. */
static double busy_with_s(const struct search *s, struct orr_sharing *gang, int r, int i, int j,
			  int first)
{
	const struct orr_hierarchy_options *o = s->options;
	int n_workers = o->levels.workers[0];
	double start_s = (double)s->x->overhead_ns * 1e-9, update = update_s(s, i, j, 1);
	const struct orr_share share = {inner_best(s, 0, i, j).time_s, 2 * start_s, update,
					update > 0 ? start_s : 0, o->n_microbatches};
	int64_t bytes = s->x->trained_bytes[j] - s->x->trained_bytes[i];

	while (gang->n < r)
		orr_sharing_join(gang, &share);
	if ((r > 1 && o->straight) || (r < o->least_replicas && r < n_workers) ||
	    (o->memory_bytes && !fits(s, i, j, r, n_workers - first, gang->memory_bytes)))
		return DBL_MAX;
	return orr_sharing_each_s(gang, &share, o->numerics.shard_optimizer ? r : 1) +
	       sum_s(s, first, r, bytes) / o->n_microbatches + added_s(s, 0, i, j) / r;
}

static bool is_set(const struct search *s, const bool *matrix, int i, int j)
{
	return matrix[(size_t)j * (size_t)s->x->n + (size_t)i];
}

/* One stage from i to j on 1 to m components; fewer where that is no slower. What comes from before
 * i and goes beyond j takes the links of an outer level. */
static void fill_single(const struct search *s, int level, int i, int j)
{
	const struct table *t = &s->level[level];
	int64_t trained_bytes = inner_best(s, level, i, j).trained_bytes;
	struct orr_sharing gang = orr_sharing_of(s->options->machine, s->options->order);
	double least = DBL_MAX;
	short r = 1;

	for (int m = 1; m <= t->m; m++) {
		double time = DBL_MAX;

		if (is_set(s, s->allowed, i, j))
			time = s->options->order ? busy_with_s(s, &gang, m, i, j, 0)
						 : busy_s(s, level, i, j, m, t->m);

		if (time < least) {
			least = time;
			r = (short)m;
		}
		*cell_at(t, s->x->n, i, j, m) = (struct cell){least, trained_bytes, -1, 0, r};
	}
}

/* By the link that joins the first of a stage's workers, number `first` of the order, to the one
 * before: neighbours of the order are neighbours in the graph as a rule. */
static double transfer_to_s(const struct search *s, int first, int base, int i, int j)
{
	const struct orr_hierarchy_options *o = s->options;
	double rate =
		orr_machine_link(o->machine, o->order[first - 1], o->order[first]).bytes_per_s;

	return rate > 0 && o->activations && !o->added ? busy_bytes(s, base, i, j) / rate : 0;
}

/* The last of the stages up to j begins at k: is that on r of the first m components faster? Of
 * its own it takes `time`. */
static void try_last(const struct search *s, int level, int i, int k, int j, int m, int r,
		     double time)
{
	const struct table *t = &s->level[level];
	struct cell *here = cell_at(t, s->x->n, i, j, m);
	const struct cell *before = cell_at(t, s->x->n, i, k, m - r);

	time = before->time_s > time ? before->time_s : time;
	if (time < here->time_s)
		*here = (struct cell){
			time,
			larger(inner_best(s, level, k, j).trained_bytes, before->trained_bytes), k,
			(short)(m - r), (short)r};
}

static void try_cut(const struct search *s, int level, int i, int k, int j)
{
	const struct cell *here = cell_at(&s->level[level], s->x->n, i, j, 0);
	const struct cell *before = cell_at(&s->level[level], s->x->n, i, k, 0);
	int most = s->level[level].m;
	double transfer = -1;

	for (int r = 1; r < most; r++) {
		double lowest = busy_s(s, level, k, j, r, r);

		/* here gets no slower with more components */
		if (lowest >= here[r + 1].time_s)
			continue;
		transfer = transfer < 0 ? transfer_s(s, level, i, k, j, 1) : transfer;
		for (int m = r + 1; m <= most && lowest < here[m].time_s; m++) {
			double time = lowest;

			if (before[m - r].time_s >= here[m].time_s)
				continue;
			if (s->options->memory_bytes)
				time = busy_s(s, level, k, j, r, most - (m - r));
			try_last(s, level, i, k, j, m, r,
				 transfer / r > time ? transfer / r : time);
		}
	}
}

/* Could the last stage on r workers from number `first` of the order on make a plan that is shorter
 * than what is known of as many? Work alone, at their speeds or 1, is never more than it takes. */
static bool may_help(const struct search *s, int i, int k, int j, int first, int r)
{
	double known_s = cell_at(&s->level[0], s->x->n, i, j, first + r)->time_s;

	return cell_at(&s->level[0], s->x->n, i, k, first)->time_s < known_s &&
	       inner_best(s, 0, k, j).time_s * (1 - 1e-9) <
		       known_s * (s->speeds[first + r] - s->speeds[first]);
}

/* The same for workers that differ. The first worker of the last stage moves forward, so that for
 * each m the numbers r rise: of equal ones the smallest is kept. */
static void try_cut_in_order(const struct search *s, int i, int k, int j)
{
	const struct orr_hierarchy_options *o = s->options;
	int most = o->levels.workers[0];

	for (int first = most - 1; first > 0; first--) {
		struct orr_sharing gang = orr_sharing_of(o->machine, o->order + first);
		double transfer = -1;

		for (int r = 1; first + r <= most && (r == 1 || !o->straight); r++) {
			double time;

			if (!may_help(s, i, k, j, first, r))
				continue;
			transfer = transfer < 0 ? transfer_to_s(s, first, i, k, j) : transfer;
			time = busy_with_s(s, &gang, r, k, j, first);
			try_last(s, 0, i, k, j, first + r, r,
				 transfer / r > time ? transfer / r : time);
		}
	}
}

static void try_cuts(const struct search *s, int level, int i, int j)
{
	struct cell *here = cell_at(&s->level[level], s->x->n, i, j, 0);

	for (int k = i + 1; k < j; k++) {
		if (!is_set(s, s->allowed, k, j) || !is_set(s, s->inside, i, k))
			continue;
		if (s->options->order)
			try_cut_in_order(s, i, k, j);
		else
			try_cut(s, level, i, k, j);
		for (int m = 2; m <= s->level[level].m; m++)
			if (here[m - 1].time_s < here[m].time_s)
				here[m] = here[m - 1];
	}
}

static void fill(const struct search *s, int level)
{
	const struct table *t = &s->level[level];
	int n = s->x->n;

	for (int i = 0; i < t->n_from; i++)
		for (int j = i + 1; j < n; j++) {
			if (!is_set(s, s->inside, i, j))
				continue;
			fill_single(s, level, i, j);
			if (t->m > 1)
				try_cuts(s, level, i, j);
		}
}

/* The stages of the outer levels that a stage lies in. */
struct frame {
	const struct frame *outer;
	int first, r;
};

static int emit(struct orr_hierarchy *h, int i, int j, const struct frame *frame,
		struct orr_error *err)
{
	struct orr_hierarchy_stage *grown = realloc(h->stages,
						    ((size_t)h->n_stages + 1) * sizeof(*grown)),
				   *stage;

	if (!grown)
		return orr_no_memory(err, "plan");
	h->stages = grown;
	stage = &grown[h->n_stages++];
	*stage = (struct orr_hierarchy_stage){.from = i, .to = j, .workers = 1};
	for (int l = 0; frame; frame = frame->outer, l++) {
		stage->first[l] = frame->first;
		stage->replicas[l] = frame->r;
		stage->workers *= frame->r;
	}
	h->n_workers += stage->workers;
	return 0;
}

/* Write the stages between i and j, in order, on as many components as they take. Recursion is as
 * deep as there are stages in a level. */
static int expand(struct orr_hierarchy *h, const struct search *s, int level, int i, int j, int m,
		  const struct frame *outer, int *n_used, struct orr_error *err)
{
	const struct cell *cell = cell_at(&s->level[level], s->x->n, i, j, m);
	struct frame frame = {.outer = outer, .r = cell->r};
	int begin = cell->cut < 0 ? i : cell->cut, n_inner, code;

	if (cell->cut >= 0 &&
	    (code = expand(h, s, level, i, cell->cut, cell->before, outer, &frame.first, err)))
		return code;
	if (s->options->order) /* a place in it, and not the next one that is free */
		frame.first = cell->cut >= 0 ? cell->before : 0;
	*n_used = frame.first + cell->r;
	if (level > 0)
		return expand(h, s, level - 1, begin, j, s->level[level - 1].m, &frame, &n_inner,
			      err);
	return emit(h, begin, j, &frame, err);
}

static double direct_busy_s(const void *user, int i, int j, int r, int left)
{
	const struct search *s = user;

	return is_set(s, s->allowed, i, j) ? busy_s(s, 0, i, j, r, left) : DBL_MAX;
}

/* With one level: a better plan, with every link counted on its own. */
static int go_directly(struct orr_hierarchy *h, const struct search *s, struct orr_error *err)
{
	const struct orr_hierarchy_options *o = s->options;
	struct orr_direct problem = {
		.ideals = s->x,
		.n_workers = o->levels.workers[0],
		.bytes_per_s = o->activations && !o->added ? o->levels.bytes_per_s[0] : 0,
		.in_turn = in_turn(o),
		.keeps_room = o->memory_bytes > 0,
		.busy_s = direct_busy_s,
		.user = s};
	struct orr_direct_stage *stages = NULL;
	int n = 0, first = 0,
	    code = orr_direct_search(&problem, &stages, &n, &h->slowest_s, &h->proven, err);

	if (!code && n)
		h->n_stages = h->n_workers = 0;
	for (int i = 0; i < n && !code; i++) {
		struct frame frame = {.first = first, .r = stages[i].r};

		code = emit(h, stages[i].from, stages[i].to, &frame, err);
		first += stages[i].r;
	}
	free(stages);
	return code;
}

void orr_hierarchy_workers(int *workers, int n, const struct orr_hierarchy_stage *stage,
			   const struct orr_levels *levels, const int *order)
{
	for (int i = 0; i < n; i++) {
		int w = 0, rest = i, size = orr_levels_workers(levels);

		for (int l = levels->n - 1; l >= 0; l--) {
			size /= levels->workers[l];
			w += (stage->first[l] + rest % stage->replicas[l]) * size;
			rest /= stage->replicas[l];
		}
		workers[i] = order ? order[w] : w;
	}
}

/* Which of the pairs that end in j are connected. To test one is a walk over its units; mostly the
 * pair with one unit less is connected, and that unit a neighbour of one in it. */
static void note_connected(struct search *s, int j, uint64_t *room)
{
	const struct orr_ideals *x = s->x;
	size_t n = (size_t)x->n, row = (size_t)x->n_words;
	const uint64_t *next = NULL, *here;
	int less = j - 1;

	while (less > 0 && !orr_ideals_inside(x, less, j))
		less--;
	here = x->bits + (size_t)less * row;
	for (int u = 0; u < x->n_units && !next; u++)
		if (orr_ideals_has(x, j, u) && !orr_ideals_has(x, less, u))
			next = x->neighbours + (size_t)u * row;
	for (int i = 0; i < j; i++) {
		bool *allowed = &s->allowed[(size_t)j * n + (size_t)i], known = i == less;

		for (size_t w = 0; s->allowed[(size_t)less * n + (size_t)i] && w < row && !known;
		     w++)
			known = next[w] & here[w] & ~x->bits[(size_t)i * row + w];
		*allowed = *allowed && (known || orr_ideals_connected(x, i, j, room));
	}
}

static int find_pairs(struct search *s, struct orr_error *err)
{
	const struct orr_ideals *x = s->x;
	size_t n = (size_t)x->n;
	int code;
	uint64_t *room = orr_arrays_add(&s->all, 2 * (size_t)x->n_words, sizeof(*room));

	orr_arrays_make(&s->all, s->allowed, n * n);
	orr_arrays_make(&s->all, s->inside, n * n);
	if ((code = orr_arrays_check(&s->all, "plan", err)))
		return code;
	for (int j = 0; j < x->n; j++) {
		for (int i = 0; i < j; i++)
			s->inside[(size_t)j * n + (size_t)i] =
				s->allowed[(size_t)j * n + (size_t)i] = orr_ideals_inside(x, i, j);
		if (s->options->connected && j)
			note_connected(s, j, room);
	}
	return 0;
}

static int find_sent(struct search *s, struct orr_error *err)
{
	const struct orr_ideals *x = s->x;
	const struct orr_tensors *t = &x->tensors;
	size_t n = (size_t)x->n;

	if (!s->options->added || !s->options->activations)
		return 0;
	if (!(s->sent = orr_arrays_add(&s->all, n * n, sizeof(*s->sent))))
		return orr_no_memory(err, "plan");
	for (int j = 0; j < x->n; j++)
		for (int i = 0; i < j; i++) {
			int64_t *sent = &s->sent[(size_t)j * n + (size_t)i];
			struct orr_sent read;

			if (!s->inside[(size_t)j * n + (size_t)i])
				continue;
			read = orr_tensors_sent(x, 0, i, j);
			*sent = read.bytes + read.gradient_bytes;
			for (int l = t->first_live[j]; l < t->first_live[j + 1]; l++)
				if (!orr_ideals_has(x, i, t->makers[t->live[l]]))
					*sent += t->sent[t->live[l]].bytes +
						 t->sent[t->live[l]].gradient_bytes;
		}
	return 0;
}

static int find_gangs(struct search *s, struct orr_error *err)
{
	const struct orr_hierarchy_options *o = s->options;
	int n = o->levels.workers[0], code;

	orr_arrays_make(&s->all, s->links, n);
	orr_arrays_make(&s->all, s->speeds, (size_t)n + 1);
	if ((code = orr_arrays_check(&s->all, "plan", err)))
		return code;
	for (int w = 0; w < n; w++) {
		s->speeds[w + 1] =
			s->speeds[w] + fmax(orr_machine_speed(o->machine, o->order[w]), 1);
		if (w)
			s->links[w - 1] =
				orr_machine_link(o->machine, o->order[w - 1], o->order[w]);
	}
	return 0;
}

static int find_sums(struct search *s, struct orr_error *err)
{
	const struct orr_hierarchy_options *o = s->options;
	int n = orr_levels_workers(&o->levels);

	if (!o->machine || !o->n_microbatches ||
	    orr_sums_are_rings(o->machine, o->numerics.shard_optimizer))
		return 0;
	for (int l = 0; l < o->levels.n; l++)
		s->sums_each = (size_t)larger((int64_t)s->sums_each, o->levels.workers[l] + 1);
	orr_arrays_make(&s->all, s->failed, 1);
	orr_arrays_make(&s->all, s->owners, n);
	orr_arrays_make(&s->all, s->sums, (size_t)(o->order ? n : o->levels.n) * s->sums_each);
	return orr_arrays_check(&s->all, "plan", err);
}

int orr_hierarchy_find(struct orr_hierarchy *h, const struct orr_ideals *x,
		       const struct orr_hierarchy_options *options, struct orr_error *err)
{
	struct search s = {.x = x, .options = options};
	int last = options->levels.n - 1, n_used, code;
	const struct cell *all;

	*h = (struct orr_hierarchy){0};
	if ((code = find_pairs(&s, err)) || (code = find_sent(&s, err)))
		goto out;
	if ((options->order && (code = find_gangs(&s, err))) || (code = find_sums(&s, err)))
		goto out;
	for (int l = 0; l <= last; l++) {
		struct table *t = &s.level[l];

		t->m = options->levels.workers[l];
		/* only what starts at the beginning is asked of the last */
		t->n_from = l == last ? 1 : x->n;
		orr_arrays_make(&s.all, t->cells,
				(size_t)t->n_from * (size_t)x->n * (size_t)(t->m + 1));
		if ((code = orr_arrays_check(&s.all, "plan", err)))
			goto out;
		fill(&s, l);
	}
	all = cell_at(&s.level[last], x->n, 0, x->n - 1, s.level[last].m);
	if (all->time_s >= DBL_MAX)
		goto out;
	h->slowest_s = all->time_s;
	if ((code = expand(h, &s, last, 0, x->n - 1, s.level[last].m, NULL, &n_used, err)) ||
	    (!last && !options->order && (code = go_directly(h, &s, err))))
		goto out;
	h->proven = h->proven || (options->order && !options->machine->latency_ns &&
				  options->machine->bandwidth_bytes_per_s <= 0);
	if (!code && s.failed && *s.failed)
		code = orr_no_memory(err, "plan");
out:
	orr_arrays_free(&s.all);
	return code;
}
