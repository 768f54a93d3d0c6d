/* Replicas of a pipeline: each is the schedule's order on fewer workers, at the same times, with
 * the same memory; their rings come after it, and a pipeline of one stage is data parallel. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/input_file.h"
#include "graphs.h"
#include "pipeline/partition.h"
#include "rewrite/rewrite.h"
#include "schedule/functions.h"
#include "orrery/open.h"
#include "pipelines.h"
#include "suite.h"

#define M 8 /* microbatches of a replica */

/* A ring of two owners of 4000 bytes takes a unit. */
#define RATE (4000.0 * 1e9 / (double)ORR_UNIT_NS)

static struct orr_pipeline *make(const char *edges, int n_stages, int r)
{
	struct orr_pipeline *p = make_pipeline(n_stages, edges, 2, 3, 1, 10, 4000, 0);

	p->replicas = r;
	return p;
}

/* Job j of `one`, as replica r of n has it. */
static int job_in(const struct orr_jobs *all, const struct orr_jobs *one, int j, int r, int n)
{
	struct orr_job job = orr_jobs_at(one, j);

	return orr_jobs_index(all, job.s, job.b * n + r, job.d);
}

static void check_replica(const struct way *all, const struct way *one, int r, int n)
{
	const struct orr_jobs *jobs = all->tried.jobs, *of = one->tried.jobs;
	int first = r * of->pipeline->n_workers;

	for (int j = 0; j < of->n_jobs; j++) {
		int k = job_in(jobs, of, j, r, n);

		if (!orr_jobs_has(of, j))
			continue;
		ck_assert_int_eq(jobs->compute[k], first + of->compute[j]);
		ck_assert_int_eq(jobs->weights[k], first + of->weights[j]);
		ck_assert_int_eq(all->tried.timeline->start_ns[k],
				 one->tried.timeline->start_ns[j]);
		ck_assert_int_eq(all->tried.timeline->end_ns[k], one->tried.timeline->end_ns[j]);
	}
	for (int w = 0; w < of->pipeline->n_workers; w++) {
		struct orr_worker_figures x = all->tried.figures->worker[first + w];
		const struct orr_worker_figures *y = &one->tried.figures->worker[w];

		/* what rings add, and updates after them */
		x.last_end_ns = y->last_end_ns;
		x.idle_ns = y->idle_ns;
		x.copy_bytes = y->copy_bytes;
		x.memory_bytes = y->memory_bytes;
		x.all_reduce_bytes = y->all_reduce_bytes;
		ck_assert_mem_eq(&x, y, sizeof(x));
	}
}

static const struct {
	const char *edges;
	int n_stages, n_workers;
} shapes[] = {
	{"0>1 1>2 2>3", 4, 4},
	{"0>1 1>2 2>3 3>4 4>5 5>6 6>7", 8, 4},
	{"0>1 1>4 2>3 3>4 4>5", 6, 6},
	{"", 1, 1},
};

/* _i: of shapes, with free links and with such that take a while, under every schedule. */
START_TEST(every_replica_is_the_schedule_on_fewer_workers)
{
	int n_tried = 0;

	for (int i = 0; i < 2 * count_schedules(); i++) {
		int r = 2 + i % 2;
		struct orr_machine machine = orr_machine_default(shapes[_i].n_workers);
		struct orr_pipeline *p = make(shapes[_i].edges, shapes[_i].n_stages, r);
		struct orr_pipeline *q = make(shapes[_i].edges, shapes[_i].n_stages, 1);
		const char *schedule = quick_schedule(i / 2);
		struct way all = {0}, one = {0};

		machine.bandwidth_bytes_per_s = i % 2 ? RATE : 0;
		if (way_try_on(&one, q, schedule, &machine, M) && !one.tried.jobs->async) {
			const struct orr_figures *f = one.tried.figures;

			machine.n_workers *= r;
			way_init_on(&all, p, schedule, &machine, r * M);
			for (int k = 0; k < r; k++)
				check_replica(&all, &one, k, r);
			ck_assert_int_ge(all.tried.figures->makespan_ns, f->makespan_ns);
			if (i % 2 == 0)
				ck_assert_int_eq(all.tried.figures->makespan_ns, f->makespan_ns);
			ck_assert_int_eq(all.tried.figures->lower_bound_ns, f->lower_bound_ns);
			way_fini(&all);
			n_tried++;
		}
		if (one.tried.jobs)
			way_fini(&one);
		orr_pipeline_destroy(p);
		orr_pipeline_destroy(q);
	}
	ck_assert_int_ge(n_tried, _i == 3 ? 20 : 30);
}
END_TEST

