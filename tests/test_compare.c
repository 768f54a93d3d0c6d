/* Every schedule side by side: the rows, their order, the front, and the labels of the scatter. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/compare.h"
#include "pipelines.h"
#include "suite.h"

static struct orr_comparison *compare(struct orr_pipeline *p, int n_workers, int n_microbatches,
				      int64_t memory_bytes)
{
	struct orr_comparison *c = NULL;
	struct orr_error err = {""};

	p->machine.memory_bytes = memory_bytes;
	ck_assert_msg(!orr_pipeline_set_step(p, n_workers, n_microbatches, &err), "%s", err.msg);
	ck_assert_msg(!orr_compare(&c, &(struct orr_entry){.pipeline = p}, 1, false, &err), "%s",
		      err.msg);
	return c;
}

static const struct {
	int n_stages;
	const char *edges;
	int n_workers, n_microbatches;
	int64_t stash_bytes, parameter_bytes, memory_bytes;
} cases[] = {
	{8, "0>1 1>2 2>3 3>4 4>5 5>6 6>7", 8, 16, 0, 0, 0},
	{8, "0>1 1>2 2>3 3>4 4>5 5>6 6>7", 4, 16, 3, 10, 0},
	{8, "0>1 1>2 2>3 3>4 4>5 5>6 6>7", 4, 16, 3, 0, 30},
	{8, "0>1 1>2 2>6 3>4 4>5 5>6 6>7", 8, 12, 1, 1, 0},
	{4, "0>1 1>2 2>3 0>3", 2, 6, 1, 0, 0},
	{1, "", 1, 1, 0, 0, 0},
	{2, "0>1", 2, 1, 5, 5, 5}, /* nothing fits */
};

static struct orr_pipeline *make_case(int i)
{
	return make_pipeline(cases[i].n_stages, cases[i].edges, 1, 1, 1, cases[i].stash_bytes,
			     cases[i].parameter_bytes, 1);
}

START_TEST(every_schedule_has_a_row_or_a_reason)
{
	struct orr_pipeline *p = make_case(_i);
	struct orr_comparison *c =
		compare(p, cases[_i].n_workers, cases[_i].n_microbatches, cases[_i].memory_bytes);

	ck_assert_int_eq(c->n, count_schedules());
	for (int i = 0; i < c->n; i++) {
		const struct orr_contender *x = &c->contenders[i];
		struct way way;

		ck_assert_msg(!x->reason == (i < c->n_fitting), "%s", x->schedule);
		if (x->reason) {
			ck_assert_int_gt((int)strlen(x->reason), 0);
			ck_assert_msg(strncmp(x->reason, x->schedule, strlen(x->schedule)) ||
					      x->reason[strlen(x->schedule)] != ':',
				      "%s", x->reason);
			continue;
		}
		way_init(&way, p, x->schedule, cases[_i].n_workers, cases[_i].n_microbatches);
		ck_assert_int_eq(way.tried.figures->makespan_ns, x->makespan_ns);
		ck_assert_int_eq(way.tried.figures->lower_bound_ns, x->lower_bound_ns);
		ck_assert(way.tried.figures->bubble == x->bubble &&
			  way.tried.figures->span_bubble == x->span_bubble);
		for (int w = 0; w < cases[_i].n_workers; w++) {
			ck_assert_int_le(way.tried.figures->worker[w].peak_stash, x->peak_stash);
			ck_assert_int_le(way.tried.figures->worker[w].memory_bytes,
					 x->memory_bytes);
		}
		ck_assert(!cases[_i].memory_bytes || x->memory_bytes <= cases[_i].memory_bytes);
		way_fini(&way);
	}
	orr_comparison_destroy(c);
	orr_pipeline_destroy(p);
}
END_TEST

