/* Schedules as CSV: what is written is read back to the same timeline, and a wrong cell is named.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "open/exchange.h"
#include "pipelines.h"
#include "schedule/table.h"
#include "suite.h"

/* ---- reading ---- */

static struct orr_table *parse(const char *text)
{
	struct orr_table *table = NULL;
	struct orr_error err = {""};

	ck_assert_msg(!orr_exchange_parse(&table, "a.csv", text, strlen(text), &err), "%s: %s",
		      text, err.msg);
	return table;
}

/* A table on its way, on a chain with F=1, B=1, W=1. */
static void way_init_table(struct way *way, struct orr_pipeline *p, const struct orr_table *table)
{
	struct orr_schedule schedule;

	orr_table_schedule(&schedule, table);
	way_init_own(way, p, &schedule, table->n_workers, table->n_microbatches);
}

/* Orders of the workers, with B for the input gradient as jobs are printed. */
static const struct {
	const char *what, *text;
	bool split;
	const char *order[2];
	int makespan;
} good[] = {
	{"whole backwards",
	 "0F0,0F1,,,0B0,,0B1\n,1F0,1B0,1F1,,1B1\n",
	 false,
	 {"0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"},
	 9},
	{"split backwards",
	 "0F0,,,0I0,0W0\n,1F0,1I0,1W0\n",
	 true,
	 {"0F0 0B0 0W0", "1F0 1B0 1W0"},
	 5},
	{"the older writing",
	 "0F0,,,0B0,0W0\n,1F0,1B0,1W0\n",
	 true,
	 {"0F0 0B0 0W0", "1F0 1B0 1W0"},
	 5},
	{"whole backwards in the older writing",
	 "0F0,,,0BW0\n,1F0,1BW0\n",
	 false,
	 {"0F0 0B0", "1F0 1B0"},
	 6},
	{"a whole backward among split ones",
	 "0F0,0F1,0B0,0I1,0W1\n1F0,1I0,1F1,1I1,1W0,1W1\n",
	 true,
	 {"0F0 0F1 0B0 0W0 0B1 0W1", "1F0 1B0 1F1 1B1 1W0 1W1"},
	 7},
	{"the same in the older writing",
	 "0F0,0F1,0BW0,0B1,0W1\n1F0,1B0,1F1,1B1,1W0,1W1\n",
	 true,
	 {"0F0 0F1 0B0 0W0 0B1 0W1", "1F0 1B0 1F1 1B1 1W0 1W1"},
	 7},
	{"pairs",
	 "0F0,(0F1;0B0)OVERLAP_F_B,0B1\n1F0,(1B0; 1F1)OVERLAP_F_B,1B1\n",
	 false,
	 {"0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"},
	 9},
	{"a pair with half a backward",
	 "0F0,(0F1;0I0)OVERLAP_F_B,0W0,0B1\n1F0,1B0,1F1,1B1\n",
	 true,
	 {"0F0 0F1 0B0 0W0 0B1 0W1", "1F0 1B0 1W0 1F1 1B1 1W1"},
	 8},
	{"transfers and sharding",
	 "0UNSHARD,0F0,0SEND_F0,1RECV_B0,0B0,0REDUCE_GRAD,0RESHARD\n"
	 "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD\n",
	 false,
	 {"0F0 0B0", "1F0 1B0"},
	 6},
	{"waits, microbatches where there need be none, transfers in a group",
	 "0UNSHARD0,0F0,0SEND_F0,0F1,0SEND_F1,0WAIT_SEND_F0,0WAIT_SEND_F1,1RECV_B,0I0,0W0,0I1,0W1,"
	 "0REDUCE_GRAD,0WAIT_REDUCE_GRAD\n"
	 "1RECV_F0,1F0,1I0,(1SEND_B0;1F1 ; "
	 "1W0)OVERLAP_F_B,1WAIT_SEND_B0,1I1,1SEND_B1,1WAIT_SEND_B1,1W1,1RESHARD\n",
	 true,
	 {"0F0 0F1 0B0 0W0 0B1 0W1", "1F0 1B0 1F1 1W0 1B1 1W1"},
	 8},
	{"spaces, CRLF, a byte order mark, blank lines at the end",
	 "\xef\xbb\xbf 0F0 ,\t,0B0\r\n,1F0, 1B0 \r\n\r\n  \n",
	 false,
	 {"0F0 0B0", "1F0 1B0"},
	 6},
	{"no newline at the end", "0F0,0B0\n1F0,1B0", false, {"0F0 0B0", "1F0 1B0"}, 6},
	{"a stage on two rows",
	 "0F0,1F0,1B1,0B1\n0F1,1F1,1B0,0B0\n",
	 false,
	 {"0F0 1F0 1B1 0B1", "0F1 1F1 1B0 0B0"},
	 6},
	{"a worker with nothing to do", "0F0,1F0,1B0,0B0\n,\n", false, {"0F0 1F0 1B0 0B0", ""}, 6},
};

