/* A label is a way to cut off what is before an ideal: how many workers it takes, how long its
 * slowest stage or link, and which stage made each tensor that is read beyond. Of two at one ideal,
 * one is better where it takes no more of the first two, and shares no link that the other does
 * not. A bound on what is beyond, without links, leaves few. */
#include "direct.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/max.h"
#include "ideals.h"
#include "pipeline/charge.h"

#define MOST_STEPS 20000000 /* a second or so */
#define FEW_LIVE 64         /* pairs of tensors over a cut that are looked at in a step */
#define A_LITTLE 1e-9       /* sums of doubles come out a little apart */

struct label {
	int ideal, n_workers, r, before; /* before: the label that it extends, or -1 */
	int next;                        /* of the same ideal */
	int makers;                      /* where they begin */
	double time_s;                   /* no less than the bound on the part beyond */
};

struct search {
	const struct orr_direct *problem;
	const struct orr_ideals *x;
	double *beyond_s; /* [n * (n_workers + 1)] a lower bound of the part beyond an ideal on that
			     number of workers */
	bool *counts;     /* [tensors] may make a link the slowest */
	struct label *labels;
	int n_labels, labels_room;
	int *of_ideal; /* [n] the first label; -1: none */
	int *makers;   /* of each label: the maker of every live tensor that counts */
	int n_makers, makers_room;
	int64_t steps;
	double slowest_s;
	int best; /* the label before the last stage; -1: none */
	int best_r;
	struct orr_error *err;
};

static double *beyond(const struct search *s, int ideal, int n_workers)
{
	return &s->beyond_s[(size_t)ideal * (size_t)(s->problem->n_workers + 1) +
			    (size_t)n_workers];
}

/* A stage from i to j first, on r workers: what is beyond i on each number of workers. */
static void bound_with(struct search *s, int i, int j, int r)
{
	const struct orr_direct *p = s->problem;
	double time = DBL_MAX;

	for (int w = r; w <= p->n_workers; w++) {
		if (w == r || p->keeps_room)
			time = p->busy_s(p->user, i, j, r, w);
		if (!p->keeps_room &&
		    time >= *beyond(s, i, r)) /* which more workers do not make longer */
			return;
		if (fmax(time, *beyond(s, j, w - r)) < *beyond(s, i, w))
			*beyond(s, i, w) = fmax(time, *beyond(s, j, w - r));
	}
}

/* From the last ideal on: the best for the part beyond each, with free links. */
static void bound(struct search *s)
{
	int n_workers = s->problem->n_workers, last = s->x->n - 1;

	for (int i = last - 1; i >= 0; i--) {
		for (int w = 0; w <= n_workers; w++)
			*beyond(s, i, w) = DBL_MAX;
		for (int j = i + 1; j <= last; j++) {
			for (int r = 1; r <= n_workers && orr_ideals_inside(s->x, i, j); r++)
				bound_with(s, i, j, r);
			for (int w = 1; w <= n_workers; w++)
				if (*beyond(s, i, w - 1) < *beyond(s, i, w))
					*beyond(s, i, w) = *beyond(s, i, w - 1);
		}
	}
}

static double busy_bytes(const struct search *s, double there, double back)
{
	return s->problem->in_turn ? there + back : fmax(there, back);
}

/* Where all that is sent over a cut is less than the bound, no link of it is ever the slowest. */
static void find_what_counts(struct search *s)
{
	const struct orr_tensors *t = &s->x->tensors;

	for (int a = 0; a < s->x->n; a++) {
		double bytes = 0, back = 0;

		for (int l = t->first_live[a]; l < t->first_live[a + 1]; l++) {
			bytes += (double)t->sent[t->live[l]].bytes;
			back += (double)t->sent[t->live[l]].gradient_bytes;
		}
		bytes = busy_bytes(s, bytes, back);
		for (int l = t->first_live[a]; l < t->first_live[a + 1]; l++)
			if (bytes / s->problem->bytes_per_s > *beyond(s, 0, s->problem->n_workers))
				s->counts[t->live[l]] = true;
	}
}

