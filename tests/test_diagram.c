/* Drawings: golden files for one schedule, and for all of them what must hold at any size. */
#include <check.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "report/diagram.h"
#include "golden.h"
#include "orrery/graph.h"
#include "pipeline/partition.h"
#include "own_schedules.h"
#include "pipelines.h"
#include "suite.h"

static const struct {
	const char *name, *schedule;
	int stages, workers, m;
	int64_t forward, backward;
} cases[] = {
	{"one job", "1f1b", 1, 1, 1, 1, 1},         {"4x8", "1f1b", 4, 4, 8, 1, 2},
	{"8x32", "gpipe", 8, 8, 32, 3, 7},          {"16x64", "1f1b", 16, 16, 64, 1, 2},
	{"several stages", "1f1b", 8, 3, 12, 1, 2}, {"idle workers", "1f1b", 2, 4, 3, 1, 2},
	{"no time", "1f1b", 2, 2, 3, 0, 0},         {"free forward", "1f1b", 3, 3, 5, 0, 2},
	{"replicas", "ddp", 4, 4, 8, 1, 2},         {"64x256", "1f1b", 64, 64, 256, 1, 2},
};

/* A chain without sizes, so that stashes are counted. */
static struct orr_pipeline *make_case(int stages, int64_t forward, int64_t backward)
{
	struct orr_pipeline *p = make_chain(stages, forward, backward);

	for (int s = 0; s < stages; s++)
		p->stages[s].stash_bytes = 0;
	return p;
}

/* A schedule that splits the backward: B before F before W. */
static int64_t backward_first(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			      const void *data)
{
	static const int64_t urgency[ORR_N_PASSES] = {1, 0, 2};

	(void)data;
	return (urgency[d] * p->n_microbatches + b) * p->n_stages + s;
}
static const struct orr_schedule split = {.name = "<split & \"odd\">",
					  .order = ORR_ORDER_GREEDY,
					  .split_backward = true,
					  .compute = orr_compute_in_turn,
					  .priority = backward_first};

static void draw_split(struct way *way)
{
	struct orr_pipeline *p = make_whole_chain(4, 1, 1, 1, 0, 0, 0);

	p->has_weight = true;
	way_init_own(way, p, &split, 2, 6);
}

static const char *write_text(struct page *page, const struct orr_timeline *t, int columns,
			      bool colour)
{
	struct orr_error err = {""};

	page_open(page);
	ck_assert_msg(!orr_diagram_text(page->file, t, columns, colour, &err), "%s", err.msg);
	return page_text(page);
}

static const char *write_svg(struct page *page, const struct orr_timeline *t)
{
	struct orr_error err = {""};

	page_open(page);
	ck_assert_msg(!orr_diagram_svg(page->file, t, NULL, &err), "%s", err.msg);
	return page_text(page);
}

/* ---- golden files ---- */

START_TEST(drawings_are_as_they_were_looked_at)
{
	struct orr_pipeline *p = make_case(4, 1, 2);
	struct way way;
	struct page page;

	way_init(&way, p, "1f1b", 4, 8);
	golden_check("1f1b.txt", write_text(&page, way.tried.timeline, 100, false));
	page_close(&page);
	golden_check("1f1b.ansi", write_text(&page, way.tried.timeline, 100, true));
	page_close(&page);
	golden_check("1f1b.svg", write_svg(&page, way.tried.timeline));
	page_close(&page);
	way_end(&way);
}
END_TEST

START_TEST(a_split_backward_is_as_it_was_looked_at)
{
	struct way way;
	struct page page;

	draw_split(&way);
	golden_check("split.txt", write_text(&page, way.tried.timeline, 120, false));
	page_close(&page);
	golden_check("split.svg", write_svg(&page, way.tried.timeline));
	page_close(&page);
	way_end(&way);
}
END_TEST

/* ---- text ---- */