START_TEST(rows_are_sorted_and_the_front_is_what_nothing_beats)
{
	struct orr_pipeline *p = make_case(_i);
	struct orr_comparison *c =
		compare(p, cases[_i].n_workers, cases[_i].n_microbatches, cases[_i].memory_bytes);

	for (int i = 0; i < c->n_fitting; i++) {
		const struct orr_contender *x = &c->contenders[i];
		double memory = orr_contender_memory(c, x);
		bool beaten = false;

		for (int k = 0; k < c->n_fitting; k++) {
			const struct orr_contender *y = &c->contenders[k];
			double other = orr_contender_memory(c, y);

			beaten = beaten || (y->makespan_ns <= x->makespan_ns && other <= memory &&
					    (y->makespan_ns < x->makespan_ns || other < memory));
			ck_assert(k >= i || y->makespan_ns < x->makespan_ns ||
				  (y->makespan_ns == x->makespan_ns && other <= memory));
		}
		ck_assert_msg(x->on_front == !beaten, "%s", x->schedule);
	}
	orr_comparison_destroy(c);
	orr_pipeline_destroy(p);
}
END_TEST

START_TEST(received_counts_activations_and_gradients_once)
{
	struct orr_pipeline *p = make_whole_chain(4, 1, 1, 0, 0, 0, 1000);
	struct orr_comparison *c = compare(p, 4, 8, 0);

	for (int i = 0; i < c->n_fitting; i++)
		if (!strcmp(c->contenders[i].schedule, "1f1b"))
			ck_assert_int_eq(c->contenders[i].received_bytes, 2 * 3 * 8 * 1000);
	orr_comparison_destroy(c);
	orr_pipeline_destroy(p);
}
END_TEST

START_TEST(memory_that_is_too_small_is_a_reason)
{
	struct orr_pipeline *p = make_whole_chain(2, 1, 1, 0, 5, 5, 0);
	struct orr_comparison *c = compare(p, 2, 4, 25);
	bool seen = false;

	for (int i = c->n_fitting; i < c->n; i++) {
		if (strcmp(c->contenders[i].schedule, "gpipe"))
			continue;
		seen = true;
		ck_assert_msg(!strncmp(c->contenders[i].reason, "worker 0 needs 40 B", 19), "%s",
			      c->contenders[i].reason);
	}
	ck_assert(seen);
	orr_comparison_destroy(c);
	orr_pipeline_destroy(p);
}
END_TEST

START_TEST(one_of_your_own_is_compared_as_well)
{
	struct orr_pipeline *p = make_chain(4, 1, 1);
	struct orr_comparison *c = NULL;
	struct orr_choice choice;
	struct orr_schedule mine;
	struct orr_error err = {""};
	int seen = 0;

	ck_assert_int_eq(orr_pipeline_set_step(p, 4, 8, &err), 0);
	ck_assert_int_eq(orr_choice_init(&choice, "gpipe", &err), 0);
	mine = choice.schedule; /* called as a built-in one, as a copy of it is that was changed */
	ck_assert_int_eq(orr_compare(&c,
				     (struct orr_entry[]){{.pipeline = p, .schedule = &mine},
							  {.pipeline = p}},
				     2, false, &err),
			 0);
	ck_assert_int_eq(c->n, count_schedules() + 1);
	for (int i = 0; i < c->n_fitting; i++)
		seen += !strcmp(c->contenders[i].schedule, "gpipe");
	ck_assert_int_eq(seen, 2);
	orr_choice_fini(&choice);
	orr_comparison_destroy(c);
	orr_pipeline_destroy(p);
}
END_TEST

/* One chain, cut into 4 and into 8, on 4 workers. */
static struct orr_comparison *compare_cuts(struct orr_pipeline *cuts[2], bool every_cut)
{
	static const struct orr_schedule none = {.name = "none"};
	struct orr_comparison *c = NULL;
	struct orr_error err = {""};

	cuts[0] = make_whole_chain(4, 2, 2, 0, 0, 0, 0);
	cuts[1] = make_whole_chain(8, 1, 1, 0, 0, 0, 0);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(orr_pipeline_set_step(cuts[i], 4, 8, &err), 0);
	ck_assert_int_eq(orr_compare(&c,
				     (struct orr_entry[]){{.pipeline = cuts[0]},
							  {.pipeline = cuts[1]},
							  {.pipeline = cuts[0],
							   .schedule = &none,
							   .refused = "there is none"}},
				     3, every_cut, &err),
			 0);
	ck_assert(c->several_cuts);
	return c;
}

