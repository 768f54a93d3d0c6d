/* Operators measured on a device: an emulated one, whose kernels take the place of CUDA's, so times
 * say nothing here. What counts is that every part of every operator ran there. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graphs.h"
#include "orrery/machine.h"
#include "pipeline/partition.h"
#include "orrery/pipeline.h"
#include "runtime/run/profile.h"
#include "runtime/devices/alone.h"
#include "staged.h"
#include "suite.h"

#define SAMPLES 4

static const char *const text = "digraph {"
				" x [op=input columns=\"0:8\"]; y [op=input columns=\"8\"];"
				" a [op=linear features=12]; n [op=layernorm]; g [op=gelu];"
				" b [op=linear features=12]; s [op=add]; c [op=linear features=3];"
				" l [op=softmax_cross_entropy];"
				" x -> a -> n -> g -> b -> s -> c -> l; a -> s; y -> l; }";

/* What was done on the device, in place of its own kernels. */
static struct orr_kernels counting;
static struct orr_linear_kernels linear;
static struct orr_optimizer_kernels optimizer;
static const struct orr_kernels *real;
static int n_waits, n_kept, n_rounded_again, n_steps;

/* How many allocations and, unless it is 0, updates there are before one fails. */
static int allocations_left, updates_left;

static void *allocate(size_t bytes)
{
	return allocations_left-- > 0 ? real->allocate(bytes) : NULL;
}

static void failing_step(struct orr_device *d, const struct orr_rule *rule, int64_t number,
			 int64_t n, float *parameters, float *state, const float *const *blocks,
			 int n_blocks, bool summed)
{
	if (--updates_left > 0)
		real->optimizer->step(d, rule, number, n, parameters, state, blocks, n_blocks,
				      summed);
	else
		d->failure = "CUDA, step: unspecified launch failure";
}

static void wait(struct orr_device *d)
{
	n_waits++;
	real->wait(d);
}

static void linear_forward(struct orr_device *d, int64_t n, int64_t in, int64_t out, const float *x,
			   const float *w, const void *rounded, const float *bias, float *y)
{
	n_kept += rounded != NULL;
	n_rounded_again += !rounded && d->precision == ORR_PRECISION_BF16;
	real->linear->forward(d, n, in, out, x, w, rounded, bias, y);
}

static void step(struct orr_device *d, const struct orr_rule *rule, int64_t number, int64_t n,
		 float *parameters, float *state, const float *const *blocks, int n_blocks,
		 bool summed)
{
	n_steps++;
	real->optimizer->step(d, rule, number, n, parameters, state, blocks, n_blocks, summed);
}

/* What measuring asks for is the emulated device, whatever this machine has. */
int orr_alone_init(struct orr_alone *alone, enum orr_hardware hardware,
		   enum orr_precision precision, struct orr_error *err)
{
	(void)hardware;
	(void)err;
	*alone = (struct orr_alone){.device = staged_device(precision)};
	real = alone->device.kernels;
	counting = *real;
	counting.wait = wait;
	linear = *real->linear;
	linear.forward = linear_forward;
	counting.linear = &linear;
	optimizer = *real->optimizer;
	optimizer.step = updates_left > 0 ? failing_step : step;
	counting.optimizer = &optimizer;
	counting.allocate = updates_left > 0 ? allocate : real->allocate;
	alone->device.kernels = &counting;
	n_waits = n_kept = n_rounded_again = n_steps = 0;
	return 0;
}

void orr_alone_fini(struct orr_alone *alone)
{
	ck_assert_ptr_null(alone->device.workspace);
	alone->device.failure = NULL; /* of a test's own */
	updates_left = 0;
	staged_device_fini(&alone->device);
}

static struct orr_pipeline *each_apart(const struct orr_graph *g)
{
	struct orr_machine machine = orr_machine_default(1);
	struct orr_pipeline *p = NULL;
	struct orr_error err = {""};

	ck_assert_msg(!orr_partition_apart(&p, g, &machine, SAMPLES, &err), "%s", err.msg);
	ck_assert_msg(!orr_pipeline_set_step(p, 1, 2, &err), "%s", err.msg);
	return p;
}