/* The longest line in columns, escapes not counted, and the number of lines that start with w. */
static int longest(const char *text, int *n_rows)
{
	int most = 0, at = 0;
	bool start = true;

	*n_rows = 0;
	for (; *text; text++) {
		if (*text == '\033') {
			text = strchr(text, 'm');
			ck_assert(text != NULL);
			continue;
		}
		*n_rows += start && *text == 'w';
		start = *text == '\n';
		at = start ? 0 : at + 1;
		most = at > most ? at : most;
	}
	return most;
}

START_TEST(no_line_is_wider_than_asked_and_every_worker_has_one)
{
	static const int widths[] = {40, 41, 57, 80, 100, 133, 300};
	struct orr_pipeline *p = make_case(cases[_i].stages, cases[_i].forward, cases[_i].backward);
	struct way way;

	way_init(&way, p, cases[_i].schedule, cases[_i].workers, cases[_i].m);
	for (int i = 0; i < N_OF(widths); i++)
		for (int colour = 0; colour < 2; colour++) {
			struct page page;
			const char *text = write_text(&page, way.tried.timeline, widths[i], colour);
			int n_rows, n = longest(text, &n_rows);

			ck_assert_msg(n <= widths[i], "%s: %d columns where %d were asked for",
				      cases[_i].name, n, widths[i]);
			ck_assert_msg(n_rows == cases[_i].workers, "%s: %d rows", cases[_i].name,
				      n_rows);
			ck_assert_msg(colour || !strchr(text, '\033'), "%s: colour",
				      cases[_i].name);
			page_close(&page);
		}
	way_end(&way);
}
END_TEST

/* With two columns a unit, every character of the drawing is known. */
START_TEST(a_cell_stands_where_its_job_runs)
{
	struct orr_pipeline *p = make_case(4, 1, 2);
	struct way way;
	struct page page;
	const char *text;
	int n_busy = 0;

	way_init(&way, p, "1f1b", 4, 8);
	text = write_text(&page, way.tried.timeline, 100, false);
	for (int w = 0; w < 4; w++) {
		const char *row = text + 4;

		for (int j = 0; j < way.tried.jobs->n_jobs; j++) {
			struct orr_job job = orr_jobs_at(way.tried.jobs, j);
			int from = (int)(way.tried.timeline->start_ns[j] / ORR_UNIT_NS) * 2;

			if (way.tried.jobs->compute[j] != w)
				continue;
			ck_assert_int_eq(row[from], '0' + job.b);
			ck_assert_int_eq(row[from + 1], job.d == ORR_PASS_F ? '-' : '=');
			n_busy += job.d == ORR_PASS_F ? 2 : 4;
		}
		for (int x = 0; x < 66; x++)
			n_busy -= row[x] != '.';
		text = strchr(text, '\n') + 1;
	}
	ck_assert_int_eq(n_busy, 0);
	page_close(&page);
	way_end(&way);
}
END_TEST

START_TEST(too_few_columns_are_refused)
{
	static const int widths[] = {39, 0, -5, 10001};
	struct orr_pipeline *p = make_case(1, 1, 1);
	struct orr_error err = {""};
	struct way way;
	struct page page;
	char wanted[100];

	way_init(&way, p, "1f1b", 1, 1);
	page_open(&page);
	for (int i = 0; i < N_OF(widths); i++) {
		ck_assert_int_eq(
			orr_diagram_text(page.file, way.tried.timeline, widths[i], false, &err),
			ORR_E_INPUT);
		snprintf(wanted, sizeof(wanted), "diagram: %d columns; it takes 40 to 10000",
			 widths[i]);
		ck_assert_str_eq(err.msg, wanted);
	}
	ck_assert_str_eq(page_text(&page), "");
	page_close(&page);
	way_end(&way);
}
END_TEST

/* ---- SVG ---- */