static int least_common_multiple(int a, int b)
{
	return a / (int)common_divisor(a, b) * b;
}

/* The slowest link into the stage from the label's ideal to j, on r workers. */
static double link_s(struct search *s, const struct label *label, int j, int r)
{
	const struct orr_tensors *t = &s->x->tensors;
	const int *makers = s->makers + label->makers;
	int64_t n_live = t->first_live[label->ideal + 1] - t->first_live[label->ideal];
	double slowest = 0;

	s->steps += n_live * n_live / FEW_LIVE;

	/* the sum of each maker, at its first tensor */
	for (int l = t->first_live[label->ideal], k = 0; l < t->first_live[label->ideal + 1]; l++) {
		double bytes = 0, back = 0;
		int maker;

		if (!s->counts[t->live[l]])
			continue;
		maker = makers[k++];
		for (int m = t->first_live[label->ideal], e = 0;
		     m < t->first_live[label->ideal + 1]; m++) {
			if (!s->counts[t->live[m]])
				continue;
			if (makers[e++] != maker ||
			    !orr_tensors_read(s->x, t->live[m], label->ideal, j))
				continue;
			bytes += (double)t->sent[t->live[m]].bytes;
			back += (double)t->sent[t->live[m]].gradient_bytes;
		}
		slowest = fmax(slowest, busy_bytes(s, bytes, back) / s->problem->bytes_per_s /
						least_common_multiple(s->labels[maker].r, r));
	}
	return slowest;
}

/* Do links into stages beyond never carry more with a than with b? */
static bool shares_less(const struct search *s, const struct label *a, const struct label *b, int n)
{
	const int *of = s->makers + a->makers, *other = s->makers + b->makers;

	for (int i = 0; i < n; i++) {
		if (s->labels[of[i]].r % s->labels[other[i]].r)
			return false;
		for (int k = 0; k < i; k++)
			if (of[i] == of[k] && other[i] != other[k])
				return false;
	}
	return true;
}

static int count_live(const struct search *s, int ideal)
{
	const struct orr_tensors *t = &s->x->tensors;
	int n = 0;

	for (int l = t->first_live[ideal]; l < t->first_live[ideal + 1]; l++)
		n += s->counts[t->live[l]];
	return n;
}

/* The maker of each tensor that is live at the new label's ideal: its stage, or the one before. */
static void note_makers(struct search *s, int label)
{
	const struct orr_tensors *t = &s->x->tensors;
	const struct label *now = &s->labels[label],
			   *before = now->before < 0 ? NULL : &s->labels[now->before];
	int l = before ? t->first_live[before->ideal] : 0, k = 0, n = 0;

	for (int i = t->first_live[now->ideal]; i < t->first_live[now->ideal + 1]; i++) {
		int tensor = t->live[i];

		if (!s->counts[tensor])
			continue;
		for (; before && l < t->first_live[before->ideal + 1] && t->live[l] < tensor; l++)
			k += s->counts[t->live[l]];
		s->makers[now->makers + n++] =
			before && l < t->first_live[before->ideal + 1] && t->live[l] == tensor
				? s->makers[before->makers + k]
				: label;
	}
}

/* Keep the label at the end of the list, unless one that is there is as good; what it is better
 * than goes. */
static int add(struct search *s, struct label label)
{
	int n = count_live(s, label.ideal), at = s->n_labels;
	int *link = &s->of_ideal[label.ideal];
	bool grown = orr_grow(&s->labels, at, &s->labels_room, sizeof(*s->labels));

	while (grown && s->n_makers + n > s->makers_room)
		grown = orr_grow(&s->makers, s->makers_room, &s->makers_room, sizeof(*s->makers));
	if (!grown)
		return orr_no_memory(s->err, "plan");
	label.makers = s->n_makers;
	label.next = -1;
	s->labels[at] = label;
	note_makers(s, at);
	while (*link >= 0) {
		const struct label *other = &s->labels[*link];

		s->steps++;
		if (other->n_workers <= label.n_workers && other->time_s <= label.time_s &&
		    shares_less(s, other, &s->labels[at], n))
			return 0;
		if (label.n_workers <= other->n_workers && label.time_s <= other->time_s &&
		    shares_less(s, &s->labels[at], other, n))
			*link = other->next; /* those that came from it are later ideals': not there
						yet */
		else
			link = &s->labels[*link].next;
	}
	*link = at;
	s->n_labels++;
	s->n_makers += n;
	return 0;
}