static void check_measured(const struct orr_pipeline *p)
{
	for (int s = 0; s < p->n_stages; s++) {
		const struct orr_stage *stage = &p->stages[s];

		ck_assert_int_gt(stage->forward_ns, 0);
		ck_assert_int_gt(stage->backward_ns + stage->weight_ns, 0);
		ck_assert_int_eq(stage->update_ns > 0, stage->parameter_bytes > 0);
		ck_assert_int_lt(stage->forward_ns, INT64_C(600000000000));
	}
}

static const struct {
	enum orr_precision precision;
	const char *says;
} cases[] = {{ORR_PRECISION_FP32, "cuda, fp32"},
	     {ORR_PRECISION_TF32, "cuda, tf32"},
	     {ORR_PRECISION_BF16, "cuda, bf16"}};

START_TEST(every_operator_is_measured_on_the_device_and_the_file_says_so)
{
	struct orr_run_options options = orr_run_options_default();
	struct orr_graph *g = parse_graph(text), *back;
	struct orr_pipeline *p = each_apart(g);
	struct orr_error err = {""};
	char *written = NULL, line[40];
	size_t size;
	FILE *file = open_memstream(&written, &size);

	options.batch = 2 * SAMPLES;
	options.precision = cases[_i].precision;
	ck_assert_msg(!orr_run_measure(p, &options, &err), "%s", err.msg);
	check_measured(p);
	/* each of n_waits came after a part, or several, had been started */
	ck_assert_int_ge(n_waits, 3 * 4 * p->n_stages);
	ck_assert_int_ge(n_steps, 3 * 4); /* four operators have parameters */
	ck_assert_int_eq(n_kept > 0, options.precision == ORR_PRECISION_BF16);
	ck_assert_int_eq(n_rounded_again, 0);

	orr_pipeline_note(p, g, SAMPLES);
	ck_assert_int_eq(orr_graph_write_dot(g, file, &err), 0);
	fclose(file);
	(void)snprintf(line, sizeof(line), "\tprofiled=\"%s\";\n", cases[_i].says);
	ck_assert_msg(strstr(written, line) != NULL, "%s", written);
	back = parse_graph(written);
	ck_assert_int_eq(back->profiled.hardware, ORR_HARDWARE_CUDA);
	ck_assert_int_eq(back->profiled.precision, options.precision);
	ck_assert_int_eq(find_operator(back, "b")->weight_ns, find_operator(g, "b")->weight_ns);
	free(written);
	orr_graph_destroy(back);
	orr_pipeline_destroy(p);
	orr_graph_destroy(g);
}
END_TEST

START_TEST(what_the_device_refuses_ends_the_measuring)
{
	struct orr_run_options options = orr_run_options_default();
	struct orr_graph *g = parse_graph(text);
	struct orr_error err = {""};
	int code = 0, n = 0;

	options.batch = 2 * SAMPLES;
	options.precision = ORR_PRECISION_BF16;
	for (; !code && n < 200; n++) {
		struct orr_pipeline *p = each_apart(g);

		allocations_left = n;
		updates_left = 20;
		code = orr_run_measure(p, &options, &err);
		ck_assert_int_eq(p->profiled.hardware, ORR_HARDWARE_AUTO);
		if (code == ORR_E_NOMEM) {
			ck_assert_msg(strstr(err.msg, "measure: no memory for stage") != NULL, "%s",
				      err.msg);
			code = 0;
		}
		orr_pipeline_destroy(p);
	}
	ck_assert_int_gt(n, 12);
	ck_assert_int_eq(code, ORR_E_RUNTIME);
	ck_assert_str_eq(err.msg, "measure: CUDA, step: unspecified launch failure");
	orr_graph_destroy(g);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(every_operator_is_measured_on_the_device_and_the_file_says_so, N_OF(cases)),
	ONCE(what_the_device_refuses_ends_the_measuring),
};
SUITE("measure")