/* Tags nest and end, attributes are quoted, no bare & or <. Names of open tags wait on a stack. */
static void check_well_formed(const char *name, const char *at)
{
	char open[16][16];
	int depth = 0, n_tags = 0;

	ck_assert_msg(!strncmp(at, "<?xml ", 6), "%s", name);
	for (at = strstr(at, "?>") + 2; *at; at++) {
		const char *end = at;
		int n, quotes = 0;

		ck_assert_msg(*at != '&' || !strncmp(at, "&amp;", 5) || !strncmp(at, "&lt;", 4) ||
				      !strncmp(at, "&gt;", 4),
			      "%s: %.40s", name, at);
		if (*at != '<')
			continue;
		for (; *end && (*end != '>' || quotes % 2); end++) {
			quotes += *end == '"';
			ck_assert_msg(end == at || *end != '<', "%s: %.40s", name, at);
		}
		ck_assert_msg(*end && quotes % 2 == 0, "%s: %.40s", name, at);
		n = (int)strcspn(at + 1 + (at[1] == '/'), " >/");
		ck_assert_int_lt(n, 16);
		if (at[1] == '/') {
			ck_assert_msg(depth-- > 0 && !strncmp(open[depth], at + 2, (size_t)n) &&
					      !open[depth][n],
				      "%s: %.40s", name, at);
		} else if (end[-1] != '/') {
			ck_assert_int_lt(depth, 16);
			memcpy(open[depth], at + 1, (size_t)n);
			open[depth++][n] = '\0';
		}
		n_tags++;
		at = end;
	}
	ck_assert_msg(depth == 0 && n_tags > 10, "%s: %d tags, %d not closed", name, n_tags, depth);
}

START_TEST(svg_is_well_formed_and_not_too_large)
{
	struct orr_pipeline *p = make_case(cases[_i].stages, cases[_i].forward, cases[_i].backward);
	struct way way;
	struct page page;
	const char *text;

	way_init(&way, p, cases[_i].schedule, cases[_i].workers, cases[_i].m);
	text = write_svg(&page, way.tried.timeline);
	check_well_formed(cases[_i].name, text);
	ck_assert_msg(!strstr(text, "nan") && !strstr(text, "inf"), "%s", cases[_i].name);
	ck_assert_msg(page.size < 1500000, "%s: %zu bytes", cases[_i].name, page.size);
	page_close(&page);
	way_end(&way);
}
END_TEST

START_TEST(names_are_escaped_in_svg)
{
	struct way way;
	struct page page;
	const char *text;

	draw_split(&way);
	text = write_svg(&page, way.tried.timeline);
	check_well_formed("split", text);
	ck_assert_ptr_nonnull(strstr(text, "&lt;split &amp; \"odd\"&gt;: 4 stages on 2 workers"));
	page_close(&page);
	way_end(&way);
}
END_TEST

/* A path moves once per cell; no cell starts before another of its row ends. */
START_TEST(svg_has_a_cell_a_job)
{
	struct orr_pipeline *p = make_case(4, 1, 2);
	struct way way;
	struct page page;
	int n_cells = 0;

	way_init(&way, p, "1f1b", 4, 8);
	for (const char *at = write_svg(&page, way.tried.timeline);
	     (at = strstr(at, "<path fill=\"#")); at++) {
		const char *end = strchr(at, '>');

		if (strstr(at, " stroke=") && strstr(at, " stroke=") < end)
			for (const char *m = at; m < end; m++)
				n_cells += *m == 'M';
	}
	ck_assert_int_eq(n_cells, way.tried.jobs->n_jobs);
	page_close(&page);
	way_end(&way);
}
END_TEST

