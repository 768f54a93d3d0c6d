/* What people and programs read of a timeline: the table, and the keys of the JSON object. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "orrery/graph.h"
#include "pipeline/partition.h"
#include "pipelines.h"
#include "report/report.h"
#include "suite.h"

static const char *write_report(struct page *page, const struct way *way)
{
	struct orr_error err = {""};

	page_open(page);
	ck_assert_msg(
		!orr_report_write(page->file, way->tried.timeline, way->tried.figures, NULL, &err),
		"%s", err.msg);
	return page_text(page);
}

START_TEST(a_report_is_as_it_was_looked_at)
{
	static const struct {
		const char *file, *schedule;
		int stages, workers, m;
		bool units;
	} rows[] = {{"report_1f1b.txt", "1f1b", 4, 4, 8, true},
		    {"report_fsdp.txt", "fsdp", 4, 4, 8, false},
		    {"report_ddp.txt", "ddp", 2, 2, 2, false}};
	struct orr_pipeline *p = make_pipeline(
		rows[_i].stages, rows[_i].stages == 4 ? "0>1 1>2 2>3" : "0>1", 1, 2, 0,
		rows[_i].units ? 0 : 32000000, rows[_i].units ? 0 : 1000000000, 128000000);
	struct way way;
	struct page page;

	p->units = rows[_i].units;
	way_init(&way, p, rows[_i].schedule, rows[_i].workers, rows[_i].m);
	golden_check(rows[_i].file, write_report(&page, &way));
	page_close(&page);
	way_end(&way);
}
END_TEST

START_TEST(columns_of_zeros_are_left_out)
{
	struct orr_pipeline *p = make_whole_chain(1, 1, 2, 0, 0, 0, 0);
	struct way way;
	struct page page;
	const char *text;

	way_init(&way, p, "1f1b", 1, 3);
	text = write_report(&page, &way);
	ck_assert_ptr_null(strstr(text, "received"));
	ck_assert_ptr_null(strstr(text, "parameters"));
	ck_assert_ptr_null(strstr(text, "\nall"));
	ck_assert_ptr_nonnull(strstr(text, "1f1b: 1 stage on 1 worker, 3 microbatches\n"));
	ck_assert_ptr_nonnull(strstr(text, "makespan     9 units\n"));
	ck_assert_ptr_nonnull(strstr(text, "\nw0 "));
	page_close(&page);
	way_end(&way);
}
END_TEST

static void check_keys(json_t *object, const char *const *keys)
{
	size_t n = 0;

	for (; keys[n]; n++)
		ck_assert_msg(json_object_get(object, keys[n]) != NULL, "no key %s", keys[n]);
	ck_assert_uint_eq(json_object_size(object), n);
}

START_TEST(json_has_exactly_the_keys_of_the_design)
{
	static const char *const keys[] = {"schedule",    "model",
					   "unit",        "stages",
					   "workers",     "microbatches",
					   "makespan",    "bubble",
					   "span_bubble", "span",
					   "lower_bound", "lower_bound_over",
					   "throughput",  "throughput_bound",
					   "worker",      "optimizer",
					   "precision",   "bytes_per_parameter",
					   NULL};
	static const char *const stage_keys[] = {
		"operators", "worker",   "workers", "owners", "frozen",          "recompute",
		"forward",   "backward", "weight",  "update", "parameter_bytes", NULL};
	static const char *const worker_keys[] = {"busy",
						  "idle",
						  "first_start",
						  "last_end",
						  "peak_stash",
						  "peak_stash_bytes",
						  "parameter_bytes",
						  "optimizer_bytes",
						  "rounded_bytes",
						  "copy_bytes",
						  "version_bytes",
						  "memory_bytes",
						  "recv_activations",
						  "recv_gradients",
						  "recv_stashes",
						  "recv_parameters",
						  "recv_activation_bytes",
						  "recv_gradient_bytes",
						  "recv_stash_bytes",
						  "recv_parameter_bytes",
						  "sent_weight_gradients",
						  "sent_weight_gradient_bytes",
						  "all_reduce_bytes",
						  NULL};
	struct orr_pipeline *p = make_whole_chain(4, 1, 2, 0, 32, 5, 128);
	struct orr_error err = {""};
	json_t *report, *workers, *worker;
	struct way way;
	size_t w;

	way_init(&way, p, "1f1b", 4, 8);
	report = orr_report_json(way.tried.timeline, way.tried.figures, &err);
	ck_assert_msg(report != NULL, "%s", err.msg);
	check_keys(report, keys);
	ck_assert(json_is_null(json_object_get(report, "model"))); /* it came from no graph */
	json_array_foreach(json_object_get(report, "stages"), w, worker)
	{
		check_keys(worker, stage_keys);
		ck_assert_int_eq(json_integer_value(json_object_get(worker, "worker")), (int)w);
		ck_assert_double_eq(json_real_value(json_object_get(worker, "backward")), 2);
		ck_assert(json_is_null(json_object_get(worker, "weight")));
	}
	ck_assert_uint_eq(w, 4);
	ck_assert_str_eq(json_string_value(json_object_get(report, "schedule")), "1f1b");
	ck_assert_double_eq(json_real_value(json_object_get(report, "makespan")), 33);
	ck_assert_double_eq_tol(json_real_value(json_object_get(report, "bubble")), 3.0 / 11,
				1e-12);
	workers = json_object_get(report, "worker");
	ck_assert_uint_eq(json_array_size(workers), 4);
	json_array_foreach(workers, w, worker)
	{
		check_keys(worker, worker_keys);
		ck_assert_double_eq(json_real_value(json_object_get(worker, "busy")), 24);
		ck_assert_double_eq(json_real_value(json_object_get(worker, "first_start")),
				    (double)w);
		ck_assert_int_eq(json_integer_value(json_object_get(worker, "peak_stash")),
				 4 - (int)w);
		ck_assert_int_eq(json_integer_value(json_object_get(worker, "peak_stash_bytes")),
				 32 * (4 - (int)w));
		ck_assert_int_eq(json_integer_value(json_object_get(worker, "recv_activations")),
				 w ? 8 : 0);
		ck_assert_int_eq(json_integer_value(json_object_get(worker, "recv_gradient_bytes")),
				 w < 3 ? 1024 : 0);
	}
	json_decref(report);
	way_end(&way);
}
END_TEST

