/* The weights of a model to a safetensors file and back: to the bit, under another schedule, in
 * halves, in part; and what is refused. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/weights.h"
#include "orrery/run.h"
#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "suite.h"
#include "training.h"

static const char file[] = "weights.safetensors"; /* in the folder that the test runs in */

static void start(struct training *t, const char *model, const char *schedule, int n_workers)
{
	memset(t, 0, sizeof(*t));
	ck_assert(!orr_choice_init(&t->choice, schedule, &t->err));
	training_prepare(t, model, &t->choice.schedule, n_workers, 6);
	t->options.batch = 18;
	training_start(t);
}

static void begin(struct training *t, bool partly, const char *said)
{
	char text[400] = "?";

	ck_assert_msg(!orr_run_begin(t->run, file, partly, text, sizeof(text), &t->err), "%s",
		      t->err.msg);
	ck_assert_str_eq(text, said);
}

static void save(struct training *t, const float *parameters)
{
	FILE *out = fopen(file, "wb");

	ck_assert_ptr_nonnull(out);
	ck_assert_msg(!orr_weights_write(out, t->graph, parameters, &t->err), "%s", t->err.msg);
	ck_assert_int_eq(fclose(out), 0);
}

static void teardown(void)
{
	(void)remove(file);
}

static const struct {
	const char *schedule;
	int n_workers;
} ways[] = {{"gpipe", 1}, {"zb-h1", 6}, {"ddp", 3}, {"fsdp", 4}, {"chimera", 6}, {"pipedream", 6}};

START_TEST(a_model_begins_as_another_ended)
{
	struct training t;
	float *trained, *drawn, *begun, *after;
	size_t bytes;

	start(&t, training_model, "1f1b", 3);
	drawn = training_parameters(&t);
	ck_assert_msg(!orr_run_train(t.run, 3, NULL, NULL, &t.err), "%s", t.err.msg);
	trained = training_parameters(&t);
	bytes = (size_t)orr_run_n_parameters(t.run) * sizeof(*trained);
	save(&t, trained);
	training_fini(&t);
	ck_assert_mem_ne(drawn, trained, bytes);
	start(&t, training_model, ways[_i].schedule, ways[_i].n_workers);
	begin(&t, false, "");
	begun = training_parameters(&t);
	ck_assert_mem_eq(begun, trained, bytes);
	/* in every replica, and where the training reads them: a step from the weights as drawn
	 * leads elsewhere */
	ck_assert_msg(!orr_run_train(t.run, 2, NULL, NULL, &t.err), "%s", t.err.msg);
	after = training_parameters(&t);
	ck_assert_mem_ne(after, begun, bytes);
	for (size_t i = 0; i < bytes / sizeof(*after); i++)
		ck_assert_msg(fabsf(after[i] - begun[i]) < 0.01f, "parameter %zu went far", i);
	training_fini(&t);
	free(drawn);
	free(trained);
	free(begun);
	free(after);
}
END_TEST

START_TEST(from_one_file_all_schedules_come_to_the_same)
{
	struct training t;
	float *first = NULL;

	start(&t, training_model, "1f1b", 3);
	ck_assert_msg(!orr_run_train(t.run, 3, NULL, NULL, &t.err), "%s", t.err.msg);
	first = training_parameters(&t);
	save(&t, first);
	free(first);
	first = NULL;
	training_fini(&t);
	for (int i = 0; i < 2; i++) {
		float *parameters;

		start(&t, training_model, ways[i].schedule, ways[i].n_workers);
		begin(&t, false, "");
		ck_assert_msg(!orr_run_train(t.run, 4, NULL, NULL, &t.err), "%s", t.err.msg);
		parameters = training_parameters(&t);
		if (first)
			ck_assert_mem_eq(parameters, first,
					 (size_t)orr_run_n_parameters(t.run) * sizeof(*first));
		free(first);
		first = parameters;
		training_fini(&t);
	}
	free(first);
}
END_TEST

/* ---- files by hand ---- */

static const char small_model[] = "digraph small {\n"
				  "  x [op=input columns=\"0:2\"]\n"
				  "  a [op=linear features=3]\n"
				  "  b [op=linear features=3 share=s]\n"
				  "  c [op=linear features=3 share=s]\n"
				  "  y [op=input columns=\"8:11\"]\n"
				  "  loss [op=mse]\n"
				  "  x -> a -> b -> c -> loss\n"
				  "  y -> loss\n"
				  "}\n";

