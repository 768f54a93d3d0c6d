/* Losses of classes whose scores lie in parts, and rows that go to experts. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../codelets/sequence.h"
#include "../codelets/device.h"
#include "../codelets/operator.h"
#include "../codelets/program.h"
#include "../codelets/shapes.h"
#include "small_model.h"
#include "suite.h"

static struct orr_device cpu = {.kernels = &orr_kernels_cpu};

/* ---- classes in parts ---- */

#define N 6
#define ROWS 4
#define CLASSES 11
#define ALL (N * ROWS)
#define MOST_PARTS 3

/* Where each part begins, and the last ends. */
static const int starts[MOST_PARTS][MOST_PARTS + 1] = {{0, 11}, {0, 4, 11}, {0, 1, 6, 11}};

/* The loss of scores in n parts, and its slopes by the scores. */
static struct orr_metrics in_parts(int n, const struct orr_classes *k, const float *scores,
				   const float *classes, float *slope)
{
	static float part[MOST_PARTS][ALL * CLASSES], kept[MOST_PARTS][ALL * CLASSES],
		dx[ALL * CLASSES];
	struct orr_class_part seen[ALL][MOST_PARTS], each[ALL], back[ALL][MOST_PARTS];
	float at[MOST_PARTS][ALL];
	struct orr_metrics metrics;

	for (int p = 0; p < n; p++) {
		int first = starts[n - 1][p], width = starts[n - 1][p + 1] - first;

		for (int r = 0; r < ALL; r++)
			memcpy(part[p] + r * width, scores + r * CLASSES + first,
			       (size_t)width * sizeof(float));
		orr_losses_cpu.class_part(&cpu, ALL, first, width, part[p], classes, (float *)each,
					  kept[p], at[p]);
		for (int r = 0; r < ALL; r++)
			((struct orr_class_part *)seen)[r * n + p] = each[r];
	}
	orr_losses_cpu.class_parts_entropy(&cpu, N, k, n, (float *)seen, classes, (float *)back,
					   &metrics);
	for (int p = 0; p < n; p++) {
		int first = starts[n - 1][p], width = starts[n - 1][p + 1] - first;

		for (int r = 0; r < ALL; r++)
			each[r] = ((struct orr_class_part *)back)[r * n + p];
		orr_losses_cpu.class_part_input(&cpu, ALL, width, kept[p], at[p], (float *)each,
						dx);
		for (int r = 0; r < ALL; r++)
			memcpy(slope + r * CLASSES + first, dx + r * width,
			       (size_t)width * sizeof(float));
	}
	return metrics;
}

enum { MILD, LARGE, SMALL, MIXED, EQUAL, N_KINDS };
static float score_of(int kind, int i, uint64_t *seed)
{
	float x = (float)small_random(seed);

	switch (kind) {
	case LARGE:
		return 1e4f + 8 * x;
	case SMALL:
		return -1e4f + 8 * x;
	case MIXED:
		return i % 3 ? 1e4f : -1e4f;
	case EQUAL:
		return 0.5f;
	default:
		return 5 * x;
	}
}

static const struct {
	float ignored;
	double smoothing;
} settings[] = {{NAN, 0}, {2, 0}, {NAN, 0.1}, {2, 0.1}, {-100, 0}};

/* Of sample 1 no row counts where some are ignored. */
START_TEST(a_loss_in_parts_is_that_of_the_whole)
{
	int kind = _i % N_KINDS, setting = _i / N_KINDS;
	struct orr_classes k = {ROWS, CLASSES, settings[setting].ignored,
				settings[setting].smoothing};
	float scores[ALL * CLASSES], classes[ALL], right[ALL * CLASSES], slope[ALL * CLASSES];
	struct orr_metrics whole, found;
	uint64_t seed = 3;

	for (int i = 0; i < ALL * CLASSES; i++)
		scores[i] = score_of(kind, i, &seed);
	for (int r = 0; r < ALL; r++)
		classes[r] =
			r / ROWS == 1 && !isnan(k.ignored) ? k.ignored : (float)(r * 5 % CLASSES);
	orr_losses_cpu.softmax_cross_entropy(&cpu, N, &k, scores, classes, right, &whole);
	for (int n = 1; n <= MOST_PARTS; n++) {
		found = in_parts(n, &k, scores, classes, slope);
		ck_assert_msg(fabs(found.loss - whole.loss) <= 1e-6 * fabs(whole.loss) + 1e-6,
			      "%d parts: the loss is %.9g, should be %.9g", n, found.loss,
			      whole.loss);
		ck_assert_double_eq(found.correct, whole.correct);
		ck_assert_double_eq(found.classified, whole.classified);
		for (int i = 0; i < ALL * CLASSES; i++)
			ck_assert_msg(fabsf(slope[i] - right[i]) <= 1e-6f,
				      "%d parts: slope %d is %.9g, should be %.9g", n, i,
				      (double)slope[i], (double)right[i]);
	}
}
END_TEST