/* A stage per line: operators, workers, owners, forward, backward and weight, parameters. */
static const struct {
	const char *schedule;
	int n_workers;
	const char *stages[4];
} listed[] = {
	{"1f1b", 4, {"a 0 0 1 1.5 5", "b,c 1 1 4 6 10", "d 2 2 1 1.5 5", "e 3 3 1 1.5 5"}},
	{"zb-h1", 4, {"a 0 0 1 1 0.5 5", "b,c 1 1 4 4 2 10", "d 2 2 1 1 0.5 5", "e 3 3 1 1 0.5 5"}},
	{"1f1b-r", 4, {"a 0 0 1 2.5r 5", "b,c 1 1 4 10r 10", "d 2 2 1 2.5r 5", "e 3 3 1 2.5r 5"}},
	{"fsdp", 2, {"a 0,1 0 1 1.5 5", "b,c 0,1 1 4 6 10", "d 0,1 0 1 1.5 5", "e 0,1 1 1 1.5 5"}},
	{"ddp",
	 2,
	 {"a 0,1 0,1 1 1.5 5", "b,c 0,1 0,1 4 6 10", "d 0,1 0,1 1 1.5 5", "e 0,1 0,1 1 1.5 5"}},
	{"chimera",
	 4,
	 {"a 0,3 0,3 1 1.5 5", "b,c 1,2 1,2 4 6 10", "d 2,1 2,1 1 1.5 5", "e 3,0 3,0 1 1.5 5"}},
};

static struct orr_graph *read_listed(void)
{
	struct orr_graph *g = NULL;
	struct orr_error err = {""};

	ck_assert_msg(
		!orr_graph_parse(
			&g, "listed.dot",
			"digraph g { node [forward=1 backward=1 weight=0.5 parameters=\"5B\"];"
			" a [stage=0]; b [stage=1]; c [forward=3 backward=3 weight=1.5 stage=1];"
			" d [stage=2]; e [stage=3]; a->b->c->e; a->d->e }",
			&err),
		"%s", err.msg);
	return g;
}

static void print_array(char *text, const json_t *array, const char *after)
{
	size_t i;
	json_t *item;

	json_array_foreach(array, i, item) if (json_is_string(item))(void)
		sprintf(text + strlen(text), "%s%s", i ? "," : "", json_string_value(item));
	else(void) sprintf(text + strlen(text), "%s%lld", i ? "," : "",
			   (long long)json_integer_value(item));
	strcat(text, after);
}

