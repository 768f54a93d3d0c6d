/* Jobs of a graph that was split: where they are and in which order under every schedule, what the
 * workers of a group send each other, and how long that takes. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graphs.h"
#include "open/exchange.h"
#include "pipeline/partition.h"
#include "rewrite/rewrite.h"
#include "schedule/room.h"
#include "orrery/open.h"
#include "schedule/table.h"
#include "pipelines.h"
#include "suite.h"

#define SAMPLES 3

struct cut {
	struct orr_graph *graph;
	struct orr_pipeline *p;
};

static struct cut cut(struct orr_graph *g, const char *splits, const struct orr_machine *machine)
{
	struct cut c = {0};
	struct orr_error err = {""};

	ck_assert_msg(!orr_graph_split(&c.graph, g, splits, &err), "%s", err.msg);
	ck_assert_msg(!orr_partition(&c.p, c.graph, machine, 0, SAMPLES, &err), "%s", err.msg);
	return c;
}

static void cut_fini(struct cut *c)
{
	orr_pipeline_destroy(c->p);
	orr_graph_destroy(c->graph);
}

static struct cut cut_model(const char *name, const char *splits, int n_workers)
{
	struct orr_machine machine = orr_machine_default(n_workers);
	char path[512];

	(void)snprintf(path, sizeof(path), ORR_SOURCE "/graphs/%s.dot", name);
	return cut(read_graph(path), splits, &machine);
}

/* ---- one all-reduce ---- */

#define FEATURES 32
#define ANSWERS 8
/* The first norm sends no gradient back. What `down` makes is added up and goes to all, and what
 * down2 makes to the first alone, which has the loss. */
#define MLP \
	"digraph { x [op=input, columns=\"0:32\"]; y [op=input, columns=\"32:40\"]; " \
	"n [op=layernorm]; up [op=linear, features=64]; r [op=relu]; " \
	"down [op=linear, features=32]; m [op=layernorm]; up2 [op=linear, features=64]; " \
	"r2 [op=relu]; down2 [op=linear, features=8]; l [op=mse]; " \
	"x -> n -> up -> r -> down -> m -> up2 -> r2 -> down2 -> l; y -> l }"

static const int widths[] = {2, 4, 8};

/* As one stage. */
static struct cut cut_mlp(int t, struct orr_machine machine)
{
	char splits[16];

	(void)snprintf(splits, sizeof(splits), "%d:copied", t);
	machine.n_workers = 1;
	return cut(parse_graph(MLP), splits, &machine);
}

/* A layer's stash in bf16 [Korthikanti23, equations 1 and 2, and table 2]: tensors of s x h in 2
 * bytes, and in 4 where a norm keeps its rows; factors of rows, and attention's sums. */