/* A stage from the label's ideal to j, on r workers, with left for it and all after it. */
static int extend(struct search *s, int at, int j, int r, int left)
{
	const struct orr_direct *p = s->problem;
	struct label label = s->labels[at];
	double least = s->slowest_s * (1 - A_LITTLE), rest = *beyond(s, j, left - r), time;

	s->steps++;
	if (rest >= least || (time = p->busy_s(p->user, label.ideal, j, r, left)) >= least)
		return 0;
	time = fmax(fmax(time, rest), label.time_s);
	if (time >= least || (time = fmax(time, link_s(s, &label, j, r))) >= least)
		return 0;
	if (j < s->x->n - 1)
		return add(s, (struct label){.ideal = j,
					     .n_workers = p->n_workers - left + r,
					     .r = r,
					     .before = at,
					     .time_s = time});
	s->slowest_s = time;
	s->best = at;
	s->best_r = r;
	return 0;
}

static int run(struct search *s)
{
	int code = add(s, (struct label){.before = -1,
					 .r = 1,
					 .time_s = *beyond(s, 0, s->problem->n_workers)});

	for (int i = 0; i < s->x->n - 1 && !code; i++)
		for (int at = s->of_ideal[i]; at >= 0 && !code && s->steps < MOST_STEPS;
		     at = s->labels[at].next) {
			int most = s->problem->n_workers - s->labels[at].n_workers;

			for (int j = i + 1; j < s->x->n; j++)
				for (int r = 1; r <= most && !code && orr_ideals_inside(s->x, i, j);
				     r++)
					for (int left = s->problem->keeps_room ? r : most;
					     left <= most && !code; left++)
						code = extend(s, at, j, r, left);
		}
	return code;
}

static int write_stages(const struct search *s, struct orr_direct_stage **stages, int *n)
{
	int to = s->x->n - 1, r = s->best_r;

	for (int at = s->best; at >= 0; at = s->labels[at].before)
		++*n;
	if (*n && !(*stages = calloc((size_t)*n, sizeof(**stages))))
		return orr_no_memory(s->err, "plan");
	for (int at = s->best, k = *n; at >= 0; at = s->labels[at].before) {
		(*stages)[--k] = (struct orr_direct_stage){s->labels[at].ideal, to, r};
		to = s->labels[at].ideal;
		r = s->labels[at].r;
	}
	return 0;
}

int orr_direct_search(const struct orr_direct *problem, struct orr_direct_stage **stages, int *n,
		      double *slowest_s, bool *proven, struct orr_error *err)
{
	const struct orr_ideals *x = problem->ideals;
	struct search s = {
		.problem = problem, .x = x, .slowest_s = *slowest_s, .best = -1, .err = err};
	struct orr_arrays all = {0};
	int code;

	*n = 0;
	*proven = !(problem->bytes_per_s > 0);
	if (*proven)
		return 0;
	orr_arrays_make(&all, s.beyond_s, (size_t)x->n * (size_t)(problem->n_workers + 1));
	orr_arrays_make(&all, s.counts, (size_t)x->tensors.n + 1);
	orr_arrays_make(&all, s.of_ideal, x->n);
	if ((code = orr_arrays_check(&all, "plan", err)))
		return code;
	memset(s.of_ideal, 0xff, (size_t)x->n * sizeof(*s.of_ideal)); /* -1 */
	bound(&s);
	find_what_counts(&s);
	if (*beyond(&s, 0, problem->n_workers) < *slowest_s * (1 - A_LITTLE) && (code = run(&s)))
		goto out;
	*proven = s.steps < MOST_STEPS;
	*slowest_s = s.slowest_s;
	code = write_stages(&s, stages, n);
out:
	orr_arrays_free(&all);
	free(s.labels);
	free(s.makers);
	return code;
}
