/* What a parameter costs: closed forms for every optimizer and precision, alone, in the figures of
 * schedules that keep parameters differently, and at the limit of what a planner and a search take.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/graph.h"
#include "pipeline/parameter_cost.h"
#include "graphs.h"
#include "pipelines.h"
#include "orrery/plan.h"
#include "orrery/search.h"
#include "suite.h"

static const struct {
	struct orr_numerics numerics;
	int optimizer, rounded; /* bytes; the weights and their gradient take 4 each */
	const char *text;
} costs[] = {
	{{ORR_OPTIMIZER_ADAMW, ORR_PRECISION_FP32, false},
	 8,
	 0,
	 "16 B a parameter: 4 weights, 4 gradient, 8 adamw"},
	{{ORR_OPTIMIZER_ADAM, ORR_PRECISION_FP32, false},
	 8,
	 0,
	 "16 B a parameter: 4 weights, 4 gradient, 8 adam"},
	{{ORR_OPTIMIZER_MOMENTUM, ORR_PRECISION_FP32, false},
	 4,
	 0,
	 "12 B a parameter: 4 weights, 4 gradient, 4 momentum"},
	{{ORR_OPTIMIZER_SGD, ORR_PRECISION_FP32, false},
	 0,
	 0,
	 "8 B a parameter: 4 weights, 4 gradient, 0 sgd"},
	{{ORR_OPTIMIZER_NONE, ORR_PRECISION_FP32, false},
	 0,
	 0,
	 "8 B a parameter: 4 weights, 4 gradient, 0 none"},
	{{ORR_OPTIMIZER_ADAMW, ORR_PRECISION_TF32, false},
	 8,
	 0,
	 "16 B a parameter: 4 weights, 4 gradient, 8 adamw"},
	{{ORR_OPTIMIZER_MOMENTUM, ORR_PRECISION_TF32, false},
	 4,
	 0,
	 "12 B a parameter: 4 weights, 4 gradient, 4 momentum"},
	{{ORR_OPTIMIZER_ADAMW, ORR_PRECISION_BF16, false},
	 8,
	 2,
	 "18 B a parameter: 4 weights, 4 gradient, 8 adamw, 2 rounded to bf16"},
	{{ORR_OPTIMIZER_MOMENTUM, ORR_PRECISION_BF16, false},
	 4,
	 2,
	 "14 B a parameter: 4 weights, 4 gradient, 4 momentum, 2 rounded to bf16"},
	{{ORR_OPTIMIZER_SGD, ORR_PRECISION_BF16, false},
	 0,
	 2,
	 "10 B a parameter: 4 weights, 4 gradient, 0 sgd, 2 rounded to bf16"},
};

START_TEST(a_parameter_costs_what_the_run_keeps_of_it)
{
	const struct orr_numerics *numerics = &costs[_i].numerics;
	const struct orr_parameter_cost cost = orr_parameter_cost(numerics);

	ck_assert_int_eq(cost.weights, 4);
	ck_assert_int_eq(cost.gradient, 4);
	ck_assert_int_eq(cost.optimizer, costs[_i].optimizer);
	ck_assert_int_eq(cost.rounded, costs[_i].rounded);
	ck_assert_int_eq(cost.all, 8 + costs[_i].optimizer + costs[_i].rounded);
	ck_assert_str_eq(orr_parameter_cost_text(numerics), costs[_i].text);
	/* 1000 parameters */
	ck_assert_int_eq(orr_parameters_owned(numerics, 4000, 4000, 4000),
			 8000 + 1000 * costs[_i].optimizer);
	ck_assert_int_eq(orr_parameters_rounded(numerics, 4000), 1000 * costs[_i].rounded);
	ck_assert_int_eq(orr_parameters_kept(numerics, 4000, 4000, 1), 1000 * cost.all);
	ck_assert_int_eq(orr_parameters_kept(numerics, 4000, 4000, 2), 1000 * cost.all + 4000);
	/* no size is lost to the division by 4 */
	for (int64_t bytes = 0; bytes < 9; bytes++)
		ck_assert_int_eq(orr_parameters_rounded(numerics, bytes),
				 (bytes * costs[_i].rounded + 3) / 4);
	ck_assert_int_eq(orr_parameters_owned(numerics, INT64_C(1) << 60, INT64_C(1) << 60,
					      INT64_C(1) << 60),
			 ((int64_t)8 + costs[_i].optimizer) << 58);
}
END_TEST