START_TEST(a_file_is_the_schedule_that_it_says)
{
	struct orr_table *table = parse(good[_i].text);
	struct orr_pipeline *p = make_whole_chain(2, 1, 1, 1, 1, 0, 0);
	struct way way;

	ck_assert_msg(table->split_backward == good[_i].split, "%s", good[_i].what);
	ck_assert_int_eq(table->n_workers, 2);
	ck_assert_int_eq(table->n_stages, 2);
	way_init_table(&way, p, table);
	for (int w = 0; w < 2; w++)
		ck_assert_str_eq(way_order(&way, w), good[_i].order[w]);
	ck_assert_msg(way.tried.figures->makespan_ns == good[_i].makespan * ORR_UNIT_NS, "%s: %lld",
		      good[_i].what, (long long)(way.tried.figures->makespan_ns / ORR_UNIT_NS));
	way_fini(&way);
	orr_table_destroy(table);
	orr_pipeline_destroy(p);
}
END_TEST

/* Each schedule of PyTorch 2.15 with its transfers, waits and sharding is the one without them. */
static const char *const dumped[] = {
	"gpipe",           "looped-bfs", "interleaved-1f1b", "interleaved-zero-bubble",
	"zbv-zero-bubble", "dualpipe-v"};

static void way_init_dump(struct way *way, struct orr_table **table, const char *name,
			  const char *form)
{
	char path[512];
	struct orr_error err = {""};
	struct orr_pipeline *p;

	(void)snprintf(path, sizeof(path), ORR_SOURCE "/tests/pytorch/%s-%s.csv", name, form);
	ck_assert_msg(!orr_exchange_read(table, path, &err), "%s", err.msg);
	p = make_whole_chain((*table)->n_stages, 1, 1, 1, 1, 0, 0);
	way_init_table(way, p, *table);
}

START_TEST(dumps_of_pytorch_are_read_with_what_moves)
{
	struct orr_table *tables[2] = {NULL, NULL};
	struct way ways[2];

	way_init_dump(&ways[0], &tables[0], dumped[_i], "compute_only");
	way_init_dump(&ways[1], &tables[1], dumped[_i], "compute_comms");
	for (int w = 0; w < 2; w++) {
		ck_assert_str_eq(way_order(&ways[0], w), way_order(&ways[1], w));
		ck_assert_uint_gt(strlen(way_order(&ways[0], w)), 30);
	}
	ck_assert_int_eq(ways[0].tried.figures->makespan_ns, ways[1].tried.figures->makespan_ns);
	for (int k = 0; k < 2; k++) {
		struct orr_pipeline *p = (struct orr_pipeline *)ways[k].tried.jobs->pipeline;

		way_fini(&ways[k]);
		orr_table_destroy(tables[k]);
		orr_pipeline_destroy(p);
	}
}
END_TEST

/* Four stages on two workers, two microbatches. */
#define SMALL "0F0,2F0,0F1,2F1,2B0,0B0,2B1,0B1\n1F0,3F0,3B0,1F1,1B0,3F1,3B1,1B1\n"
static const struct {
	const char *text;
	int n_stages, n_workers, n_microbatches;
	const char *message;
} sizes[] = {
	{SMALL, 4, 4, 2,
	 "a.csv: lays out the jobs of 2 workers, a row each, and there are to be 4: give [workers] "
	 "2, "
	 "or leave it out"},
	{SMALL, 3, 2, 2,
	 "a.csv:2:2: 3F0: stage 3, and the model has 3 stages, from 0: take a model of 4 stages"},
	{SMALL, 8, 2, 2,
	 "a.csv: no job of stage 4: it lays out 4 stages, and the model has 8: take a model of as "
	 "many "
	 "stages"},
	{SMALL, 4, 2, 1,
	 "a.csv:1:3: 0F1: microbatch 1, and there are to be 1, from 0: give [microbatches] 2, or "
	 "leave it out"},
	{SMALL, 4, 2, 8,
	 "a.csv: no job of microbatch 2: it lays out 2, and there are to be 8: give [microbatches] "
	 "2, or leave "
	 "it "
	 "out"},
	{"0F0,1F0,0B0,1B0\n", 2, 1, 1,
	 "schedule a.csv deadlocks, each of these jobs waits for the one before it: "},
	{"0B0,0F0\n", 1, 1, 1,
	 "schedule a.csv deadlocks, each of these jobs waits for the one before it: "},
};