/* What a mouse is told over a job; updates too. */
START_TEST(svg_has_a_title_a_job)
{
	struct orr_machine machine = orr_machine_default(2);
	struct orr_graph *g = NULL;
	struct orr_pipeline *p = NULL;
	struct orr_error err = {""};
	struct way way;
	struct page page;
	const char *text;
	int n = 0;

	ck_assert_msg(!orr_graph_parse(
			      &g, "g.dot",
			      "digraph g { node [forward=\"1ms\" backward=\"2ms\" update=\"1us\"];"
			      " \"a<&b\" [stage=0]; c [stage=1]; d [stage=1]; \"a<&b\"->c->d }",
			      &err),
		      "%s", err.msg);
	ck_assert_msg(!orr_partition(&p, g, &machine, 0, 1, &err), "%s", err.msg);
	way_init(&way, p, "1f1b", 2, 2);
	text = write_svg(&page, way.tried.timeline);
	check_well_formed("titles", text);
	for (const char *at = text; (at = strstr(at, "<title>")); at++)
		n++;
	ck_assert_int_eq(n, way.tried.jobs->n_jobs + 2);
	ck_assert_ptr_nonnull(strstr(text, "<title>0F1, stage 0 (a&lt;&amp;b): 1 to 2 ms</title>"));
	ck_assert_ptr_nonnull(strstr(text, "<title>1B0, stage 1 (c, d): 3 to 7 ms</title>"));
	ck_assert_ptr_nonnull(strstr(text, "<title>1U, stage 1 (c, d): 13 to 13.002 ms</title>"));
	page_close(&page);
	way_end(&way);
	orr_graph_destroy(g);
}
END_TEST

/* ---- both ---- */

START_TEST(a_timeline_that_never_ran_is_drawn_idle)
{
	struct orr_pipeline *p = make_case(2, 1, 2);
	struct orr_timeline *t = NULL;
	struct orr_error err = {""};
	struct way way;
	struct page page;

	way_init(&way, p, "1f1b", 2, 3);
	ck_assert_msg(!orr_timeline_create(&t, way.tried.jobs, &err), "%s", err.msg);
	ck_assert_ptr_nonnull(strstr(write_text(&page, t, 80, false), "\nw1  ....."));
	page_close(&page);
	orr_timeline_destroy(t);
	way_end(&way);
}
END_TEST

START_TEST(updates_are_drawn_after_the_jobs)
{
	struct orr_pipeline *p = make_case(2, 1, 2);
	struct way way;
	struct page page;

	for (int s = 0; s < 2; s++)
		p->stages[s].update_ns = 2 * ORR_UNIT_NS;
	way_init(&way, p, "1f1b", 2, 2);
	ck_assert_int_eq(way.tried.timeline->n_updates, 2);
	golden_check("updates.txt", write_text(&page, way.tried.timeline, 80, false));
	page_close(&page);
	ck_assert_ptr_nonnull(strstr(write_svg(&page, way.tried.timeline), ">0U</text>"));
	page_close(&page);
	way_end(&way);
}
END_TEST

START_TEST(a_full_disk_is_said)
{
	struct orr_pipeline *p = make_case(4, 1, 2);
	FILE *full = full_disk();
	struct orr_error err = {""};
	struct way way;

	way_init(&way, p, "1f1b", 4, 8);
	ck_assert_int_eq(orr_diagram_text(full, way.tried.timeline, 100, false, &err), ORR_E_IO);
	ck_assert_msg(strstr(err.msg, "diagram: could not be written: ") == err.msg, "%s", err.msg);
	ck_assert_int_eq(orr_diagram_svg(full, way.tried.timeline, NULL, &err), ORR_E_IO);
	fclose(full);
	way_end(&way);
}
END_TEST

static const struct suite_test tests[] = {
	ONCE(drawings_are_as_they_were_looked_at),
	ONCE(a_split_backward_is_as_it_was_looked_at),
	EACH(no_line_is_wider_than_asked_and_every_worker_has_one, N_OF(cases)),
	ONCE(a_cell_stands_where_its_job_runs),
	ONCE(too_few_columns_are_refused),
	EACH(svg_is_well_formed_and_not_too_large, N_OF(cases)),
	ONCE(names_are_escaped_in_svg),
	ONCE(svg_has_a_cell_a_job),
	ONCE(svg_has_a_title_a_job),
	ONCE(a_timeline_that_never_ran_is_drawn_idle),
	ONCE(updates_are_drawn_after_the_jobs),
	ONCE(a_full_disk_is_said),
};
SUITE("diagram")