/* Of 10 floats and of 9 and a half, which a study may have. */
START_TEST(replicas_divide_the_state_to_the_float)
{
	static const int64_t parts[][4] = {{12, 12, 8, 8}, {12, 12, 8, 8}};

	for (int k = 0; k < N_OF(costs); k++) {
		struct orr_numerics numerics = costs[k].numerics;

		ck_assert_int_eq(orr_parameters_part(&numerics, 40, 4, 1), 40);
		numerics.shard_optimizer = true;
		ck_assert_int_eq(orr_parameters_part(&numerics, 40, 1, 0), 40);
		for (int i = 0; i < 4; i++) {
			ck_assert_int_eq(orr_parameters_part(&numerics, 40, 4, i), parts[0][i]);
			ck_assert_int_eq(orr_parameters_part(&numerics, 38, 4, i), parts[1][i]);
		}
		ck_assert_int_eq(orr_parameters_part(&numerics, 3, 2, 0), 3);
		ck_assert_int_eq(orr_parameters_part(&numerics, 3, 2, 1), 0);
		/* of 1000 parameters, and the sum of gradients */
		ck_assert_int_eq(orr_parameters_kept(&numerics, 4000, 4000, 4),
				 12000 + 250 * costs[k].optimizer + 1000 * costs[k].rounded);
	}
}
END_TEST

/* Eight stages of 4000 bytes of parameters each; what worker 0 keeps of them, in stages' worth of
 * weights. */
static const struct {
	const char *schedule;
	int n_workers;
	int owned, computed, copies, versions; /* stages */
} kept[] = {
	{"1f1b", 8, 1, 1, 0, 0},
	{"1f1b", 4, 2, 2, 0, 0},
	/* the sum of the gradients goes round */
	{"ddp", 4, 8, 8, 8, 0},
	/* parameters for 3 jobs, gradients of 3 for others, 2 from others, 1 of its own until it is
	   added */
	{"fsdp", 4, 2, 8, 3 + 3 + 2 + 1, 0},
	{"chimera", 8, 2, 2, 2, 0},
	/* 8 microbatches on their way back: 7 versions that are older */
	{"pipedream", 8, 1, 1, 0, 7},
};

START_TEST(figures_count_what_a_worker_keeps)
{
	for (int i = 0; i < N_OF(costs); i++) {
		struct orr_pipeline *p = make_whole_chain(8, 1, 2, 0, 10, 4000, 0);
		const struct orr_worker_figures *f;
		struct way way;

		p->numerics = costs[i].numerics;
		way_init(&way, p, kept[_i].schedule, kept[_i].n_workers, 16);
		f = &way.tried.figures->worker[0];
		ck_assert_int_eq(f->parameter_bytes, 4000 * kept[_i].owned);
		ck_assert_int_eq(f->optimizer_bytes, 1000 * costs[i].optimizer * kept[_i].owned);
		ck_assert_int_eq(f->rounded_bytes, 1000 * costs[i].rounded * kept[_i].computed);
		ck_assert_int_eq(f->copy_bytes, 4000 * kept[_i].copies);
		ck_assert_int_eq(f->version_bytes, 4000 * kept[_i].versions);
		ck_assert_int_eq(f->memory_bytes, 2 * f->parameter_bytes + f->optimizer_bytes +
							  f->rounded_bytes + f->copy_bytes +
							  f->version_bytes + f->peak_stash_bytes);
		way_end(&way);
	}
}
END_TEST

/* Two stages of 3000 parameters, each of which needs a worker: nothing less than the limit, nothing
 * more. */