START_TEST(a_layer_keeps_the_published_bytes)
{
	enum { S = 16, H = 32, A = 4 };
	static const struct {
		const char *split;
		int t, sh, thin; /* sh + thin / t bytes a token and column */
		int rows;        /* parts of the norms' */
	} rows[] = {{"1", 1, 12, 24, 1},
		    {"2:copied", 2, 12, 24, 1},
		    {"4:copied", 4, 12, 24, 1},
		    {"2", 2, 4, 32, 2},
		    {"4", 4, 4, 32, 4}};
	static const char text[] =
		"digraph g { x [op=input, columns=\"0:16\", rows=16]; y [op=input, columns=0];"
		"embed [op=embedding, vocabulary=9, features=32, stage=0]; x -> embed;"
		"node [stage=1]; norm1 [op=layernorm]; q [op=linear, features=32];"
		"k [op=linear, features=32]; v [op=linear, features=32]; attend [op=attention, "
		"heads=4];"
		"out [op=linear, features=32]; drop1 [op=dropout, rate=0.1]; sum1 [op=add];"
		"norm2 [op=layernorm]; fc1 [op=linear, features=128]; gelu [op=gelu];"
		"fc2 [op=linear, features=32]; drop2 [op=dropout, rate=0.1]; sum2 [op=add];"
		"embed -> {norm1 sum1}; norm1 -> {q k v}; q -> attend; k -> attend; v -> attend;"
		"attend -> out -> drop1 -> sum1; sum1 -> {norm2 sum2};"
		"norm2 -> fc1 -> gelu -> fc2 -> drop2 -> sum2; node [stage=2]; last [op=first];"
		"head [op=linear, features=9]; loss [op=softmax_cross_entropy];"
		"sum2 -> last -> head -> loss; y -> loss; }";
	struct orr_machine machine = orr_machine_default(16);
	struct orr_graph *g = NULL;
	struct orr_error err = {""};
	int64_t bytes = 0, t = rows[_i].t;
	struct cut c;

	ck_assert_msg(!orr_graph_parse(&g, "layer", text, &err), "%s", err.msg);
	orr_graph_set_precision(g, ORR_PRECISION_BF16);
	ck_assert_msg(!orr_graph_split(&c.graph, g, rows[_i].split, &err), "%s", err.msg);
	orr_graph_set_precision(c.graph, ORR_PRECISION_BF16);
	ck_assert_msg(!orr_partition(&c.p, c.graph, &machine, 0, SAMPLES, &err), "%s", err.msg);
	for (int s = 0; s < c.p->n_stages; s++)
		if (!c.p->split ? s == 1
				: c.p->split->stage[s] == 1 && c.p->split->shard[s] == t - 1)
			bytes += c.p->stages[s].stash_bytes;
	ck_assert_int_eq(bytes, SAMPLES * (S * H * (rows[_i].sh + rows[_i].thin / t) +
					   8 * S / rows[_i].rows + 4 * A * S / t));
	cut_fini(&c);
}
END_TEST

/* _i: of widths. Each worker receives 2 (t - 1) / t of a tensor that is added up, and as much of
 * its gradient. */
START_TEST(an_all_reduce_moves_as_much_as_a_ring)
{
	const int64_t rows = SAMPLES * (int64_t)sizeof(float), m = 3;
	int t = widths[_i];
	struct cut c = cut_mlp(t, orr_machine_default(t));
	int64_t bytes = m * 2 * (t - 1) * rows * FEATURES / t, answers = m * rows * ANSWERS;
	struct way way;

	ck_assert_int_eq(c.p->split->whole->n_stages, 1);
	ck_assert_int_eq(c.p->split->n_levels, 4);
	way_init(&way, c.p, "gpipe", t, (int)m);
	for (int w = 0; w < t; w++) {
		const struct orr_worker_figures *f = &way.tried.figures->worker[w];

		ck_assert_int_eq(f->recv_activation_bytes, bytes + (w ? 0 : (t - 1) * answers));
		ck_assert_int_eq(f->recv_gradient_bytes, bytes + (w ? answers : 0));
	}
	way_fini(&way);
	cut_fini(&c);
}
END_TEST

/* A worker that sends one thing at a time takes two latencies and 2 (t - 1) / t of the bytes: a
 * ring with free latencies, and with one for each of its 2 (t - 1) steps one of two workers. */