/* A tensor "NAME DTYPE SHAPE" and its first number as bits; the others count up from there, in
 * steps that all of these types have. */
struct tensor {
	const char *name, *dtype, *shape;
	int n, width; /* numbers, bytes of one */
	double first;
};

static uint64_t bits_of(const char *dtype, double x)
{
	float single = (float)x;
	uint32_t bits;
	uint64_t wide;

	memcpy(&bits, &single, sizeof(bits));
	memcpy(&wide, &x, sizeof(wide));
	if (!strcmp(dtype, "BF16"))
		return bits >> 16;
	if (!strcmp(dtype, "F16")) /* of normal ones */
		return (bits >> 16 & 0x8000) | ((bits >> 23 & 255) - 112) << 10 |
		       (bits >> 13 & 1023);
	return !strcmp(dtype, "F32") ? bits : wide;
}

static void write_file(const struct tensor *tensors, int n)
{
	FILE *out = fopen(file, "wb");
	char header[2000];
	size_t length = 0;
	uint64_t size;
	int at = 0;

	for (int i = 0; i < n; i++) {
		const struct tensor *t = &tensors[i];

		length += (size_t)snprintf(header + length, sizeof(header) - length,
					   "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],"
					   "\"data_offsets\":[%d,%d]}",
					   i ? "," : "{", t->name, t->dtype, t->shape, at,
					   at + t->n * t->width);
		at += t->n * t->width;
	}
	length += (size_t)snprintf(header + length, sizeof(header) - length, "}");
	size = length;
	ck_assert_ptr_nonnull(out);
	ck_assert_uint_eq(fwrite(&size, sizeof(size), 1, out), 1);
	ck_assert_uint_eq(fwrite(header, length, 1, out), 1);
	for (int i = 0; i < n; i++)
		for (int k = 0; k < tensors[i].n; k++) {
			uint64_t bits = bits_of(tensors[i].dtype, tensors[i].first + k * 0.5);

			ck_assert_uint_eq(fwrite(&bits, (size_t)tensors[i].width, 1, out), 1);
		}
	ck_assert_int_eq(fclose(out), 0);
}

#define A_WEIGHT \
	{ \
		"a.weight", "F16", "3,2", 6, 2, 1 \
	}
#define A_BIAS \
	{ \
		"a.bias", "BF16", "3", 3, 2, -2 \
	}
#define B_WEIGHT \
	{ \
		"b.weight", "F64", "3,3", 9, 8, 3 \
	}
#define B_BIAS \
	{ \
		"b.bias", "F32", "3", 3, 4, 0.25 \
	}

START_TEST(halves_and_doubles_become_floats)
{
	static const struct tensor whole[] = {
		B_BIAS, A_WEIGHT, B_WEIGHT, A_BIAS, {"a.weight.first_moment", "F32", "6", 6, 4, 0}};
	static const double firsts[] = {1, -2, 3, 0.25, 3, 0.25}; /* c has those of b */
	static const int counts[] = {6, 3, 9, 3, 9, 3};
	struct training t;
	float *parameters, *at;

	write_file(whole, N_OF(whole));
	start(&t, small_model, "1f1b", 2);
	begin(&t, false, "");
	at = parameters = training_parameters(&t);
	for (int i = 0; i < 6; i++)
		for (int k = 0; k < counts[i]; k++, at++)
			ck_assert_msg(fabs((double)*at - firsts[i] - 0.5 * k) <= 0, "%d: %g", i,
				      (double)*at);
	ck_assert_int_eq(at - parameters, orr_run_n_parameters(t.run));
	free(parameters);
	training_fini(&t);
}
END_TEST

