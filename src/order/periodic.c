#include "periodic.h"

#include <stdlib.h>
#include <string.h>

#include "base/max.h"
#include "base/quantity.h"
#include "base/sort.h"
#include "orrery/pipeline.h"

/* Stage s is on worker s, if there is one. */
static int64_t job_of(const struct orr_pipeline *p, int s, enum orr_pass d)
{
	return s < p->n_workers ? orr_pipeline_job_ns(p, s, 0, d, s, false)
				: orr_pipeline_duration_ns(p, s, d, false);
}

static int64_t work_of(const struct orr_pipeline *p, int s)
{
	return job_of(p, s, ORR_PASS_F) + job_of(p, s, ORR_PASS_B);
}

static int64_t longest_work(const struct orr_pipeline *p)
{
	int64_t longest = 0;

	for (int s = 0; s < p->n_stages; s++)
		longest = larger(longest, work_of(p, s));
	return longest;
}

static int check_chain(const struct orr_pipeline *p, struct orr_error *err)
{
	for (int s = 0; s < p->n_stages; s++)
		if (p->stages[s].n_out != (s + 1 < p->n_stages) ||
		    (p->stages[s].n_out && orr_stage_after(p, s, 0) != s + 1))
			return orr_fail(err, ORR_E_INPUT,
					"periodic patterns are for chains, and stage %d does not "
					"feed stage %d alone: take 1f1b",
					s, s + 1);
	return 0;
}

bool orr_star_serves(const struct orr_pipeline *p)
{
	return !check_chain(p, NULL);
}

/* Groups are filled from the last stage on as long as their work fits the period. */
static void group(int *in_flight, const struct orr_pipeline *p, int64_t period_ns)
{
	int64_t work = 0;
	int number = 1;

	for (int s = p->n_stages - 1; s >= 0; s--) {
		if (work + work_of(p, s) > period_ns) {
			number++;
			work = 0;
		}
		work += work_of(p, s);
		in_flight[s] = number;
	}
}

/* Forwards follow each other without a gap. In a group the backwards follow the forwards at once;
 * group g does so for a microbatch g - 1 periods older, so a microbatch's own backward is that much
 * later. */
static void place(struct orr_star *x, const struct orr_pipeline *p)
{
	int64_t time = 0;

	for (int s = 0; s < p->n_stages; s++) {
		x->forward_ns[s] = time;
		time += job_of(p, s, ORR_PASS_F);
	}
	for (int s = p->n_stages - 1; s >= 0; s--) {
		bool last = s + 1 == p->n_stages || x->in_flight[s + 1] != x->in_flight[s];

		if (last)
			x->backward_ns[s] = x->forward_ns[s] + job_of(p, s, ORR_PASS_F) +
					    (x->in_flight[s] - 1) * x->period_ns;
		else
			x->backward_ns[s] = x->backward_ns[s + 1] + job_of(p, s + 1, ORR_PASS_B);
	}
}

int orr_star_init(struct orr_star *x, const struct orr_pipeline *p, int64_t period_ns,
		  struct orr_error *err)
{
	size_t n = (size_t)p->n_stages;
	int64_t least;
	int code = check_chain(p, err);

	*x = (struct orr_star){0};
	if (code)
		return code;
	least = longest_work(p);
	if (period_ns && period_ns < least)
		return orr_fail(err, ORR_E_INPUT,
				"a period of %s: the longest stage takes %s: give that or more",
				orr_duration_text(period_ns, p->units),
				orr_duration_text(least, p->units));
	orr_arrays_make(&x->all, x->in_flight, n);
	orr_arrays_make(&x->all, x->forward_ns, n);
	orr_arrays_make(&x->all, x->backward_ns, n);
	if ((code = orr_arrays_check(&x->all, "periodic", err)))
		return code;
	x->period_ns = period_ns ? period_ns : least;
	group(x->in_flight, p, x->period_ns);
	place(x, p);
	return 0;
}

/* Groups change where the work of some stages in a row just fits. */
int orr_star_points(struct orr_star_point **points, int *n, const struct orr_pipeline *p,
		    struct orr_error *err)
{
	size_t n_stages = (size_t)p->n_stages, room = n_stages * (n_stages + 1) / 2;
	struct orr_star_point *list = calloc(room, sizeof(*list)); /* period_ns comes first */
	int *before = calloc(2 * n_stages, sizeof(*before)), *in_flight = before + n_stages, k = 0;
	int64_t least = longest_work(p);

	*n = 0;
	if (!list || !before) {
		free(list);
		free(before);
		return orr_no_memory(err, "periodic");
	}
	for (int from = 0; from < p->n_stages; from++) {
		int64_t work = 0;

		for (int s = from; s < p->n_stages; s++) {
			work += work_of(p, s);
			if (work > least || (work == least && from == s))
				list[k++].period_ns = work;
		}
	}
	qsort(list, (size_t)k, sizeof(*list), orr_compare_numbers);
	for (int i = 0; i < k; i++) {
		struct orr_star_point point = {.period_ns = list[i].period_ns};

		group(in_flight, p, point.period_ns);
		if (!memcmp(before, in_flight, n_stages * sizeof(*before)))
			continue;
		memcpy(before, in_flight, n_stages * sizeof(*before));
		for (int s = 0; s < p->n_stages; s++)
			point.stash_bytes =
				larger(point.stash_bytes, in_flight[s] * p->stages[s].stash_bytes);
		point.in_flight = in_flight[0];
		list[(*n)++] = point;
	}
	free(before);
	*points = list;
	return 0;
}