static const struct orr_contender *find_contender(const struct orr_comparison *c, const char *name,
						  int n_stages)
{
	const struct orr_contender *found = NULL;

	for (int i = 0; i < c->n; i++)
		if (!strcmp(c->contenders[i].schedule, name) &&
		    (!n_stages || c->contenders[i].n_stages == n_stages)) {
			ck_assert_ptr_null(found);
			found = &c->contenders[i];
		}
	return found;
}

START_TEST(every_schedule_is_shown_on_the_cut_that_suits_it)
{
	struct orr_pipeline *cuts[2];
	struct orr_comparison *c = compare_cuts(cuts, false);

	ck_assert_int_eq(c->n, count_schedules() + 1);
	ck_assert_int_eq(find_contender(c, "1f1b-star", 0)->n_stages, 4); /* one a worker alone */
	ck_assert_int_eq(find_contender(c, "v-zb", 0)->n_stages, 8);      /* two a worker alone */
	/* both do: (m + P - 1) (F + B) = 44 with one a worker, and two a worker are faster */
	ck_assert_int_eq(find_contender(c, "interleaved", 0)->n_stages, 8);
	ck_assert_str_eq(find_contender(c, "none", 0)->reason, "there is none");
	ck_assert_ptr_null(find_contender(c, "gpipe", 0)->reason);
	orr_comparison_destroy(c);
	for (int i = 0; i < 2; i++)
		orr_pipeline_destroy(cuts[i]);
}
END_TEST

START_TEST(every_cut_has_a_row_where_it_is_asked_for)
{
	struct orr_pipeline *cuts[2];
	struct orr_comparison *c = compare_cuts(cuts, true);

	ck_assert_int_eq(find_contender(c, "1f1b", 4)->makespan_ns, 44 * ORR_UNIT_NS);
	ck_assert_int_lt(find_contender(c, "1f1b", 8)->makespan_ns, 44 * ORR_UNIT_NS);
	ck_assert_ptr_nonnull(strstr(find_contender(c, "v-zb", 4)->reason, "4 stages need 2 "));
	ck_assert_ptr_null(find_contender(c, "v-zb", 8)->reason);
	ck_assert_ptr_eq(find_contender(c, "v-zb", 4)->pipeline, cuts[0]);
	ck_assert_ptr_null(find_contender(c, "none", 0)->pipeline);
	ck_assert_int_eq(c->n, 2 * count_schedules() + 1);
	ck_assert_ptr_nonnull(find_contender(c, "none", 0)->reason);
	/* all of the stages are as much of the model whatever it was cut into */
	ck_assert(orr_contender_memory(c, find_contender(c, "ddp", 4)) ==
		  orr_contender_memory(c, find_contender(c, "ddp", 8)));
	ck_assert_str_eq(orr_contender_text(c, find_contender(c, "1f1b", 4)), "1f1b, 4 stages");
	orr_comparison_destroy(c);
	for (int i = 0; i < 2; i++)
		orr_pipeline_destroy(cuts[i]);
}
END_TEST