START_TEST(a_part_may_do_where_it_is_said)
{
	static const struct tensor part[] = {A_WEIGHT, {"head.bias", "F32", "2", 2, 4, 0}, A_BIAS};
	struct training t;
	float *drawn, *begun;

	write_file(part, N_OF(part));
	start(&t, small_model, "1f1b", 2);
	drawn = training_parameters(&t);
	begin(&t, true,
	      "weights.safetensors: lacks 2 of the model's tensors (b.weight, b.bias), which begin "
	      "as they would without it; 1 left over (head.bias)");
	begun = training_parameters(&t);
	ck_assert(begun[0] >= 1 && begun[0] <= 1 && begun[6] <= -2);
	ck_assert_mem_eq(begun + 9, drawn + 9, 24 * sizeof(*drawn));
	ck_assert_int_eq(orr_run_begin(t.run, file, false, NULL, 0, &t.err), ORR_E_INPUT);
	ck_assert_str_eq(t.err.msg,
			 "weights.safetensors: lacks 2 of the model's tensors (b.weight, b.bias): "
			 "give [init-partly] to begin with what is there");
	free(drawn);
	free(begun);
	training_fini(&t);
}
END_TEST

#define EQUAL ": make them equal, or take it out of the file and give [init-partly]"

static const struct {
	struct tensor tensors[5];
	int n;
	const char *message;
} refused[] = {
	{{A_WEIGHT, A_BIAS, B_WEIGHT, B_BIAS, {"c.gain", "F32", "1", 1, 4, 0}},
	 5,
	 "1 left over that the model has not (c.gain): give [init-partly] to leave them"},
	{{A_WEIGHT, A_BIAS, {"b.weight", "F32", "9", 9, 4, 0}, B_BIAS},
	 4,
	 "'b.weight' is 9 there and 3 x 3 in the model" EQUAL},
	{{{"a.weight", "F32", "2,3", 6, 4, 0}, A_BIAS, B_WEIGHT, B_BIAS},
	 4,
	 "'a.weight' is 2 x 3 there and 3 x 2 in the model" EQUAL},
	{{A_WEIGHT, A_BIAS, B_WEIGHT, {"b.bias", "I64", "3", 3, 8, 0}},
	 4,
	 "the numbers of 'b.bias' are I64, and weights are F32, F16, BF16 or F64: write it as one "
	 "of them"},
	{{A_WEIGHT, A_BIAS, B_WEIGHT, {"b.bias", "F32", "3", 3, 4, NAN}},
	 4,
	 "a number of 'b.bias' is not finite as a float32: it is no model: name another file"},
	{{A_WEIGHT, A_BIAS, B_WEIGHT, {"b.bias", "F64", "3", 3, 8, 1e300}},
	 4,
	 "a number of 'b.bias' is not finite as a float32: it is no model: name another file"},
};

START_TEST(what_does_not_fit_is_refused)
{
	char expected[300];
	struct training t;

	write_file(refused[_i].tensors, refused[_i].n);
	(void)snprintf(expected, sizeof(expected), "%s: %s", file, refused[_i].message);
	start(&t, small_model, "1f1b", 2);
	ck_assert_int_eq(orr_run_begin(t.run, file, false, NULL, 0, &t.err), ORR_E_INPUT);
	ck_assert_str_eq(t.err.msg, expected);
	training_fini(&t);
}
END_TEST

START_TEST(what_is_no_such_file_is_refused)
{
	struct training t;
	FILE *out = fopen(file, "wb");

	ck_assert_ptr_nonnull(out);
	ck_assert(fputs("pixels,1,2,3\n", out) >= 0 && !fclose(out));
	start(&t, small_model, "1f1b", 2);
	ck_assert_int_eq(orr_run_begin(t.run, file, false, NULL, 0, &t.err), ORR_E_INPUT);
	ck_assert_ptr_nonnull(strstr(t.err.msg, "no whole safetensors file: "));
	ck_assert_int_eq(orr_run_begin(t.run, ".", false, NULL, 0, &t.err), ORR_E_INPUT);
	ck_assert_str_eq(t.err.msg, ".: a directory: name a file in it");
	ck_assert_int_eq(orr_run_begin(t.run, "none", false, NULL, 0, &t.err), ORR_E_INPUT);
	ck_assert_str_eq(
		t.err.msg,
		"none: cannot open it: No such file or directory: name a file of safetensors");
	training_fini(&t);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(a_model_begins_as_another_ended, N_OF(ways)),
	ONCE(from_one_file_all_schedules_come_to_the_same),
	ONCE(halves_and_doubles_become_floats),
	ONCE(a_part_may_do_where_it_is_said),
	EACH(what_does_not_fit_is_refused, N_OF(refused)),
	ONCE(what_is_no_such_file_is_refused),
};
SUITE_WITH("weights", NULL, teardown)
