/* The costs, per microbatch of one stage on r components of a level with links of bandwidth B:
 *
 *   t = max((inner + exchange) / r, transfer),
 *   inner     what the stage takes on one component: on a worker its forward and backward, on a group of
 *             workers the slowest stage of the best pipeline inside, found one level further in;
 *   exchange  4 (r-1) parameters / (B r inner workers);
 *   transfer  2 max(bytes in, bytes out) / (B r), activation forward and gradient back.
 *
 * This is what PipeDream's published optimizer counts, so that figures can be compared. It differs from the
 * formula that [5] prints in three places: exchange and computing are added there, not the larger of them
 * taken (nothing overlaps); the exchange has a factor of 4 instead of 2 (gradients go out and parameters come
 * back, each both ways); and the replicas share the transfers.
 *
 * Ours differs from that optimizer in these:
 * - it divides the exchange by the workers inside a component for the first stage of a level only; here every
 *   stage's is: each worker exchanges what it holds over a link of its own;
 * - it does not count what the first stage sends where the next one has more replicas; here both ends count;
 * - it takes incomparable antichains for places of a cut inside a level; here a stage always is what lies
 *   between an ideal and a larger one, so that every plan can be run;
 * - it uses all workers unless told otherwise; here a plan may leave workers idle when that is faster.
 * In both, a tensor that is read two stages later counts at each cut that it crosses. */
#include "hierarchy.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "ideals.h"
#include "quantity.h"

/* The best pipeline between two ideals with at most so many components: its last stage begins at `cut` (-1:
 * there is one stage) on r components, and what comes before has `before`. */
struct cell {
	double time_s;
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
	bool *allowed; /* [n * n] the second lies inside the first, and what lies between may be a stage */
	bool *inside;
};

int orr_levels_parse(struct orr_levels *levels, const char *workers, const char *links, struct orr_error *err)
{
	char part[64];
	int n_links = 0, total = 1;

	*levels = (struct orr_levels){0};
	for (const char *at = workers; ; at++) {
		size_t length = strcspn(at, "x");
		int64_t count = 0;
		int code;

		if (levels->n == ORR_MOST_LEVELS || length >= sizeof(part))
			return orr_fail(err, ORR_E_INPUT, "--workers %.40s: give at most %d levels, innermost first, such as "
			                "4x2", workers, ORR_MOST_LEVELS);
		if (!length)
			return orr_fail(err, ORR_E_INPUT, "--workers %.40s: a number is missing beside an x: say 4, or 4x2 "
			                "for 2 groups of 4", *workers ? workers : "''");
		memcpy(part, at, length);
		part[length] = '\0';
		if ((code = orr_count_parse(&count, part, 1, 4096, "--workers", err)))
			return code;
		total *= (int)count;
		if (total > 4096)
			return orr_fail(err, ORR_E_INPUT, "--workers %.40s: at most 4096 in all", workers);
		levels->workers[levels->n++] = (int)count;
		at += length;
		if (!*at)
			break;
	}
	for (const char *at = links; at; n_links++) {
		size_t length = strcspn(at, ",");
		int code;

		if (n_links == levels->n || length >= sizeof(part))
			break;
		memcpy(part, at, length);
		part[length] = '\0';
		if ((code = orr_rate_parse(&levels->bytes_per_s[n_links], part, "--link", err)))
			return code;
		at = at[length] ? at + length + 1 : NULL;
		if (!at && n_links + 1 == levels->n)
			return 0;
	}
	if (!links)
		return 0;
	return orr_fail(err, ORR_E_INPUT, "--link %.60s: --workers %.40s has %d level%s: give as many links, innermost "
	                "first", links, workers, levels->n, levels->n == 1 ? "" : "s");
}

int orr_levels_workers(const struct orr_levels *levels)
{
	int n = 1;

	for (int l = 0; l < levels->n; l++)
		n *= levels->workers[l];
	return n;
}

static struct cell *cell_at(const struct table *t, int n, int i, int j, int m)
{
	return &t->cells[((size_t)i * (size_t)n + (size_t)j) * (size_t)(t->m + 1) + (size_t)m];
}

static double seconds(int64_t ns)
{
	return (double)ns * 1e-9;
}

/* Time on one component of the level. */
static double inner_s(const struct search *s, int level, int i, int j)
{
	if (level == 0)
		return seconds(s->x->compute_ns[j] - s->x->compute_ns[i] + s->x->overhead_ns);
	return cell_at(&s->level[level - 1], s->x->n, i, j, s->level[level - 1].m)->time_s;
}