static const struct {
	const char *schedule;
	int64_t stash, parameters, edge, memory;
	double bandwidth;
	const char *line;
} untested[] = {
	{"1f1b", 0, 0, 0, 0, 0, ""},
	{"1f1b", 0, 0, 0, 1, 1, "not tested: memory, links (no operator has a size)"},
	{"1f1b", 1, 1, 1, 100, 1, ""},
	{"1f1b", 0, 0, 1, 1, 1, "not tested: memory (no operator has a stash or parameters)"},
	{"1f1b", 0, 1, 0, 100, 1,
	 "not tested: stashes in memory (no operator has a stash); activations on links (no "
	 "operator has an activation)"},
	{"1f1b", 1, 0, 1, 100, 0, "not tested: parameters in memory (no operator has parameters)"},
	{"ddp", 0, 0, 0, 0, 0, "not tested: all-reduce (no operator has a size)"},
	{"ddp", 0, 0, 0, 0, 1, "not tested: links (no operator has a size)"},
	{"ddp", 1, 0, 1, 0, 1, "not tested: all-reduce (no operator has parameters)"},
	{"ddp", 0, 1, 0, 0, 0, "not tested: all-reduce (links are free)"},
	{"ddp", 0, 1, 0, 0, 1, ""},
	{"fsdp", 0, 1, 0, 0, 0, "not tested: all-gather (links are free)"},
};

START_TEST(what_was_not_tested_is_listed)
{
	struct orr_pipeline *p = make_whole_chain(2, 1, 1, 0, untested[_i].stash,
						  untested[_i].parameters, untested[_i].edge);
	struct orr_untested found;
	struct way way;

	way_init(&way, p, untested[_i].schedule, 2, 4);
	p->machine.memory_bytes = untested[_i].memory;
	p->machine.bandwidth_bytes_per_s = untested[_i].bandwidth;
	found = orr_untested_find(way.tried.jobs);
	ck_assert_str_eq(orr_untested_text(&found), untested[_i].line);
	way_end(&way);
}
END_TEST

/* ---- the front ---- */

static struct orr_comparison *find_front(struct orr_pipeline *p, int n_workers, int n_microbatches,
					 int64_t within_ns)
{
	struct orr_comparison *c = NULL;
	struct orr_error err = {""};

	p->machine.memory_bytes = 0;
	ck_assert_msg(!orr_pipeline_set_step(p, n_workers, n_microbatches, &err), "%s", err.msg);
	ck_assert_msg(!orr_compare(&c,
				   (struct orr_entry[]){
					   {.pipeline = p},
					   {.pipeline = p, .front = true, .within_ns = within_ns}},
				   2, false, &err),
		      "%s", err.msg);
	return c;
}

/* The shortest that auto is in 1 up to most stashes, and in fewer. */
static void find_shortest(int64_t *shortest, struct orr_pipeline *p, int n_workers, int m, int most)
{
	shortest[0] = INT64_MAX;
	for (int k = 1; k <= most; k++) {
		struct way way;
		char name[32];

		snprintf(name, sizeof(name), "auto:memory=%d", k);
		way_init(&way, p, name, n_workers, m);
		shortest[k] = way.tried.figures->makespan_ns < shortest[k - 1]
				      ? way.tried.figures->makespan_ns
				      : shortest[k - 1];
		way_fini(&way);
	}
}

/* With one stash a microbatch is down and up again, and W done, before the next one starts; with as
 * many as there are stages, every worker is busy from its first job on but for the way to it. */
START_TEST(a_front_goes_from_one_microbatch_at_a_time_to_no_bubble_but_the_way_down)
{
	int P = 2 + _i, m = 2 * P, n = 0, held = INT32_MAX;
	int64_t shortest[16];
	struct orr_pipeline *p = make_whole_chain(P, 1, 1, 1, 0, 0, 0);
	struct orr_comparison *c = find_front(p, P, m, 0);
	const struct orr_contender *last = NULL;

	find_shortest(shortest, p, P, m, P);
	for (int i = 0; i < c->n_fitting; i++) {
		const struct orr_contender *x = &c->contenders[i];
		struct way way;

		if (!x->in_front)
			continue;
		if (!n++)
			ck_assert_int_eq(x->makespan_ns, (3 * m + P - 1) * ORR_UNIT_NS);
		ck_assert_msg(x->peak_stash < held, "%s: %d stashes after %d", x->schedule,
			      x->peak_stash, held);
		held = x->peak_stash;
		ck_assert(!last || x->makespan_ns > last->makespan_ns);
		ck_assert_int_le(held, P);
		ck_assert_int_eq(x->makespan_ns, shortest[held]);
		way_init(&way, p, x->schedule, P, m);
		ck_assert_int_eq(way.tried.figures->makespan_ns, x->makespan_ns);
		ck_assert_int_eq(peak_of(way.tried.figures), x->peak_stash);
		way_fini(&way);
		last = x;
	}
	ck_assert_int_ge(n, P);
	ck_assert_int_eq(held, 1);
	ck_assert_int_eq(last->makespan_ns, m * (2 * P + 1) * ORR_UNIT_NS);
	orr_comparison_destroy(c);
	orr_pipeline_destroy(p);
}
END_TEST