START_TEST(an_all_reduce_takes_as_long_as_a_ring)
{
	static const char *const machines[] = {
		"graph { bandwidth=\"1MB/s\"; ports=true; a [repeat=8] }",
		"graph { latency=\"7us\"; bandwidth=\"1MB/s\"; ports=true; a [repeat=8] }"};
	const int workers[] = {0, 1, 2, 3, 4, 5, 6, 7};
	int t = widths[_i / 2];
	int64_t bytes = SAMPLES * FEATURES * (int64_t)sizeof(float);
	struct orr_cluster *cluster = parse_cluster("%s", machines[_i % 2]);
	struct orr_machine machine = orr_machine_of(cluster, t);
	struct way way;
	struct cut c;

	machine.flops_per_s = 1e24; /* computing is free */
	c = cut_mlp(t, machine);
	way_init_on(&way, c.p, "gpipe", &machine, 1);
	for (int s = 0; s < c.p->n_stages; s++) {
		int64_t latency_ns = 2 * orr_machine_link(&machine, 0, 1).latency_ns;
		int64_t ring_ns = orr_machine_ring_ns(&machine, workers, t, bytes);

		if (c.p->split->level[s] != 2)
			continue;
		ck_assert_int_eq(way.tried.timeline->start_ns[orr_jobs_index(way.tried.jobs, s, 0,
									     ORR_PASS_F)],
				 ring_ns - (t - 1) * latency_ns + latency_ns);
	}
	way_fini(&way);
	cut_fini(&c);
	orr_cluster_destroy(cluster);
}
END_TEST

/* ---- every schedule ---- */

/* The job of the stages before whose place job j has: its own pass, or, where the whole stage has
 * not that, the other one. */
static int whole_of(const struct orr_jobs *jobs, int j)
{
	const struct orr_jobs *whole = jobs->groups->jobs;
	struct orr_job job = orr_jobs_at(jobs, j);
	int S = jobs->pipeline->split->stage[job.s];
	int k = orr_jobs_index(whole, S, job.b, job.d);

	if (orr_jobs_has(whole, k))
		return k;
	return orr_jobs_index(whole, S, job.b, job.d == ORR_PASS_B ? ORR_PASS_W : ORR_PASS_B);
}

/* Where the group is, number i of it. */
static void check_places(const struct orr_jobs *jobs)
{
	const struct orr_groups *groups = jobs->groups;
	const struct orr_split *split = jobs->pipeline->split;

	ck_assert_int_le(groups->first[groups->n], jobs->pipeline->n_workers);
	for (int j = 0; j < jobs->n_jobs; j++) {
		int s = orr_jobs_at(jobs, j).s, k;

		if (!orr_jobs_has(jobs, j))
			continue;
		k = whole_of(jobs, j);
		ck_assert(orr_jobs_has(groups->jobs, k));
		ck_assert_int_eq(jobs->compute[j],
				 groups->first[groups->jobs->compute[k]] + split->shard[s]);
		ck_assert_int_eq(jobs->weights[j],
				 groups->first[groups->jobs->weights[k]] + split->shard[s]);
		ck_assert_int_lt(split->shard[s], groups->first[groups->jobs->compute[k] + 1] -
							  groups->first[groups->jobs->compute[k]]);
		ck_assert_int_eq(orr_jobs_cap(jobs, s),
				 orr_jobs_last_pass(jobs, s) == ORR_PASS_F
					 ? 0
					 : orr_jobs_cap(groups->jobs, split->stage[s]));
	}
}

/* A worker's order is that of its group, forward by level and backward the other way round. */
static void check_order(const struct orr_jobs *jobs)
{
	const struct orr_jobs *whole = jobs->groups->jobs;
	const int *level = jobs->pipeline->split->level;

	for (int w = 0; w < jobs->pipeline->n_workers; w++)
		for (int i = jobs->first[w] + 1; i < jobs->first[w + 1]; i++) {
			int j = jobs->by_worker[i], before = jobs->by_worker[i - 1];
			struct orr_job a = orr_jobs_at(jobs, before), b = orr_jobs_at(jobs, j);
			int k = whole_of(jobs, before), l = whole_of(jobs, j);

			ck_assert_int_le(orr_jobs_position(whole, k, 0),
					 orr_jobs_position(whole, l, 0));
			if (k != l || a.d != b.d)
				ck_assert(k != l || a.d < b.d);
			else if (a.d == ORR_PASS_F)
				ck_assert_int_lt(level[a.s], level[b.s]);
			else
				ck_assert_int_gt(level[a.s], level[b.s]);
		}
}

