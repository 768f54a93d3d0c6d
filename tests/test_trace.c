/* Chrome traces: parsed again, and held against the timeline that they tell of. */
#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/diagram.h"
#include "golden.h"
#include "pipelines.h"
#include "suite.h"

static json_t *write_trace(const struct orr_timeline *const *timelines, const char *const *names,
			   int n)
{
	struct orr_error err = {""};
	struct page page;
	json_error_t wrong;
	json_t *trace;

	page_open(&page);
	ck_assert_msg(!orr_diagram_trace(page.file, timelines, names, n, &err), "%s", err.msg);
	trace = json_loads(page_text(&page), 0, &wrong);
	ck_assert_msg(trace != NULL, "line %d: %s", wrong.line, wrong.text);
	page_close(&page);
	return trace;
}

static double number(json_t *event, const char *key)
{
	json_t *value = json_object_get(event, key);

	ck_assert_msg(json_is_number(value), "no number %s", key);
	return json_number_value(value);
}

static char phase(json_t *event)
{
	const char *text = json_string_value(json_object_get(event, "ph"));

	ck_assert(text && strlen(text) == 1);
	return *text;
}

/* The job (or update) of that process and thread that covers a time; NULL: none does. */
static json_t *covering(json_t *events, json_t *of, double time)
{
	const double half_ns = 0.0005; /* sums of decimals round */
	json_t *event;
	size_t i;

	json_array_foreach(events, i, event) if (phase(event) == 'X' &&
						 number(event, "pid") == number(of, "pid") &&
						 number(event, "tid") == number(of, "tid") &&
						 number(event, "ts") - half_ns <= time &&
						 time < number(event, "ts") + number(event, "dur") -
								 half_ns) return event;
	return NULL;
}

/* A thread's jobs are in the order of time and as long as in the timeline. */
static int check_jobs(json_t *events, const struct way *way, int process)
{
	double end[64] = {0};
	json_t *event;
	size_t i;
	int n = 0;

	json_array_foreach(events, i, event)
	{
		json_t *args = json_object_get(event, "args");
		int w, j;
		const char *pass;

		if (phase(event) != 'X' || (int)number(event, "pid") != process)
			continue;
		w = (int)number(event, "tid");
		ck_assert_double_ge(number(event, "ts"), end[w] - 1e-6);
		end[w] = number(event, "ts") + number(event, "dur");
		n++;
		if (!(pass = json_string_value(json_object_get(args, "pass"))))
			continue;
		j = orr_jobs_index(way->tried.jobs, (int)number(args, "stage"),
				   (int)number(args, "microbatch"),
				   *pass == 'F' ? ORR_PASS_F : ORR_PASS_B);
		ck_assert_int_eq(way->tried.jobs->compute[j], w);
		ck_assert_double_eq_tol(number(event, "ts") * 1e3,
					(double)way->tried.timeline->start_ns[j], 0.01);
		ck_assert_double_eq_tol(end[w] * 1e3, (double)way->tried.timeline->end_ns[j], 0.01);
	}
	return n;
}

/* Every arrow leaves from within a job and arrives at the start of another's on another worker. */
static int check_arrows(json_t *events)
{
	json_t *event, *other;
	size_t i, k;
	int n = 0;

	json_array_foreach(events, i, event)
	{
		int n_ends = 0;

		if (phase(event) != 's')
			continue;
		n++;
		ck_assert_msg(covering(events, event, number(event, "ts")) != NULL,
			      "an arrow from nowhere");
		json_array_foreach(events, k, other) if (phase(other) == 'f' &&
							 number(other, "id") == number(event, "id"))
		{
			json_t *job = covering(events, other, number(other, "ts"));

			n_ends++;
			ck_assert(job && fabs(number(job, "ts") - number(other, "ts")) < 0.0005);
			ck_assert_double_ge(number(other, "ts"), number(event, "ts"));
			ck_assert(number(other, "tid") != number(event, "tid"));
			ck_assert(number(other, "pid") == number(event, "pid"));
		}
		ck_assert_int_eq(n_ends, 1);
	}
	return n;
}

static int count(json_t *events, char wanted)
{
	json_t *event;
	size_t i;
	int n = 0;

	json_array_foreach(events, i, event) n += phase(event) == wanted;
	return n;
}

/* ---- tests ---- */

/* latency 0: free links, so that the arrows come from the jobs; otherwise from the transfers. */
START_TEST(a_trace_has_every_job_and_every_transfer)
{
	static const struct {
		const char *schedule;
		int workers, m;
		int64_t latency_ns;
		int n_arrows; /* of a chain of 4 */
	} rows[] = {{"1f1b", 4, 8, 0, 48},
		    {"1f1b", 4, 8, 123456789, 48},
		    {"1f1b", 2, 3, 0, 18},
		    {"ddp", 2, 4, 0, 0},
		    {"fsdp", 2, 4, 1000, 0}};
	struct orr_pipeline *p = make_whole_chain(4, 1, 2, 0, 7, 5, 3);
	struct orr_machine machine = orr_machine_default(rows[_i].workers);
	const char *names[] = {"predicted"};
	json_t *trace, *events;
	struct way way;

	for (int s = 0; s < 4; s++)
		p->stages[s].update_ns = 1;
	machine.latency_ns = rows[_i].latency_ns;
	way_init_on(&way, p, rows[_i].schedule, &machine, rows[_i].m);
	trace = write_trace((const struct orr_timeline *const[]){way.tried.timeline}, names, 1);
	events = json_object_get(trace, "traceEvents");
	ck_assert_int_eq(check_jobs(events, &way, 0),
			 way.tried.jobs->n_jobs + way.tried.timeline->n_updates);
	ck_assert_int_eq(check_arrows(events), rows[_i].n_arrows);
	ck_assert_int_eq(count(events, 's'), count(events, 'f'));
	json_decref(trace);
	way_end(&way);
}
END_TEST