/* After the base's step: a ring of 2 (r - 1) / r of 4000 bytes, and the update. */
START_TEST(a_step_is_that_of_one_with_a_ring)
{
	static const struct {
		const char *schedule;
		int makespan; /* of 8 microbatches of F + B = 6 on 4 workers; zb-h1 and zb-v: F 2, B
				 3, W 1 */
	} rows[] = {{"gpipe", 8 * 6 + 3 * 6}, {"1f1b", 8 * 6 + 3 * 6}, {"zb-h1", 8 * 6 + 12}};

	for (int i = 0; i < N_OF(rows); i++)
		for (int r = 2; r <= 4; r += 2)
			for (int update = 0; update < 6; update += 5) {
				struct orr_machine machine = orr_machine_default(4 * r);
				struct orr_pipeline *p = make(shapes[0].edges, 4, r);
				int64_t bytes = 2 * (r - 1) * 4000 / r;
				struct way way;

				machine.bandwidth_bytes_per_s = RATE;
				for (int s = 0; s < 4; s++)
					p->stages[s].update_ns = update * ORR_UNIT_NS;
				way_init_on(&way, p, rows[i].schedule, &machine, r * M);
				ck_assert_int_eq(way.tried.figures->makespan_ns,
						 (rows[i].makespan + update) * ORR_UNIT_NS +
							 bytes * ORR_UNIT_NS / 4000);
				for (int w = 0; w < 4 * r; w++)
					ck_assert_int_eq(
						way.tried.figures->worker[w].all_reduce_bytes,
						bytes);
				ck_assert_int_eq(way.tried.timeline->n_transfers,
						 4 + r * 3 * 2 * M);
				way_fini(&way);
				orr_pipeline_destroy(p);
			}
}
END_TEST

/* Whatever serves one worker, with and without a divided optimizer. */
START_TEST(a_pipeline_of_one_stage_is_data_parallel)
{
	static const char *const schedules[] = {"gpipe", "1f1b", "ddp", "interleaved"};

	for (int i = 0; i < N_OF(schedules); i++) {
		struct orr_machine machine = {
			.n_workers = 4, .latency_ns = ORR_UNIT_NS, .bandwidth_bytes_per_s = RATE};
		struct orr_pipeline *p = make("", 1, 4), *q = make("", 1, 1);
		struct orr_figures *f;
		struct way way, ddp;

		p->numerics.shard_optimizer = q->numerics.shard_optimizer = _i;
		p->stages[0].update_ns = q->stages[0].update_ns = 4 * ORR_UNIT_NS;
		way_init_on(&way, p, schedules[i], &machine, 4 * M);
		/* in the order of 1f1b, whose stash is one */
		way_init_on(&ddp, q, "ddp", &machine, 4 * M);
		f = way.tried.figures;
		if (strcmp(schedules[i], "gpipe")) {
			ck_assert_mem_eq(f->worker, ddp.tried.figures->worker,
					 4 * sizeof(*f->worker));
			ck_assert_mem_eq(way.tried.timeline->start_ns, ddp.tried.timeline->start_ns,
					 (size_t)way.tried.jobs->n_jobs * sizeof(int64_t));
		}
		ck_assert_int_eq(f->makespan_ns, ddp.tried.figures->makespan_ns);
		ck_assert_int_eq(f->lower_bound_ns, ddp.tried.figures->lower_bound_ns);
		way_fini(&way);
		way_fini(&ddp);
		orr_pipeline_destroy(p);
		orr_pipeline_destroy(q);
	}
}
END_TEST