/* The end of the last job. */
static int64_t end_of(const struct orr_timeline *t)
{
	int64_t last = 0;

	for (int j = 0; j < t->jobs->n_jobs; j++)
		if (orr_jobs_has(t->jobs, j) && t->end_ns[j] > last)
			last = t->end_ns[j];
	return last;
}

static const struct {
	const char *model, *splits;
	int n_workers;
} served[] = {
	{"gpt", "2", 4},          {"gpt", "2", 8},           {"gpt", "4:copied", 16},
	{"clip", "2", 8},         {"digits", "2", 12},       {"digits", "3", 9},
	{"tied_towers", "2", 10}, {"frozen_towers", "2", 4}, {"deep", "2", 8},
	{"clip", "left=2", 6},
};
#define N_SERVED N_OF(served)

/* _i: of served, under every schedule. The schedule serves parts where it serves the stages before
 * on as many groups; where a strict order has free links, no part is later than its whole. */
START_TEST(schedules_place_parts_as_they_place_stages)
{
	struct cut c = cut_model(served[_i].model, served[_i].splits, served[_i].n_workers);
	struct orr_pipeline *p = c.p;
	int n_tried = 0;

	for (int i = 0; i < count_schedules(); i++) {
		struct orr_choice choice;
		struct orr_error err = {""};
		struct way way, whole;

		ck_assert(!orr_choice_init(&choice, quick_schedule(i), NULL));
		ck_assert(!orr_pipeline_set_step(p, served[_i].n_workers, 4, NULL));
		memset(&way, 0, sizeof(way));
		if (orr_try_init(&way.tried, p, &choice.schedule, NULL, &err)) {
			ck_assert_msg(*err.msg, "%s", quick_schedule(i));
			orr_choice_fini(&choice);
			continue;
		}
		n_tried++;
		ck_assert_msg(!orr_try_run(&way.tried, &err), "%s: %s", quick_schedule(i), err.msg);
		check_places(way.tried.jobs);
		check_order(way.tried.jobs);
		ck_assert_int_le(way.tried.figures->lower_bound_ns, way.tried.figures->makespan_ns);
		way_init(&whole, p->split->whole, quick_schedule(i), way.tried.jobs->groups->n, 4);
		if (way.tried.jobs->order == ORR_ORDER_STRICT)
			ck_assert_msg(end_of(way.tried.timeline) <= end_of(whole.tried.timeline),
				      "%s: %lld, and the whole %lld", quick_schedule(i),
				      (long long)end_of(way.tried.timeline),
				      (long long)end_of(whole.tried.timeline));
		way_fini(&whole);
		orr_try_fini(&way.tried);
		orr_choice_fini(&choice);
	}
	ck_assert_int_ge(n_tried, 2);
	cut_fini(&c);
}
END_TEST

/* ---- the size of groups, and of the machine ---- */

static int groups_of(struct cut *c, const char *schedule, int n_workers, char *sizes,
		     struct orr_error *err)
{
	struct orr_jobs *jobs = NULL;
	struct orr_choice choice;
	int code;

	ck_assert(!orr_choice_init(&choice, schedule, NULL));
	if (!(code = orr_pipeline_set_step(c->p, n_workers, 4, err)))
		code = orr_jobs_create(&jobs, c->p, &choice.schedule, err);
	for (int g = 0; !code && g < jobs->groups->n; g++)
		sizes += snprintf(sizes, 8, "%d ",
				  jobs->groups->first[g + 1] - jobs->groups->first[g]);
	orr_jobs_destroy(jobs);
	orr_choice_fini(&choice);
	return code;
}