static void print_listed(char *text, const json_t *stage)
{
	const json_t *weight = json_object_get(stage, "weight"),
		     *worker = json_object_get(stage, "worker");
	const json_t *workers = json_object_get(stage, "workers");

	*text = '\0';
	print_array(text, json_object_get(stage, "operators"), " ");
	print_array(text, workers, " ");
	print_array(text, json_object_get(stage, "owners"), " ");
	(void)sprintf(text + strlen(text), "%g %g%s ",
		      json_real_value(json_object_get(stage, "forward")),
		      json_real_value(json_object_get(stage, "backward")),
		      json_is_true(json_object_get(stage, "recompute")) ? "r" : "");
	if (!json_is_null(weight))
		(void)sprintf(text + strlen(text), "%g ", json_real_value(weight));
	(void)sprintf(text + strlen(text), "%lld",
		      (long long)json_integer_value(json_object_get(stage, "parameter_bytes")));
	if (json_array_size(workers) == 1)
		ck_assert(json_equal(worker, json_array_get(workers, 0)));
	else
		ck_assert(json_is_null(worker));
}

START_TEST(stages_are_listed_with_what_is_in_them)
{
	struct orr_machine machine = orr_machine_default(listed[_i].n_workers);
	struct orr_graph *g = read_listed();
	struct orr_pipeline *p = NULL;
	struct orr_error err = {""};
	struct page page;
	json_t *report;
	struct way way;
	char text[256];

	ck_assert_msg(!orr_partition(&p, g, &machine, 0, 1, &err), "%s", err.msg);
	way_init(&way, p, listed[_i].schedule, listed[_i].n_workers, 4);
	report = orr_report_json(way.tried.timeline, way.tried.figures, &err);
	ck_assert_msg(report != NULL, "%s", err.msg);
	ck_assert_str_eq(json_string_value(json_object_get(report, "model")), "listed.dot");
	ck_assert_str_eq(json_string_value(json_object_get(report, "unit")), "units");
	ck_assert_uint_eq(json_array_size(json_object_get(report, "stages")), 4);
	for (size_t s = 0; s < 4; s++) {
		print_listed(text, json_array_get(json_object_get(report, "stages"), s));
		ck_assert_str_eq(text, listed[_i].stages[s]);
	}
	json_decref(report);
	page_open(&page);
	ck_assert_msg(
		!orr_report_write(page.file, way.tried.timeline, way.tried.figures, NULL, &err),
		"%s", err.msg);
	ck_assert_msg(strstr(page_text(&page), "10 B  b, c\n") != NULL, "%s", page_text(&page));
	page_close(&page);
	way_end(&way);
	orr_graph_destroy(g);
}
END_TEST

START_TEST(json_of_a_figure_that_does_not_exist_is_null)
{
	struct orr_pipeline *p = make_chain(1, 1, 1);
	struct orr_error err = {""};
	json_t *report;
	struct way way;

	way_init(&way, p, "1f1b", 1, 1);
	way.tried.figures->throughput = NAN;
	report = orr_report_json(way.tried.timeline, way.tried.figures, &err);
	ck_assert_msg(report != NULL, "%s", err.msg);
	ck_assert(json_is_null(json_object_get(report, "throughput")));
	json_decref(report);
	way_end(&way);
}
END_TEST

START_TEST(a_full_disk_is_said)
{
	struct orr_pipeline *p = make_chain(4, 1, 2);
	FILE *full = full_disk();
	struct orr_error err = {""};
	struct way way;

	way_init(&way, p, "1f1b", 4, 8);
	ck_assert_int_eq(orr_report_write(full, way.tried.timeline, way.tried.figures, NULL, &err),
			 ORR_E_IO);
	ck_assert_msg(strstr(err.msg, "report: could not be written") == err.msg, "%s", err.msg);
	fclose(full);
	way_end(&way);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(a_report_is_as_it_was_looked_at, 3),
	ONCE(columns_of_zeros_are_left_out),
	ONCE(json_has_exactly_the_keys_of_the_design),
	EACH(stages_are_listed_with_what_is_in_them, N_OF(listed)),
	ONCE(json_of_a_figure_that_does_not_exist_is_null),
	ONCE(a_full_disk_is_said),
};
SUITE("report")