/* The first of r replicas alone, as all of them have it. */
static void check_first(const struct way *all, const struct way *first, int r)
{
	const struct orr_figures *f = all->tried.figures, *g = first->tried.figures;
	const struct orr_timeline *t = all->tried.timeline, *u = first->tried.timeline;

	for (int k = 0; k < r; k++)
		for (int j = 0; j < u->jobs->n_jobs; j++) {
			int i = job_in(t->jobs, u->jobs, j, k, r);

			ck_assert_msg(t->start_ns[i] == u->start_ns[j], "%s: %d%c%d",
				      t->jobs->schedule, orr_jobs_at(u->jobs, j).s,
				      orr_pass_letter(orr_jobs_at(u->jobs, j).d),
				      orr_jobs_at(u->jobs, j).b);
			ck_assert_int_eq(t->end_ns[i], u->end_ns[j]);
		}
	ck_assert_int_eq(f->n_workers, r * g->n_workers);
	for (int w = 0; w < f->n_workers; w++) {
		struct orr_worker_figures x = f->worker[w];
		const struct orr_worker_figures *y = &g->worker[w % g->n_workers];

		if (w >= g->n_workers) { /* parts of an optimizer differ by a byte or so */
			ck_assert_int_le(x.optimizer_bytes, y->optimizer_bytes);
			ck_assert_int_le(x.memory_bytes, y->memory_bytes);
			x.optimizer_bytes = y->optimizer_bytes;
			x.memory_bytes = y->memory_bytes;
		}
		ck_assert_mem_eq(&x, y, sizeof(x));
	}
	ck_assert_int_eq(f->makespan_ns, g->makespan_ns);
	ck_assert_int_eq(f->span_ns, g->span_ns);
	ck_assert_int_eq(f->lower_bound_ns, g->lower_bound_ns);
	ck_assert_double_eq_tol(f->bubble, g->bubble, 1e-12);
	ck_assert_double_eq_tol(f->throughput, g->throughput, 1e-12);
	ck_assert_double_eq_tol(f->throughput_bound, g->throughput_bound, 1e-12);
	ck_assert_int_eq(t->n_updates, r * u->n_updates);
	for (int i = 0, n = 0; i < t->n_transfers; i++) { /* rings are in the same order */
		if (t->transfers[i].kind != ORR_TRANSFER_ALL_REDUCE)
			continue;
		while (u->transfers[n].kind != ORR_TRANSFER_ALL_REDUCE)
			n++;
		ck_assert_int_eq(t->transfers[i].set, u->transfers[n].set);
		ck_assert_int_eq(t->transfers[i].to, u->transfers[n].to);
		ck_assert_int_eq(t->transfers[i].start_ns, u->transfers[n].start_ns);
		ck_assert_int_eq(t->transfers[i].end_ns, u->transfers[n].end_ns);
		n++;
	}
}

/* Replicas of groups: each a block of workers, which has a part of every stage. */
START_TEST(a_split_graph_has_replicas_of_groups)
{
	static const char *const schedules[] = {"1f1b", "interleaved", "zb-h1", "fsdp"};
	struct orr_machine machine = orr_machine_default(4), links = orr_machine_default(16);
	struct orr_graph *g = read_graph(ORR_SOURCE "/graphs/gpt.dot"), *split = NULL;
	struct orr_pipeline *p = NULL, *q = NULL;
	struct orr_error err = {""};
	struct way all = {0}, one = {0}, first;

	ck_assert_msg(!orr_graph_split(&split, g, "2", &err) &&
			      !orr_partition(&p, split, &machine, 0, 3, &err) &&
			      !orr_partition(&q, split, &machine, 0, 3, &err),
		      "%s", err.msg);
	p->replicas = 2;
	way_init(&one, q, schedules[_i], 8, M);
	way_init(&all, p, schedules[_i], 16, 2 * M);
	ck_assert_int_eq(all.tried.jobs->groups->n, 2 * one.tried.jobs->groups->n);
	for (int r = 0; r < 2; r++)
		for (int j = 0; j < one.tried.jobs->n_jobs; j++) {
			int k = job_in(all.tried.jobs, one.tried.jobs, j, r, 2);

			ck_assert_int_eq(all.tried.jobs->compute[k],
					 8 * r + one.tried.jobs->compute[j]);
			ck_assert_int_eq(all.tried.timeline->start_ns[k],
					 one.tried.timeline->start_ns[j]);
		}
	way_fini(&one);
	way_fini(&all);
	links.bandwidth_bytes_per_s = 1e8;
	way_init_on(&all, p, schedules[_i], &links, 2 * M);
	links.n_workers = 8;
	q->alike = 2;
	way_init_on(&first, q, schedules[_i], &links, M);
	check_first(&all, &first, 2);
	way_fini(&all);
	way_fini(&first);
	orr_pipeline_destroy(p);
	orr_pipeline_destroy(q);
	orr_graph_destroy(split);
}
END_TEST