START_TEST(groups_are_as_wide_as_their_stages)
{
	static const struct {
		const char *model, *splits, *schedule;
		int n_workers;
		const char *sizes;
	} rows[] = {
		{"gpt", "2", "gpipe", 8, "2 2 2 2 "},
		{"gpt", "2", "gpipe", 5, "2 2 "},
		{"gpt", "4", "fsdp", 8, "4 4 "},
		{"clip", "2", "gpipe", 9, "2 2 2 2 1 "},
		{"clip", "left=2", "gpipe", 7, "2 2 1 1 1 "},
		{"gpt", "2", "fsdp", 2, "2 "},
	};
	struct cut c = cut_model(rows[_i].model, rows[_i].splits, rows[_i].n_workers);
	struct orr_error err = {""};
	char sizes[256] = "";

	ck_assert_msg(!groups_of(&c, rows[_i].schedule, rows[_i].n_workers, sizes, &err), "%s",
		      err.msg);
	ck_assert_str_eq(sizes, rows[_i].sizes);
	cut_fini(&c);
}
END_TEST
#define N_SIZES 6

START_TEST(what_does_not_fit_is_refused)
{
	static const struct {
		const char *schedule;
		int n_workers;
		const char *says;
	} rows[] = {
		{"gpipe", 3,
		 "3 workers, and a stage is split among 4: set [workers] 4 or more, or split it "
		 "less (split=)"},
		{"chimera", 8,
		 "two-way pipelines need a worker a stage, and there are 4 stages and 2 workers: "
		 "set [workers] 4 (where a worker is a group of 4, since the graph is split)"},
		{"pipedream", 16,
		 "schedule pipedream never flushes, and the graph is split among workers, which "
		 "would be at different versions: take a schedule that flushes, or no split"},
	};
	struct cut c = cut_model("gpt", "4", 16);
	struct orr_error err = {""};
	char sizes[256];

	ck_assert_int_eq(groups_of(&c, rows[_i].schedule, rows[_i].n_workers, sizes, &err),
			 ORR_E_INPUT);
	ck_assert_str_eq(err.msg, rows[_i].says);
	cut_fini(&c);
}
END_TEST

/* ---- orders, owners, recomputation ---- */

/* Greedy within the memory of the strict order. */
START_TEST(greedy_parts_stay_in_their_memory)
{
	struct cut c = cut_model("gpt", "2", 8);
	struct way strict, greedy;
	struct orr_timeline *t = NULL;
	struct orr_figures *f = NULL;
	struct orr_error err = {""};

	way_init(&strict, c.p, "1f1b", 8, 6);
	way_init(&greedy, c.p, "1f1b", 8, 6);
	ck_assert_msg(!orr_jobs_free(greedy.tried.jobs, &err), "%s", err.msg);
	ck_assert_msg(!orr_simulate(&t, greedy.tried.jobs, &err) && !orr_timeline_check(t, &err) &&
			      !orr_figures_create(&f, t, &err),
		      "%s", err.msg);
	for (int w = 0; w < 8; w++)
		ck_assert_int_le(f->worker[w].peak_stash_bytes,
				 strict.tried.figures->worker[w].peak_stash_bytes);
	orr_figures_destroy(f);
	orr_timeline_destroy(t);
	way_fini(&strict);
	way_fini(&greedy);
	cut_fini(&c);
}
END_TEST

/* Copies of a norm are on all workers of all groups that have it. */
START_TEST(copies_are_tied_among_groups)
{
	struct cut c = cut_model("gpt", "2", 8);
	const struct orr_jobs *jobs;
	struct way way;

	way_init(&way, c.p, "ddp", 8, 8);
	jobs = way.tried.jobs;
	ck_assert_int_gt(c.p->n_tied, 0);
	for (int i = 0; i < c.p->n_tied; i++)
		ck_assert_int_eq(jobs->first_owner[c.p->n_stages + i + 1] -
					 jobs->first_owner[c.p->n_stages + i],
				 8);
	for (int s = 0; s < c.p->n_stages; s++) {
		ck_assert_int_eq(jobs->first_owner[s + 1] - jobs->first_owner[s], 4);
		for (int i = jobs->first_owner[s]; i < jobs->first_owner[s + 1]; i++)
			ck_assert_int_eq(jobs->owners[i] % 2, c.p->split->shard[s]);
	}
	way_fini(&way);
	cut_fini(&c);
}
END_TEST