static double exchange_s(const struct search *s, int level, int i, int j, int r)
{
	double rate = s->options->levels.bytes_per_s[level];
	double bytes = (double)(s->x->parameter_bytes[j] - s->x->parameter_bytes[i]);
	int inner = 1;

	for (int l = 0; l < level; l++)
		inner *= s->options->levels.workers[l];
	return rate > 0 ? 4 * (r - 1) * bytes / (rate * r) / inner : 0;
}

static double transfer_s(const struct search *s, int level, int i, int j, int r)
{
	double rate = s->options->levels.bytes_per_s[level];
	int64_t in = s->x->crossing_bytes[i], out = s->x->crossing_bytes[j];

	return rate > 0 && s->options->activations ? 2 * (double)(in > out ? in : out) / (rate * r) : 0;
}

/* DBL_MAX where it may not be. left: components for this stage and all after it. */
static double stage_s(const struct search *s, int level, int i, int j, int r, int left)
{
	const struct orr_hierarchy_options *o = s->options;
	double inner = inner_s(s, level, i, j), time, transfer;
	int flight = o->least_in_flight;

	if (inner >= DBL_MAX || (r > 1 && o->straight))
		return DBL_MAX;
	if (o->memory_bytes && level == 0) {
		if (o->levels.n == 1 && (left + r - 1) / r > flight)
			flight = (left + r - 1) / r;
		if (o->most_in_flight && flight > o->most_in_flight)
			flight = o->most_in_flight;
		if ((s->x->parameter_bytes[j] - s->x->parameter_bytes[i]) * o->copies +
		    (s->x->stash_bytes[j] - s->x->stash_bytes[i]) * flight > o->memory_bytes)
			return DBL_MAX;
	}
	time = (inner + exchange_s(s, level, i, j, r)) / r;
	transfer = transfer_s(s, level, i, j, r);
	return time > transfer ? time : transfer;
}

static bool is_set(const struct search *s, const bool *matrix, int i, int j)
{
	return matrix[(size_t)j * (size_t)s->x->n + (size_t)i];
}

/* One stage from i to j on 1 to m components; fewer where that is no slower. */
static void fill_single(const struct search *s, int level, int i, int j)
{
	const struct table *t = &s->level[level];
	double least = DBL_MAX;
	short r = 1;

	for (int m = 1; m <= t->m; m++) {
		double time = is_set(s, s->allowed, i, j) ? stage_s(s, level, i, j, m, t->m) : DBL_MAX;

		if (time < least) {
			least = time;
			r = (short)m;
		}
		*cell_at(t, s->x->n, i, j, m) = (struct cell){least, -1, 0, r};
	}
}

static void try_cut(const struct search *s, int level, int i, int k, int j)
{
	const struct table *t = &s->level[level];
	struct cell *here = cell_at(t, s->x->n, i, j, 0);
	const struct cell *before = cell_at(t, s->x->n, i, k, 0);

	for (int r = 1; r < t->m; r++) {
		double lowest = stage_s(s, level, k, j, r, r);

		if (lowest >= here[r + 1].time_s) /* here gets no slower with more components */
			continue;
		for (int m = r + 1; m <= t->m; m++) {
			double time = s->options->memory_bytes ? stage_s(s, level, k, j, r, t->m - (m - r)) : lowest;

			if (before[m - r].time_s > time)
				time = before[m - r].time_s;
			if (time < here[m].time_s)
				here[m] = (struct cell){time, k, (short)(m - r), (short)r};
		}
	}
	for (int m = 2; m <= t->m; m++)
		if (here[m - 1].time_s < here[m].time_s)
			here[m] = here[m - 1];
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
			for (int k = i + 1; k < j && t->m > 1; k++)
				if (is_set(s, s->allowed, k, j) && is_set(s, s->inside, i, k))
					try_cut(s, level, i, k, j);
		}
}

/* The stages of the outer levels that a stage lies in. */
struct frame {
	const struct frame *outer;
	double exchange_s, transfer_s;
	int first, r;
};

static int emit(struct orr_hierarchy *h, const struct search *s, int i, int j, const struct frame *frame,
                struct orr_error *err)
{
	struct orr_hierarchy_stage *grown = realloc(h->stages, ((size_t)h->n_stages + 1) * sizeof(*grown)), *stage;
	double time = inner_s(s, 0, i, j), compute = time;