START_TEST(without_a_row_that_counts_a_loss_in_parts_is_zero)
{
	struct orr_classes k = {ROWS, CLASSES, -1, 0.1};
	float scores[ALL * CLASSES], classes[ALL], slope[ALL * CLASSES];
	struct orr_metrics found;

	for (int i = 0; i < ALL * CLASSES; i++)
		scores[i] = (float)(i % 17);
	for (int r = 0; r < ALL; r++)
		classes[r] = -1;
	found = in_parts(2, &k, scores, classes, slope);
	ck_assert(fabs(found.loss) <= 0 && found.classified == 0 && found.correct == 0);
	for (int i = 0; i < ALL * CLASSES; i++)
		ck_assert(fabsf(slope[i]) <= 0);
}
END_TEST

START_TEST(a_class_that_is_none_makes_a_loss_in_parts_nan)
{
	static const float wrong[] = {-1, CLASSES, 0.5f, 1e20f, -1e20f, NAN, INFINITY};
	struct orr_classes k = {ROWS, CLASSES, NAN, 0};
	float scores[ALL * CLASSES] = {0}, classes[ALL] = {0}, slope[ALL * CLASSES];

	classes[3] = wrong[_i];
	ck_assert(isnan(in_parts(2, &k, scores, classes, slope).loss));
	for (int i = 0; i < ALL * CLASSES; i++)
		ck_assert(isnan(slope[i]) == (i / CLASSES == 3));
}
END_TEST

/* ---- experts ---- */

/* Six rows in order want expert 1, but the last, which wants 0; with two places a group. */
START_TEST(an_expert_takes_rows_in_order_up_to_its_places)
{
	static const struct {
		int64_t groups;
		float places[6];
	} cases[] = {{1, {0, 1, -1, -1, -1, 0}}, {2, {0, 1, -1, 0, 1, 0}}, {3, {0, 1, 0, 1, 0, 0}}};
	const float scores[12] = {0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 1, 0};
	struct orr_routing r = {1, 6, 2, 1, cases[_i].groups, 2};
	struct orr_routed route[6];

	orr_experts_cpu.route(&cpu, &r, scores, (float *)route);
	for (int i = 0; i < 6; i++) {
		double score = (double)fmaxf(scores[2 * i], scores[2 * i + 1]);

		ck_assert(fabsf(route[i].expert - (i < 5 ? 1.0f : 0.0f)) <= 0);
		ck_assert_msg(fabsf(route[i].place - cases[_i].places[i]) <= 0, "row %d: %g", i,
			      (double)route[i].place);
		ck_assert_double_eq_tol((double)route[i].weight, 1 / (1 + exp(-score)), 1e-6);
	}
}
END_TEST

/* First choices come before second ones, whatever the row. */
START_TEST(of_two_choices_the_first_ones_are_placed_first)
{
	const float scores[6] = {2, 1, 0, 0, 3, 1};
	struct orr_routing r = {1, 2, 3, 2, 1, 1};
	struct orr_routed route[4];

	orr_experts_cpu.route(&cpu, &r, scores, (float *)route);
	ck_assert(route[0].expert < 0.5f && route[0].place > -0.5f);
	ck_assert(route[1].expert > 0.5f && route[1].expert < 1.5f && route[1].place < 0);
	ck_assert(route[2].expert > 0.5f && route[2].place > -0.5f);
	ck_assert(route[3].expert > 1.5f && route[3].place > -0.5f);
	for (int i = 0; i < 4; i += 2)
		ck_assert_double_eq_tol((double)(route[i].weight + route[i + 1].weight), 1, 1e-6);
}
END_TEST

/* What goes to experts that change nothing comes back times the weights of those that took it. */
START_TEST(rows_come_back_from_where_they_went)
{
	enum { SAMPLES = 3, GROUP = 8, WIDTH = 5, EXPERTS = 4, PLACES = 3 };
	struct orr_routing r = {SAMPLES, GROUP, EXPERTS, 1 + _i, 2, PLACES};
	float scores[SAMPLES * GROUP * EXPERTS], x[SAMPLES * GROUP * WIDTH], at[SAMPLES * GROUP];
	float there[SAMPLES * 2 * PLACES * WIDTH], y[SAMPLES * GROUP * WIDTH] = {0};
	struct orr_routed route[SAMPLES * GROUP * 2];
	uint64_t seed = 5;
	int n_dropped = 0;

	for (int i = 0; i < SAMPLES * GROUP * EXPERTS; i++)
		scores[i] = (float)(small_random(&seed) * 4) + (i % EXPERTS == 2 ? 1.0f : 0.0f);
	for (int i = 0; i < SAMPLES * GROUP * WIDTH; i++)
		x[i] = 1 + (float)small_random(&seed);
	orr_experts_cpu.route(&cpu, &r, scores, (float *)route);
	for (int e = 0; e < EXPERTS; e++) {
		orr_experts_cpu.dispatch(&cpu, &r, e, WIDTH, x, (float *)route, there, at);
		orr_experts_cpu.combine(&cpu, &r, e, WIDTH, (float *)route, there, y);
	}
	for (int i = 0; i < SAMPLES * GROUP; i++) {
		float weight = 0;

		for (int j = 0; j <= _i; j++) {
			struct orr_routed c = route[i * (1 + _i) + j];

			weight += c.place < 0 ? 0.0f : c.weight;
			n_dropped += c.place < 0;
		}
		for (int c = 0; c < WIDTH; c++)
			ck_assert_double_eq_tol((double)y[i * WIDTH + c],
						(double)(weight * x[i * WIDTH + c]), 1e-6);
	}
	ck_assert_int_gt(n_dropped, 0);
	ck_assert_int_lt(n_dropped, SAMPLES * GROUP / 2);
}
END_TEST