START_TEST(a_schedule_of_another_size_or_without_an_end_is_refused)
{
	struct orr_table *table = parse(sizes[_i].text);
	struct orr_pipeline *p = make_whole_chain(sizes[_i].n_stages, 1, 1, 1, 1, 0, 0);
	struct orr_schedule schedule;
	struct orr_jobs *jobs = NULL;
	struct orr_error err = {""};

	orr_table_schedule(&schedule, table);
	ck_assert_int_eq(
		orr_pipeline_set_step(p, sizes[_i].n_workers, sizes[_i].n_microbatches, &err), 0);
	ck_assert_int_eq(orr_jobs_create(&jobs, p, &schedule, &err), ORR_E_INPUT);
	if (strstr(sizes[_i].message, "deadlocks"))
		err.msg[strlen(sizes[_i].message)] = '\0';
	ck_assert_str_eq(err.msg, sizes[_i].message);
	orr_table_destroy(table);
	orr_pipeline_destroy(p);
}
END_TEST

START_TEST(a_file_that_cannot_be_read_is_refused)
{
	struct orr_choice choice;
	struct orr_error err = {""};

	ck_assert_int_eq(orr_choice_init(&choice, "nowhere/x.csv", &err), ORR_E_INPUT);
	ck_assert_str_eq(err.msg, "nowhere/x.csv: cannot open it: No such file or directory: name "
				  "a schedule's CSV, or a schedule "
				  "(`orrery schedules` lists them)");
	ck_assert_ptr_null(choice.table);
}
END_TEST

/* ---- writing ---- */

static char *write_csv(const struct orr_timeline *t)
{
	struct orr_error err = {""};
	size_t size = 0;
	char *text = NULL;
	FILE *file = open_memstream(&text, &size);

	ck_assert(file != NULL);
	ck_assert_msg(!orr_exchange_write(file, t, &err), "%s", err.msg);
	ck_assert_int_eq(fclose(file), 0);
	return text;
}

static const struct {
	const char *schedule;
	int n_stages, n_workers, n_microbatches, forward, backward;
	const char *text;
} written[] = {
	{"1f1b", 2, 2, 2, 1, 1, "0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1,\n"},
	/* two steps a backward: the second is empty */
	{"1f1b", 2, 2, 2, 1, 2, "0F0,0F1,,,0B0,,,0B1,\n,1F0,1B0,,1F1,1B1,,,\n"},
	{"1f1b", 2, 2, 2, 5, 10, "0F0,0F1,,,0B0,,,0B1,\n,1F0,1B0,,1F1,1B1,,,\n"},
	/* no step to line up by */
	{"1f1b", 2, 2, 2, 7, 100, "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"},
	{"1f1b", 2, 2, 1, 0, 1, "0F0,0B0\n1F0,1B0\n"},
	{"1f1b", 1, 3, 1, 1, 1, "0F0,0B0\n,\n,\n"},
	{"1f1b", 1, 2, 1, 0, 1, "0F0,0B0\n,\n"},
};

START_TEST(steps_line_up_where_there_are_steps)
{
	struct orr_pipeline *p =
		make_chain(written[_i].n_stages, written[_i].forward, written[_i].backward);
	struct way way;
	char *text;

	way_init(&way, p, written[_i].schedule, written[_i].n_workers, written[_i].n_microbatches);
	text = write_csv(way.tried.timeline);
	ck_assert_str_eq(text, written[_i].text);
	free(text);
	way_end(&way);
}
END_TEST