START_TEST(a_memory_counter_peaks_as_reported_and_ends_at_0)
{
	struct orr_pipeline *p = make_whole_chain(4, 1, 2, 0, 7, 0, 0);
	const char *names[] = {"predicted"};
	double most[4] = {0}, last[4] = {1, 1, 1, 1};
	json_t *trace, *event;
	struct way way;
	size_t i;

	way_init(&way, p, "1f1b", 4, 8);
	trace = write_trace((const struct orr_timeline *const[]){way.tried.timeline}, names, 1);
	json_array_foreach(json_object_get(trace, "traceEvents"), i, event)
	{
		int w = -1;

		if (phase(event) != 'C')
			continue;
		if (sscanf(json_string_value(json_object_get(event, "name")), "w%d stash bytes",
			   &w) == 1 &&
		    json_object_get(json_object_get(event, "args"), "bytes")) {
			ck_assert(w >= 0 && w < 4);
			last[w] = number(json_object_get(event, "args"), "bytes");
			most[w] = fmax(most[w], last[w]);
		}
	}
	for (int w = 0; w < 4; w++) {
		ck_assert_double_eq(most[w], (double)way.tried.figures->worker[w].peak_stash_bytes);
		ck_assert_double_eq(last[w], 0);
	}
	json_decref(trace);
	way_end(&way);
}
END_TEST

START_TEST(timelines_are_processes_with_their_names_and_workers)
{
	struct orr_pipeline *p = make_chain(2, 1, 2), *other = make_chain(3, 1, 1);
	const char *names[] = {"predicted", "measured \"now\"\t\\"};
	int n_found = 0;
	json_t *trace, *events, *event;
	struct way way, second;
	size_t i;

	way_init(&way, p, "1f1b", 2, 3);
	way_init(&second, other, "gpipe", 3, 2);
	trace = write_trace(
		(const struct orr_timeline *const[]){way.tried.timeline, second.tried.timeline},
		names, 2);
	events = json_object_get(trace, "traceEvents");
	ck_assert_int_eq(check_jobs(events, &way, 0), way.tried.jobs->n_jobs);
	ck_assert_int_eq(check_jobs(events, &second, 1), second.tried.jobs->n_jobs);
	ck_assert_int_eq(check_arrows(events), 2 * 3 + 2 * 2 * 2);
	json_array_foreach(events, i, event)
	{
		const char *key = json_string_value(json_object_get(event, "name"));
		const char *name =
			json_string_value(json_object_get(json_object_get(event, "args"), "name"));
		int process = (int)number(event, "pid"), w = (int)number(event, "tid");
		char thread[16];

		if (phase(event) != 'M' || !name)
			continue;
		snprintf(thread, sizeof(thread), "w%d", w);
		ck_assert_str_eq(name, strcmp(key, "thread_name") ? names[process] : thread);
		n_found++;
	}
	ck_assert_int_eq(n_found, 2 + 2 + 3);
	json_decref(trace);
	way_end(&second);
	way_end(&way);
}
END_TEST

/* A run starts when it starts; the trace starts at 0. */
START_TEST(times_count_from_the_first_start_to_the_nanosecond)
{
	struct orr_pipeline *p = make_chain(1, 1, 1);
	struct orr_error err = {""};
	struct way way;
	struct page page;
	const struct orr_timeline *t;

	way_init(&way, p, "1f1b", 1, 1);
	way.tried.timeline->start_ns[0] = INT64_C(9007199254740993);
	way.tried.timeline->end_ns[0] = way.tried.timeline->start_ns[1] = INT64_C(9007199254742227);
	way.tried.timeline->end_ns[1] = INT64_C(9007199254742228);
	page_open(&page);
	t = way.tried.timeline;
	ck_assert(!orr_diagram_trace(page.file, &t, (const char *const[]){"x"}, 1, &err));
	ck_assert_ptr_nonnull(
		strstr(page_text(&page), "\"ts\":0.000,\"dur\":1.234,\"name\":\"0F0\""));
	ck_assert_ptr_nonnull(
		strstr(page_text(&page), "\"ts\":1.234,\"dur\":0.001,\"name\":\"0B0\""));
	page_close(&page);
	way_end(&way);
}
END_TEST

START_TEST(a_full_disk_is_said)
{
	struct orr_pipeline *p = make_chain(4, 1, 2);
	FILE *full = full_disk();
	struct orr_error err = {""};
	struct way way;
	const struct orr_timeline *t;

	way_init(&way, p, "1f1b", 4, 64);
	t = way.tried.timeline;
	ck_assert_int_eq(orr_diagram_trace(full, &t, (const char *const[]){"x"}, 1, &err),
			 ORR_E_IO);
	ck_assert_msg(strstr(err.msg, "trace: could not be written: ") == err.msg, "%s", err.msg);
	fclose(full);
	way_end(&way);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(a_trace_has_every_job_and_every_transfer, 5),
	ONCE(a_memory_counter_peaks_as_reported_and_ends_at_0),
	ONCE(timelines_are_processes_with_their_names_and_workers),
	ONCE(times_count_from_the_first_start_to_the_nanosecond),
	ONCE(a_full_disk_is_said),
};
SUITE("trace")