START_TEST(a_front_in_bytes_is_that_in_stashes_of_as_many)
{
	struct orr_pipeline *p = make_whole_chain(4, 1, 1, 1, 0, 0, 0),
			    *sized = make_whole_chain(4, 1, 1, 1, 1000, 0, 0);
	struct orr_comparison *c = find_front(p, 4, 8, 0), *in_bytes = find_front(sized, 4, 8, 0);
	int n = 0;

	for (int i = 0, k = 0; i < c->n_fitting; i++) {
		const struct orr_contender *x = &c->contenders[i], *y;

		if (!x->in_front)
			continue;
		while (k < in_bytes->n_fitting && !in_bytes->contenders[k].in_front)
			k++;
		ck_assert_int_lt(k, in_bytes->n_fitting);
		y = &in_bytes->contenders[k++];
		ck_assert_int_eq(y->makespan_ns, x->makespan_ns);
		ck_assert_int_eq(y->memory_bytes, 1000 * x->peak_stash);
		ck_assert_int_le(y->memory_bytes, y->limit_bytes);
		n++;
	}
	ck_assert_int_ge(n, 4);
	orr_comparison_destroy(c);
	orr_comparison_destroy(in_bytes);
	orr_pipeline_destroy(p);
	orr_pipeline_destroy(sized);
}
END_TEST

START_TEST(the_least_memory_within_a_makespan_is_that_of_the_whole_front)
{
	struct orr_pipeline *p = make_whole_chain(3, 1, 1, 1, 0, 0, 0);
	struct orr_comparison *whole = find_front(p, 3, 6, 0);
	int n = 0;

	for (int64_t units = 17; units < 50; units += 6) {
		struct orr_comparison *c = find_front(p, 3, 6, units * ORR_UNIT_NS);
		const struct orr_contender *x = orr_comparison_within(c, units * ORR_UNIT_NS),
					   *y = orr_comparison_within(whole, units * ORR_UNIT_NS);

		ck_assert_msg(!x == !y, "%lld units", (long long)units);
		n += x && x->in_front;
		if (x) {
			ck_assert_int_le(x->makespan_ns, units * ORR_UNIT_NS);
			ck_assert_msg(x->peak_stash == y->peak_stash, "%lld units: %s, not %s",
				      (long long)units, x->schedule, y->schedule);
		}
		orr_comparison_destroy(c);
	}
	ck_assert_int_ge(n, 3);
	ck_assert_ptr_null(orr_comparison_within(whole, 17 * ORR_UNIT_NS));
	orr_comparison_destroy(whole);
	orr_pipeline_destroy(p);
}
END_TEST

/* ---- the scatter ---- */

static char *draw(const struct orr_comparison *c, const char *title)
{
	struct orr_error err = {""};
	size_t size = 0;
	char *text = NULL;
	FILE *file = open_memstream(&text, &size);

	ck_assert(file != NULL);
	ck_assert_msg(!orr_comparison_svg(file, c, title, &err), "%s", err.msg);
	ck_assert_int_eq(fclose(file), 0);
	return text;
}

struct text_box {
	double x, y, width;
	char text[128];
};