/* Evenly chosen and evenly probable it is 1, of one that is sure for all rows as many as there are
 * experts. */
START_TEST(a_balance_is_least_where_experts_are_chosen_evenly)
{
	float even[16], one[16], slope[16], shares[4];
	struct orr_routing r = {1, 4, 4, 1, 1, 2};
	struct orr_routed route[4];
	struct orr_metrics seen;

	for (int i = 0; i < 16; i++) {
		even[i] = i % 4 == i / 4 ? 1e-3f : 0.0f;
		one[i] = i % 4 == 1 ? 50.0f : 0.0f;
	}
	orr_experts_cpu.route(&cpu, &r, even, (float *)route);
	orr_losses_cpu.balance(&cpu, &r, even, (float *)route, slope, shares, &seen);
	ck_assert_double_eq_tol(seen.loss, 1, 1e-6);
	ck_assert(seen.classified == 4 && seen.correct == 4);
	orr_experts_cpu.route(&cpu, &r, one, (float *)route);
	orr_losses_cpu.balance(&cpu, &r, one, (float *)route, slope, shares, &seen);
	ck_assert_double_eq_tol(seen.loss, 4, 1e-6);
	ck_assert(seen.classified == 4 && seen.correct == 2); /* two were dropped */
}
END_TEST

/* A route that no `route` made: nothing is read or written where nothing is. */
START_TEST(choices_that_are_none_go_nowhere)
{
	static const struct orr_routed wrong[] = {
		{NAN, 0, 1}, {0, NAN, 1},   {-1, 0, 1},       {7, 0, 1},
		{0, 2, 1},   {0, 1e30f, 1}, {INFINITY, 0, 1}, {0.5f, 0, 1},
	};
	struct orr_routing r = {1, 1, 2, 1, 1, 2};
	float x[2] = {3, 4}, y[4], at[1], back[2] = {0, 0}, slope[3] = {0}, dx[4];

	orr_experts_cpu.dispatch(&cpu, &r, 0, 2, x, (const float *)&wrong[_i], y, at);
	ck_assert(at[0] < 0);
	orr_experts_cpu.combine(&cpu, &r, 0, 2, (const float *)&wrong[_i], y, back);
	orr_experts_cpu.combine_input(&cpu, &r, 0, 2, (const float *)&wrong[_i], y, x, dx, slope);
	for (int i = 0; i < 4; i++)
		ck_assert(fabsf(y[i]) <= 0 && fabsf(dx[i]) <= 0 && fabsf(back[i % 2]) <= 0 &&
			  fabsf(slope[i % 3]) <= 0);
}
END_TEST

/* A table knows how many ids there are from `of`, or from the table that it is a part of. */
START_TEST(a_part_of_a_table_takes_the_ids_of_the_whole)
{
	static const struct {
		const char *says;
		int64_t whole, n_ids;
	} cases[] = {
		{"", 0, 4}, {", first=2", 0, 6}, {", first=2, of=9", 0, 9}, {", first=2", 7, 7}};
	struct orr_graph *g = NULL;
	struct orr_error err = {""};
	struct orr_instance *is;
	char text[300];

	(void)snprintf(text, sizeof(text),
		       "digraph { e [op=embedding, vocabulary=4, features=2%s]; "
		       "x [op=input, columns=0]; y [op=input, columns=\"1:3\"]; l [op=mse]; "
		       "x -> e -> l; y -> l; }",
		       cases[_i].says);
	ck_assert_msg(!orr_graph_parse(&g, "model.dot", text, &err), "%s", err.msg);
	for (int k = 0; k < g->n_operators; k++) {
		is = g->operators[k].instance;
		if (strcmp(is->op->name, "embedding") != 0)
			continue;
		is->parameters[0].portion.of = cases[_i].whole;
		ck_assert_int_eq(is->op->n_ids(is, 0), cases[_i].n_ids);
	}
	orr_graph_destroy(g);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(a_loss_in_parts_is_that_of_the_whole, N_KINDS *N_OF(settings)),
	ONCE(without_a_row_that_counts_a_loss_in_parts_is_zero),
	EACH(a_class_that_is_none_makes_a_loss_in_parts_nan, 7),
	EACH(an_expert_takes_rows_in_order_up_to_its_places, 3),
	ONCE(of_two_choices_the_first_ones_are_placed_first),
	EACH(rows_come_back_from_where_they_went, 2),
	ONCE(a_balance_is_least_where_experts_are_chosen_evenly),
	EACH(choices_that_are_none_go_nowhere, 8),
	EACH(a_part_of_a_table_takes_the_ids_of_the_whole, 4),
};
SUITE("experts")