/* The order is for mean ones, and each takes its own time. */
START_TEST(microbatches_may_differ)
{
	static const int times[] = {1, 5, 2, 4, 3, 3, 4, 2};
	struct orr_pipeline *p = make_differ(make_chain(4, 1, 1), times, N_OF(times));
	struct way way;

	p->replicas = 2;
	way_init(&way, p, quick_schedule(count_schedules() - 1), 8, N_OF(times));
	way_fini(&way);
	way_init(&way, p, "gpipe", 8, N_OF(times));
	for (int j = 0; j < way.tried.jobs->n_jobs; j++) {
		struct orr_job job = orr_jobs_at(way.tried.jobs, j);

		ck_assert_int_eq(way.tried.jobs->compute[j], 4 * (job.b % 2) + job.s);
		ck_assert_int_eq(way.tried.jobs->duration_ns[j], times[job.b] * ORR_UNIT_NS);
	}
	way_fini(&way);
	orr_pipeline_destroy(p);
}
END_TEST

/* A stage that gathers waits for all of a minibatch, in every replica. */
START_TEST(a_minibatch_is_gathered_from_all)
{
	struct orr_pipeline *p = make("0>1 1>2", 3, 2);
	const struct orr_timeline *t;
	struct way way;

	p->stages[1].gather = true;
	p->stages[1].n_gathers = p->stages[2].n_gathers = 1;
	way_init(&way, p, "gpipe", 6, 2 * M);
	t = way.tried.timeline;
	for (int b = 0; b < 2 * M; b++)
		ck_assert_int_ge(t->start_ns[orr_jobs_index(t->jobs, 1, b, ORR_PASS_F)],
				 2 * M * ORR_UNIT_NS);
	way_fini(&way);
	orr_pipeline_destroy(p);
}
END_TEST

/* ---- one for all ---- */

static const struct orr_levels levels = {
	3, {2, 4, 64}, {4 * RATE, RATE, RATE / 3}, {0, ORR_UNIT_NS / 7, ORR_UNIT_NS / 3}};

/* _i: of shapes, and the number of replicas; under every schedule, on links alike and by level,
 * with updates that take time, and every other time a divided optimizer. */
START_TEST(replicas_that_are_alike_are_simulated_once)
{
	static const int sizes[] = {64, 128, 256};
	int shape = _i % N_OF(shapes), n_tried = 0;
	int n = shapes[shape].n_workers, r = sizes[_i / N_OF(shapes)] / n;

	for (int i = 0; i < count_schedules(); i++) {
		struct orr_pipeline *p = make(shapes[shape].edges, shapes[shape].n_stages, r);
		struct orr_pipeline *q = make(shapes[shape].edges, shapes[shape].n_stages, 1);
		struct orr_machine machine = orr_machine_default(n * r);
		struct orr_choice choice;
		struct way all, first;

		ck_assert(!orr_choice_init(&choice, quick_schedule(i), NULL));
		machine.latency_ns = ORR_UNIT_NS / 5;
		machine.bandwidth_bytes_per_s = RATE;
		if (i % 3 == 0)
			machine.levels = levels;
		p->numerics.shard_optimizer = q->numerics.shard_optimizer = i % 2;
		for (int s = 0; s < p->n_stages; s++)
			p->stages[s].update_ns = q->stages[s].update_ns = (s + 3) * ORR_UNIT_NS / 2;
		if (!choice.schedule.asynchronous &&
		    way_try_on(&all, p, quick_schedule(i), &machine, r * M)) {
			ck_assert(orr_replicas_are_alike(p) || i % 3 == 0);
			if (orr_replicas_are_alike(p)) {
				machine.n_workers = n;
				q->alike = r;
				way_init_on(&first, q, quick_schedule(i), &machine, M);
				check_first(&all, &first, r);
				way_fini(&first);
				n_tried++;
			}
			way_fini(&all);
		}
		orr_choice_fini(&choice);
		orr_pipeline_destroy(p);
		orr_pipeline_destroy(q);
	}
	ck_assert_int_ge(n_tried, shape == 3 ? 8 : 11);
}
END_TEST