/* The lines of all labels. */
static int find_labels(struct text_box *boxes, int most, const char *svg)
{
	int n = 0;

	for (const char *at = svg; (at = strstr(at, "<text x=")); at++) {
		struct text_box box = {0};

		if (sscanf(at, "<text x=\"%lf\" y=\"%lf\" class=\"label\">%127[^<]", &box.x, &box.y,
			   box.text) != 3 &&
		    sscanf(at, "<text x=\"%lf\" y=\"%lf\" class=\"label front\">%127[^<]", &box.x,
			   &box.y, box.text) != 3)
			continue;
		box.width = 6.5 * (double)strlen(box.text);
		ck_assert_int_lt(n, most);
		boxes[n++] = box;
	}
	return n;
}

static void check_labels(const struct orr_comparison *c, const char *svg)
{
	struct text_box boxes[256];
	int n = find_labels(boxes, N_OF(boxes), svg), n_names = 0;

	for (int i = 0; i < n; i++) {
		for (int k = 0; k < i; k++)
			ck_assert_msg(boxes[i].x >= boxes[k].x + boxes[k].width ||
					      boxes[k].x >= boxes[i].x + boxes[i].width ||
					      boxes[i].y >= boxes[k].y + 12 ||
					      boxes[k].y >= boxes[i].y + 12,
				      "'%s' lies on '%s'", boxes[i].text, boxes[k].text);
		for (const char *at = boxes[i].text; *at; at++)
			n_names += *at == ',';
		n_names += boxes[i].text[strlen(boxes[i].text) - 1] != ',';
	}
	ck_assert_int_eq(n_names, c->n_fitting);
}

START_TEST(labels_do_not_collide)
{
	struct orr_pipeline *p = make_case(_i);
	struct orr_comparison *c =
		compare(p, cases[_i].n_workers, cases[_i].n_microbatches, cases[_i].memory_bytes);
	char *svg = draw(c, "a & b");

	check_labels(c, svg);
	ck_assert_ptr_nonnull(strstr(svg, ">a &amp; b</text>"));
	ck_assert_ptr_nonnull(
		strstr(svg, c->n_fitting ? "path class=\"front\"" : "no schedule fits"));
	ck_assert_ptr_null(strstr(svg, "nan"));
	free(svg);
	orr_comparison_destroy(c);
	orr_pipeline_destroy(p);
}
END_TEST

START_TEST(forty_labels_in_a_heap_do_not_collide_either)
{
	struct orr_contender contenders[40];
	struct orr_comparison c = {
		.units = true, .n = 40, .n_fitting = 40, .contenders = contenders};
	unsigned state = (unsigned)_i + 1;
	char *svg;

	for (int i = 0; i < 40; i++) {
		int time, stash;

		state = state * 1103515245 + 12345;
		time = (int)(state >> 16) % 30;
		state = state * 1103515245 + 12345;
		stash = (int)(state >> 16) % 8;
		contenders[i] =
			(struct orr_contender){.schedule = "a-schedule-of-mine",
					       .makespan_ns = (i ? 100 + time : 200) * ORR_UNIT_NS,
					       .peak_stash = i ? 1 + stash : 60};
	}
	svg = draw(&c, "");
	check_labels(&c, svg);
	free(svg);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(every_schedule_has_a_row_or_a_reason, N_OF(cases)),
	EACH(rows_are_sorted_and_the_front_is_what_nothing_beats, N_OF(cases)),
	ONCE(received_counts_activations_and_gradients_once),
	ONCE(memory_that_is_too_small_is_a_reason),
	ONCE(one_of_your_own_is_compared_as_well),
	ONCE(every_schedule_is_shown_on_the_cut_that_suits_it),
	ONCE(every_cut_has_a_row_where_it_is_asked_for),
	EACH(a_front_goes_from_one_microbatch_at_a_time_to_no_bubble_but_the_way_down, 3),
	ONCE(a_front_in_bytes_is_that_in_stashes_of_as_many),
	ONCE(the_least_memory_within_a_makespan_is_that_of_the_whole_front),
	EACH(what_was_not_tested_is_listed, N_OF(untested)),
	EACH(labels_do_not_collide, N_OF(cases)),
	EACH(forty_labels_in_a_heap_do_not_collide_either, 10),
};
SUITE("compare")