	if (!grown)
		return orr_fail(err, ORR_E_NOMEM, "plan: no memory for %d stages", h->n_stages + 1);
	h->stages = grown;
	stage = &grown[h->n_stages++];
	*stage = (struct orr_hierarchy_stage){.from = i, .to = j, .workers = 1};
	for (int l = 0; frame; frame = frame->outer, l++) {
		stage->first[l] = frame->first;
		stage->replicas[l] = frame->r;
		time = (time + frame->exchange_s) / frame->r;
		time = frame->transfer_s > time ? frame->transfer_s : time;
		stage->workers *= frame->r;
	}
	stage->compute_s = compute / stage->workers;
	stage->communication_s = time - stage->compute_s;
	h->n_workers += stage->workers;
	h->slowest_s = time > h->slowest_s ? time : h->slowest_s;
	return 0;
}

/* Write the stages between i and j, in order, on as many components as they take. Recursion is as deep as there are
 * stages in a level. */
static int expand(struct orr_hierarchy *h, const struct search *s, int level, int i, int j, int m,
                  const struct frame *outer, int *n_used, struct orr_error *err)
{
	const struct cell *cell = cell_at(&s->level[level], s->x->n, i, j, m);
	struct frame frame = {.outer = outer, .r = cell->r};
	int begin = cell->cut < 0 ? i : cell->cut, n_inner, code;

	if (cell->cut >= 0 && (code = expand(h, s, level, i, cell->cut, cell->before, outer, &frame.first, err)))
		return code;
	*n_used = frame.first + cell->r;
	frame.exchange_s = exchange_s(s, level, begin, j, cell->r);
	frame.transfer_s = transfer_s(s, level, begin, j, cell->r);
	if (level > 0)
		return expand(h, s, level - 1, begin, j, s->level[level - 1].m, &frame, &n_inner, err);
	return emit(h, s, begin, j, &frame, err);
}

int orr_hierarchy_worker(const struct orr_hierarchy_stage *stage, const struct orr_levels *levels, int i)
{
	int w = 0, size = orr_levels_workers(levels);

	for (int l = levels->n - 1; l >= 0; l--) {
		size /= levels->workers[l];
		w += (stage->first[l] + i % stage->replicas[l]) * size;
		i /= stage->replicas[l];
	}
	return w;
}

static int find_pairs(struct search *s, struct orr_error *err)
{
	const struct orr_ideals *x = s->x;
	size_t n = (size_t)x->n;
	uint64_t *room = calloc(2 * (size_t)x->n_words, sizeof(*room));

	s->allowed = calloc(n * n, sizeof(*s->allowed));
	s->inside = calloc(n * n, sizeof(*s->inside));
	if (!room || !s->allowed || !s->inside) {
		free(room);
		return orr_fail(err, ORR_E_NOMEM, "plan: no memory for %d cuts", x->n);
	}
	for (int j = 0; j < x->n; j++)
		for (int i = 0; i < j; i++) {
			size_t at = (size_t)j * n + (size_t)i;

			s->inside[at] = orr_ideals_inside(x, i, j);
			s->allowed[at] = s->inside[at] &&
			                 (!s->options->connected || orr_ideals_connected(x, i, j, room));
		}
	free(room);
	return 0;
}

int orr_hierarchy_create(struct orr_hierarchy **out, const struct orr_ideals *x,
                         const struct orr_hierarchy_options *options, struct orr_error *err)
{
	struct search s = {.x = x, .options = options};
	struct orr_hierarchy *h = calloc(1, sizeof(*h));
	int last = options->levels.n - 1, n_used, code = 0;

	*out = NULL;
	if (!h) {
		code = orr_fail(err, ORR_E_NOMEM, "plan: no memory");
		goto out;
	}
	if ((code = find_pairs(&s, err)))
		goto out;
	for (int l = 0; l <= last; l++) {
		struct table *t = &s.level[l];

		t->m = options->levels.workers[l];
		t->n_from = l == last ? 1 : x->n; /* only what starts at the beginning is asked of the last */
		t->cells = calloc((size_t)t->n_from * (size_t)x->n * (size_t)(t->m + 1), sizeof(*t->cells));
		if (!t->cells) {
			code = orr_fail(err, ORR_E_NOMEM, "plan: no memory for %d cuts on %d workers", x->n, t->m);
			goto out;
		}
		fill(&s, l);
	}
	if (cell_at(&s.level[last], x->n, 0, x->n - 1, s.level[last].m)->time_s >= DBL_MAX)
		goto out;
	if ((code = expand(h, &s, last, 0, x->n - 1, s.level[last].m, NULL, &n_used, err)))
		goto out;
	*out = h;
	h = NULL;
out:
	for (int l = 0; l <= last; l++)
		free(s.level[l].cells);
	free(s.allowed);
	free(s.inside);
	orr_hierarchy_destroy(h);
	return code;
}

void orr_hierarchy_destroy(struct orr_hierarchy *h)
{
	if (!h)
		return;
	free(h->stages);
	free(h);
}