/* A tensor-parallel group of 8, 8 groups with 8 stages each, and 8 replicas, two of which are of a
 * context: as graphs/studies/llama_405b.dot on 512 workers, with a layer a stage. */
START_TEST(a_language_model_on_512_workers_is_its_first_replica)
{
	static const char layers[] = "repeat=126";
	struct orr_machine machine = orr_machine_default(512);
	struct orr_graph *g = NULL, *split = NULL;
	struct orr_pipeline *p = NULL, *q = NULL;
	struct orr_error err = {""};
	struct way all, first;
	char *text = NULL, *at;

	ck_assert_msg(!orr_input_read(&text, NULL, ORR_SOURCE "/graphs/studies/llama_405b.dot", "",
				      &err) &&
			      (at = strstr(text, layers)),
		      "%s", err.msg);
	memcpy(at, "repeat=62 ", strlen(layers));
	machine.flops_per_s = 500e12;
	machine.levels = (struct orr_levels){2, {8, 512}, {450e9, 50e9}, {0, 2000}};
	ck_assert_msg(!orr_graph_parse(&g, "llama", text, &err), "%s", err.msg);
	orr_graph_set_precision(g, ORR_PRECISION_BF16);
	ck_assert_msg(!orr_graph_split(&split, g, "8", &err) &&
			      !orr_partition(&p, split, &machine, 64, 1, &err) &&
			      !orr_partition(&q, split, &machine, 64, 1, &err),
		      "%s", err.msg);
	p->replicas = q->alike = 8;
	p->numerics.shard_optimizer = q->numerics.shard_optimizer = true;
	way_init_on(&all, p, "interleaved", &machine, 64);
	machine.n_workers = 64;
	way_init_on(&first, q, "interleaved", &machine, 8);
	check_first(&all, &first, 8);
	way_fini(&all);
	way_fini(&first);
	orr_pipeline_destroy(p);
	orr_pipeline_destroy(q);
	orr_graph_destroy(split);
	free(text);
}
END_TEST

/* Of workers, links and microbatches that differ, and where workers send one thing at a time. */
START_TEST(replicas_that_differ_are_all_simulated)
{
	static const struct {
		const char *machine;
		int n_workers;
		bool alike;
	} rows[] = {
		{"graph { bandwidth=\"1MB/s\"; a [repeat=8] }", 8, true},
		{"graph { bandwidth=\"1MB/s\"; a [repeat=4]; b [repeat=4, speed=2] }", 8, false},
		{"graph { bandwidth=\"1MB/s\"; ports=true; a [repeat=8] }", 8, false},
		{"graph { bandwidth=\"1MB/s\"; a [repeat=8] }", 6, true},
		{"graph { bandwidth=\"1MB/s\"; a [repeat=8] }", 7, false},
		{"graph { bandwidth=\"1MB/s\"; subgraph x { bandwidth=\"2MB/s\"; a [repeat=4] } b "
		 "[repeat=4] }",
		 8, false},
		{"graph { bandwidth=\"1MB/s\"; subgraph x { bandwidth=\"2MB/s\"; a [repeat=4] } "
		 "subgraph y { bandwidth=\"2MB/s\"; b [repeat=4] } }",
		 8, true},
	};
	struct orr_pipeline *p = make(shapes[0].edges, 4, 2);
	struct orr_cluster *cluster = parse_cluster("%s", rows[_i].machine);

	p->machine = orr_machine_of(cluster, rows[_i].n_workers);
	ck_assert(!orr_pipeline_set_step(p, rows[_i].n_workers, M, NULL));
	ck_assert(orr_replicas_are_alike(p) == rows[_i].alike);
	ck_assert(!orr_pipeline_set_step(p, rows[_i].n_workers, M + 1, NULL));
	ck_assert(!orr_replicas_are_alike(p));
	orr_pipeline_destroy(p);
	orr_cluster_destroy(cluster);
}
END_TEST