/* By the numbers of the stages before. */
START_TEST(parts_recompute_with_their_stage)
{
	struct cut c = cut_model("gpt", "2", 8);
	struct orr_error err = {""};
	struct way way;
	int n = 0;

	ck_assert_int_eq(orr_pipeline_set_recompute(c.p, "5", &err), ORR_E_INPUT);
	ck_assert_str_eq(err.msg, "[recompute]: '5': give all, none, or stages from 0 to 3 with "
				  "commas between them");
	ck_assert(!orr_pipeline_set_recompute(c.p, "1,3", &err));
	way_init(&way, c.p, "gpipe", 8, 2);
	for (int s = 0; s < c.p->n_stages; s++) {
		ck_assert(way.tried.jobs->recompute[s] == c.p->split->stage[s] % 2);
		n += way.tried.jobs->recompute[s];
	}
	ck_assert_int_gt(n, 4);
	way_fini(&way);
	cut_fini(&c);
}
END_TEST

/* A plan of the stages before names groups. */
START_TEST(homes_are_groups)
{
	struct cut c = cut_model("gpt", "2", 8);
	struct orr_choice choice;
	struct orr_jobs *jobs = NULL;
	int home[2 * 4];

	for (int i = 0; i < 2 * 4; i++)
		home[i] = (i % 4 + 1) % 4;
	ck_assert(!orr_choice_init(&choice, "gpipe", NULL));
	ck_assert(!orr_pipeline_set_step(c.p, 8, 2, NULL));
	ck_assert(!orr_jobs_create_at(&jobs, c.p, &choice.schedule, home, NULL));
	for (int j = 0; j < jobs->n_jobs; j++) {
		int s = orr_jobs_at(jobs, j).s;

		ck_assert_int_eq(jobs->compute[j],
				 2 * home[c.p->split->stage[s]] + c.p->split->shard[s]);
	}
	orr_jobs_destroy(jobs);
	orr_choice_fini(&choice);
	cut_fini(&c);
}
END_TEST

/* What is written of a timeline of parts is the order of the groups, and gives the timeline again.
 */
START_TEST(a_csv_is_of_groups)
{
	static const char *const schedules[] = {"1f1b", "zb-h1", "hanayo"};
	struct cut c = cut_model("gpt", "2", _i == 2 ? 4 : 8);
	struct orr_table *table = NULL;
	struct orr_schedule schedule;
	struct orr_error err = {""};
	struct orr_try again;
	struct way way;
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	way_init(&way, c.p, schedules[_i], _i == 2 ? 4 : 8, 4);
	ck_assert(!orr_exchange_write(file, way.tried.timeline, &err));
	(void)fclose(file);
	ck_assert_msg(!orr_exchange_parse(&table, "csv", text, size, &err), "%s", err.msg);
	ck_assert_int_eq(table->n_stages, 4);
	ck_assert_int_eq(table->n_workers, _i == 2 ? 2 : 4);
	orr_table_schedule(&schedule, table);
	ck_assert_msg(!orr_try_init(&again, c.p, &schedule, NULL, &err) &&
			      !orr_try_run(&again, &err),
		      "%s", err.msg);
	if (way.tried.jobs->order == ORR_ORDER_STRICT)
		ck_assert_mem_eq(again.timeline->start_ns, way.tried.timeline->start_ns,
				 (size_t)again.jobs->n_jobs * sizeof(int64_t));
	orr_try_fini(&again);
	orr_table_destroy(table);
	free(text);
	way_fini(&way);
	cut_fini(&c);
}
END_TEST

/* ---- exchanges beside compute ---- */

/* The next microbatch of gpipe computes while the first one's is added up, if there are streams. Of
 * one alone nothing is hidden. */