static const struct {
	const char *name;
	int n_stages;
	const char *edges;
} shapes[] = {
	{"chain of 1", 1, ""},
	{"chain of 2", 2, "0>1"},
	{"chain of 4", 4, "0>1 1>2 2>3"},
	{"chain of 8", 8, "0>1 1>2 2>3 3>4 4>5 5>6 6>7"},
	{"towers of 2 and 1 on 2", 5, "0>1 1>3 2>3 3>4"},
	{"a skip", 4, "0>1 1>2 2>3 0>3"},
	{"two towers of 3 on 2", 8, "0>1 1>2 2>6 3>4 4>5 5>6 6>7"},
};
static const int costs[][3] = {{1, 1, 1}, {1, 2, 0}, {1296, 1322, 976}, {0, 1, 1}, {3, 2, 7}};

static void check_same(const struct orr_timeline *x, const struct orr_timeline *y, const char *what)
{
	ck_assert_msg(x->jobs->n_jobs == y->jobs->n_jobs, "%s: another number of jobs", what);
	for (int j = 0; j < x->jobs->n_jobs; j++) {
		struct orr_job job = orr_jobs_at(x->jobs, j);

		ck_assert_msg(x->start_ns[j] == y->start_ns[j] && x->end_ns[j] == y->end_ns[j] &&
				      x->jobs->compute[j] == y->jobs->compute[j],
			      "%s: %d%c%d on worker %d at %lld, and then on worker %d at %lld",
			      what, job.s, orr_pass_letter(job.d), job.b, x->jobs->compute[j],
			      (long long)x->start_ns[j], y->jobs->compute[j],
			      (long long)y->start_ns[j]);
	}
}

/* There and back; false if the schedule does not serve that pipeline. */
static bool go_round(struct orr_pipeline *p, const char *schedule, int n_workers, int m,
		     const char *what)
{
	struct orr_table *table;
	struct way way, back;
	char *text, *again;

	if (!way_try(&way, p, schedule, n_workers, m))
		return false;
	text = write_csv(way.tried.timeline);
	table = parse(text);
	for (int s = 0; s < p->n_stages; s++) /* which the format has no word for */
		p->stages[s].recompute = way.tried.jobs->recompute[s];
	way_init_table(&back, p, table);
	check_same(way.tried.timeline, back.tried.timeline, what);
	again = write_csv(back.tried.timeline);
	ck_assert_msg(!strcmp(text, again), "%s: written again, it is another file", what);
	way_fini(&back);
	way_fini(&way);
	for (int s = 0; s < p->n_stages; s++)
		p->stages[s].recompute = false;
	orr_table_destroy(table);
	free(text);
	free(again);
	return true;
}

START_TEST(every_schedule_is_read_back_to_the_same_timeline)
{
	static const int microbatches[] = {1, 3, 8};
	int n_served[64] = {0}, n = count_schedules();
	char what[256];

	ck_assert_int_le(n, N_OF(n_served));
	for (int k = 0; k < N_OF(shapes) * N_OF(costs); k++) {
		const int *cost = costs[k % N_OF(costs)];
		int shape = k / N_OF(costs);
		struct orr_pipeline *p = make_pipeline(shapes[shape].n_stages, shapes[shape].edges,
						       cost[0], cost[1], cost[2], 1, 1, 1);

		for (int i = 0; i < n * N_OF(microbatches) * 4; i++) {
			int x = i / (N_OF(microbatches) * 4),
			    m = microbatches[i / 4 % N_OF(microbatches)], w = 1 << i % 4;

			snprintf(what, sizeof(what),
				 "%s on %d workers, %d microbatches of a %s, costs %d,%d,%d",
				 orr_schedules[x]->name, w, m, shapes[shape].name, cost[0], cost[1],
				 cost[2]);
			n_served[x] += go_round(p, quick_schedule(x), w, m, what);
		}
		orr_pipeline_destroy(p);
	}
	for (int x = 0; x < n; x++)
		ck_assert_msg(n_served[x] >= 10, "%s: served only %d cases", orr_schedules[x]->name,
			      n_served[x]);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(dumps_of_pytorch_are_read_with_what_moves, N_OF(dumped)),
	EACH(a_file_is_the_schedule_that_it_says, N_OF(good)),
	EACH(a_schedule_of_another_size_or_without_an_end_is_refused, N_OF(sizes)),
	ONCE(a_file_that_cannot_be_read_is_refused),
	EACH(steps_line_up_where_there_are_steps, N_OF(written)),
	ONCE(every_schedule_is_read_back_to_the_same_timeline),
};
SUITE("exchange")