START_TEST(a_plan_fits_its_limit_and_not_a_byte_less)
{
	static const char text[] = "digraph g {\n"
				   "a [forward=1 backward=2 parameters=\"12kB\" stash=\"100B\"]\n"
				   "b [forward=1 backward=2 parameters=\"12kB\" stash=\"100B\"]\n"
				   "a -> b }\n";
	struct orr_plan_options o = {
		.n_microbatches = 4, .straight = true, .numerics = costs[_i].numerics};
	struct orr_parameter_cost cost = orr_parameter_cost(&costs[_i].numerics);
	struct orr_graph *g = parse_graph(text);
	struct orr_plan *plan;
	char cure[64];

	o.memory_bytes = 3000 * cost.all + 100;
	plan = make_plan(g, "2", NULL, o);
	ck_assert_int_eq(plan->pipeline->n_stages, 2);
	ck_assert_int_eq(plan->tried.figures->worker[0].memory_bytes, o.memory_bytes);
	orr_plan_destroy(plan);
	o.memory_bytes--;
	(void)snprintf(cure, sizeof(cure), "what fits is [memory] %dB", 3000 * cost.all + 100);
	ASSERT_HAS(refuse_plan(g, "2", o), cure);
	orr_graph_destroy(g);
}
END_TEST

/* One microbatch beside the parameters is what a search needs. */
START_TEST(a_search_takes_its_limit_and_not_a_byte_less)
{
	struct orr_search_options options = {.schedules = orr_schedules,
					     .effort = 1,
					     .seed = 1,
					     .placement = ORR_PLACEMENT_STRAIGHT};
	struct orr_pipeline *p = make_whole_chain(2, 1, 1, 1, 10, 4000, 0);
	struct orr_error err = {""};
	int64_t n[2 * 4 * 3];
	int worker[2];

	p->numerics = costs[_i].numerics;
	ck_assert(!orr_pipeline_set_step(p, 2, 4, &err));
	options.memory_bytes = orr_parameters_kept(&p->numerics, 4000, 4000, 1) + 10;
	ck_assert_msg(!orr_search(worker, n, NULL, p, &options, &err), "%s", err.msg);
	options.memory_bytes--;
	ck_assert_int_eq(orr_search(worker, n, NULL, p, &options, &err), ORR_E_INPUT);
	orr_pipeline_destroy(p);
}
END_TEST

START_TEST(names_are_read_as_they_are_printed)
{
	enum orr_optimizer optimizer;
	enum orr_precision precision;
	struct orr_error err;

	for (int i = 0; i < ORR_N_OPTIMIZERS; i++) {
		ck_assert(!orr_optimizer_parse(
			&optimizer, orr_optimizer_name((enum orr_optimizer)i), "o", &err));
		ck_assert_int_eq((int)optimizer, i);
	}
	for (int i = 0; i < ORR_N_PRECISIONS; i++) {
		ck_assert(!orr_precision_parse(
			&precision, orr_precision_name((enum orr_precision)i), "p", &err));
		ck_assert_int_eq((int)precision, i);
	}
	ck_assert_int_eq(orr_optimizer_parse(&optimizer, "sdg", "--optimizer", &err), ORR_E_INPUT);
	ck_assert_str_eq(err.msg, "--optimizer: no 'sdg' (did you mean sgd?): there are adamw, "
				  "adam, momentum, sgd and none");
	ck_assert_int_eq(orr_precision_parse(&precision, "fp16", "--precision", &err), ORR_E_INPUT);
	ck_assert_str_eq(err.msg, "--precision: no 'fp16': there are fp32, tf32 and bf16");
}
END_TEST

static const struct suite_test tests[] = {
	EACH(a_parameter_costs_what_the_run_keeps_of_it, N_OF(costs)),
	ONCE(replicas_divide_the_state_to_the_float),
	EACH(figures_count_what_a_worker_keeps, N_OF(kept)),
	EACH(a_plan_fits_its_limit_and_not_a_byte_less, N_OF(costs)),
	EACH(a_search_takes_its_limit_and_not_a_byte_less, N_OF(costs)),
	ONCE(names_are_read_as_they_are_printed),
};
SUITE("parameter-cost")