START_TEST(an_all_reduce_is_hidden_behind_the_other_microbatch)
{
	static const char *const machines[] = {
		"graph { bandwidth=\"1GB/s\"; a [repeat=2] }",
		"graph { bandwidth=\"1GB/s\"; streams=1; a [repeat=2] }"};
	int64_t takes[2][3];

	for (int i = 0; i < 2; i++) {
		struct orr_cluster *cluster = parse_cluster("%s", machines[i]);
		struct orr_machine machine = orr_machine_of(cluster, 2);
		struct cut c = cut(parse_graph(MLP), "2", &machine);
		for (int m = 1; m <= 2; m++) {
			const struct orr_timeline *t;
			struct way way;

			way_init_on(&way, c.p, "gpipe", &machine, m);
			t = way.tried.timeline;
			takes[i][m] = way.tried.figures->makespan_ns;
			ck_assert_int_eq(t->jobs->order, ORR_ORDER_STRICT);
			if (m == 2)
				ck_assert_int_eq(
					t->start_ns[orr_jobs_index(t->jobs, 0, 1, ORR_PASS_F)] ==
						t->end_ns[orr_jobs_index(t->jobs, 0, 0,
									 ORR_PASS_F)],
					i);
			way_fini(&way);
		}
		cut_fini(&c);
		orr_cluster_destroy(cluster);
	}
	ck_assert_int_eq(takes[0][1], takes[1][1]);
	ck_assert_int_lt(takes[1][2], takes[0][2]);
}
END_TEST

/* Of orders with a split backward, auto's in enough memory is the shortest, with what workers
 * compute beside exchanges; what it hides is more than DualPipe does. */
START_TEST(auto_finds_what_is_hidden_behind_other_microbatches)
{
	static const char *const bandwidths[] = {"100MB/s", "400MB/s", "2GB/s"},
				 *const named[] = {"dualpipe-v", "zb-h1", "zb-h2", "v-zb",
						   "v-half"};
	struct orr_cluster *cluster = parse_cluster(
		"graph { bandwidth=\"%s\"; streams=1; a [repeat=4] }", bandwidths[_i]);
	struct orr_machine machine = orr_machine_of(cluster, 4);
	struct orr_error err = {""};
	int64_t found;
	struct cut c = {0};
	struct way way;

	ck_assert(!orr_graph_split(&c.graph, read_graph(ORR_SOURCE "/graphs/moe.dot"), "2", &err));
	ck_assert(!orr_partition(&c.p, c.graph, &machine, 4, SAMPLES, &err));
	way_init_on(&way, c.p, "auto:memory=100,effort=1", &machine, 8);
	found = way.tried.figures->makespan_ns;
	way_fini(&way);
	for (size_t k = 0; k < N_OF(named); k++) {
		way_init_on(&way, c.p, named[k], &machine, 8);
		ck_assert_int_lt(found, way.tried.figures->makespan_ns);
		way_fini(&way);
	}
	cut_fini(&c);
	orr_cluster_destroy(cluster);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(a_layer_keeps_the_published_bytes, 5),
	EACH(an_all_reduce_moves_as_much_as_a_ring, N_OF(widths)),
	EACH(an_all_reduce_takes_as_long_as_a_ring, 2 * N_OF(widths)),
	ONCE(an_all_reduce_is_hidden_behind_the_other_microbatch),
	EACH(auto_finds_what_is_hidden_behind_other_microbatches, 3),
	EACH(schedules_place_parts_as_they_place_stages, N_SERVED),
	EACH(groups_are_as_wide_as_their_stages, N_SIZES),
	EACH(what_does_not_fit_is_refused, 3),
	ONCE(greedy_parts_stay_in_their_memory),
	ONCE(copies_are_tied_among_groups),
	ONCE(parts_recompute_with_their_stage),
	ONCE(homes_are_groups),
	EACH(a_csv_is_of_groups, 3),
};
SUITE("split_jobs")