/* Sums over 16,384 workers of sizes that are large. */
START_TEST(sixteen_thousand_workers_are_counted)
{
	struct orr_machine machine = orr_machine_default(64);
	struct orr_pipeline *p = make_pipeline(
		64, "0>1 1>2 2>3 3>4 4>5 5>6 6>7 7>8 8>9 9>10 10>11 11>12 12>13 13>14 14>15 15>16",
		1, 2, 0, INT64_C(1) << 30, INT64_C(50000000000), INT64_C(1) << 28);
	struct way way;

	p->alike = 256;
	machine.bandwidth_bytes_per_s = 1e12;
	way_init_on(&way, p, "1f1b", &machine, 64);
	for (int w = 0; w < 64; w++) {
		const struct orr_worker_figures *f = &way.tried.figures->worker[w];

		ck_assert_int_eq(f->all_reduce_bytes, 2 * 255 * (INT64_C(50000000000) / 256) +
							      2 * 255 * (50000000000 % 256) / 256);
		ck_assert_int_eq(f->parameter_bytes, INT64_C(50000000000));
	}
	ck_assert_int_eq(orr_jobs_ring(way.tried.jobs, 63)[255], 16383);
	way_fini(&way);
	orr_pipeline_destroy(p);
}
END_TEST

static int refuse(struct orr_pipeline *p, const char *schedule, int n_workers, int m, char *msg)
{
	struct orr_error err = {""};
	struct orr_choice choice;
	struct orr_jobs *jobs = NULL;
	int code;

	ck_assert(!orr_pipeline_set_step(p, n_workers, m, NULL));
	ck_assert(!orr_choice_init(&choice, schedule, NULL));
	code = orr_jobs_create(&jobs, p, &choice.schedule, &err);
	strcpy(msg, err.msg);
	orr_jobs_destroy(jobs);
	orr_choice_fini(&choice);
	return code;
}

START_TEST(what_cannot_be_divided_is_refused)
{
	static const struct {
		const char *schedule;
		int n_workers, m, gang;
		const char *says;
	} rows[] = {
		{"1f1b", 10, 12, 0,
		 "[replicas] 4, of as many workers each, and there are 10: set [workers] 12"},
		{"1f1b", 8, 10, 0,
		 "[replicas] 4, of as many microbatches each, and there are 10: set [microbatches] "
		 "12"},
		{"1f1b", 8, 12, 2,
		 "[replicas] 4: stage 0 is on a gang of workers (gang=), of which there is one: "
		 "leave one of them out"},
		{"pipedream", 8, 12, 0,
		 "[replicas] 4: schedule pipedream never flushes, so whole replicas would be at "
		 "different versions: give its stages replicas, as in pipedream:replicas=2-2, or "
		 "take a schedule that flushes"},
		{"interleaved", 12, 12, 0,
		 "interleaved: 4 stages on 3 workers: every worker takes as many; set [workers] to "
		 "a divisor of the stages, or cut the model into a multiple of the workers (in "
		 "each of 4 replicas, of 3 workers: 4 times that in all)"},
	};
	struct orr_pipeline *p = make(shapes[0].edges, 4, 4);
	char msg[512];

	p->stages[0].gang.n = rows[_i].gang;
	ck_assert_int_eq(refuse(p, rows[_i].schedule, rows[_i].n_workers, rows[_i].m, msg),
			 ORR_E_INPUT);
	ck_assert_str_eq(msg, rows[_i].says);
	orr_pipeline_destroy(p);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(every_replica_is_the_schedule_on_fewer_workers, N_OF(shapes)),
	ONCE(a_step_is_that_of_one_with_a_ring),
	EACH(a_pipeline_of_one_stage_is_data_parallel, 2),
	EACH(a_split_graph_has_replicas_of_groups, 4),
	ONCE(microbatches_may_differ),
	ONCE(a_minibatch_is_gathered_from_all),
	EACH(replicas_that_are_alike_are_simulated_once, 3 * N_OF(shapes)),
	ONCE(a_language_model_on_512_workers_is_its_first_replica),
	EACH(replicas_that_differ_are_all_simulated, 7),
	ONCE(sixteen_thousand_workers_are_counted),
	EACH(what_cannot_be_divided_is_refused, 5),
};
SUITE("replicas")
