/* Losses as files and as a drawing. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orrery/curves.h"
#include "suite.h"

static char path[] = "curves-XXXXXX";
static struct orr_error err;

static void write_text(const char *text)
{
	FILE *file = fopen(path, "w");

	ck_assert_ptr_nonnull(file);
	fputs(text, file);
	ck_assert_int_eq(fclose(file), 0);
}

static void setup(void)
{
	int file;

	strcpy(path + sizeof(path) - 7, "XXXXXX");
	file = mkstemp(path);
	ck_assert_int_ge(file, 0);
	close(file);
}

static void teardown(void)
{
	ck_assert_int_eq(unlink(path), 0);
}

START_TEST(what_is_written_is_read)
{
	static const double losses[] = {2.5, 1.25e-7, INFINITY, 3};
	FILE *file = fopen(path, "w");
	struct orr_curve curve;

	ck_assert_ptr_nonnull(file);
	ck_assert_int_eq(orr_curve_begin(file, &err), 0);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(orr_curve_write(file, 7 + i, (7 + i) * 32, losses[i], &err), 0);
	ck_assert_int_eq(fclose(file), 0);
	ck_assert_msg(!orr_curve_read(&curve, path, &err), "%s", err.msg);
	ck_assert_str_eq(curve.name, path);
	ck_assert_int_eq(curve.n, 4);
	for (int i = 0; i < 4; i++) {
		ck_assert_double_eq(curve.samples[i], (7 + i) * 32);
		ck_assert(isinf(losses[i]) ? isinf(curve.loss[i])
					   : fabs(curve.loss[i] - losses[i]) < 1e-8);
	}
	orr_curve_fini(&curve);
}
END_TEST

static const struct {
	const char *text, *message;
} bad[] = {
	{"", "has no losses"},
	{"step,samples,loss\n", "has no losses"},
	{"step,samples,loss\n1,32,x\n", ":2: no line 'step,samples,loss'"},
	{"1,32,2.5\n2,64,2.5,7\n", ":2: no line 'step,samples,loss'"},
	{"step,samples,loss\n1,32,2.5\n2,32,2.4\n", ":3: samples do not grow"},
};

START_TEST(what_is_no_file_of_losses_is_refused)
{
	struct orr_curve curve;

	write_text(bad[_i].text);
	ck_assert_int_eq(orr_curve_read(&curve, path, &err), ORR_E_INPUT);
	ck_assert_msg(strstr(err.msg, bad[_i].message) != NULL, "%s", err.msg);
	ck_assert_ptr_null(curve.samples);
}
END_TEST

static char drawing[1 << 16];

static void draw(const struct orr_curve *curves, int n)
{
	FILE *file = fmemopen(drawing, sizeof(drawing), "w");

	ck_assert_ptr_nonnull(file);
	ck_assert_msg(!orr_curves_svg(file, curves, n, "a < b", &err), "%s", err.msg);
	ck_assert_int_eq(fclose(file), 0);
}

static int count(const char *text, const char *what)
{
	int n = 0;

	while ((text = strstr(text, what)) != NULL) {
		n++;
		text += strlen(what);
	}
	return n;
}

START_TEST(points_are_means_and_names_say_how_it_ended)
{
	static char names[3][8] = {"calm", "wild", "short"};
	static double samples[1000], calm[1000], wild[1000];
	const struct orr_curve curves[] = {{names[0], 1000, samples, calm},
					   {names[1], 1000, samples, wild},
					   {names[2], 1, samples, calm}};
	char *stroke;

	for (int i = 0; i < 1000; i++) {
		samples[i] = 16 * (i + 1);
		calm[i] = i % 2 ? 1.5 : 0.5; /* every mean is 1 */
		wild[i] = i < 500 ? pow(10, i) : NAN;
	}
	draw(curves, 3);
	ck_assert_ptr_nonnull(strstr(drawing, ">a &lt; b<"));
	ck_assert_ptr_nonnull(strstr(drawing, ">calm: 1<"));
	ck_assert_ptr_nonnull(strstr(drawing, ">wild: diverged<"));
	ck_assert_ptr_nonnull(strstr(drawing, ">short: 0.5<"));
	ck_assert_int_eq(count(drawing, "class=\"curve\""), 3);
	ck_assert_int_eq(count(drawing, "nan") + count(drawing, "inf,"), 0);
	stroke = strstr(drawing, "class=\"curve\"");
	ck_assert_ptr_nonnull(stroke);
	*strchr(stroke, '>') = '\0';
	ck_assert_int_eq(count(stroke, "L"), 99); /* a hundred points of ten steps each */
}
END_TEST

int main(void)
{
	const struct suite_test tests[] = {
		ONCE(what_is_written_is_read),
		EACH(what_is_no_file_of_losses_is_refused, N_OF(bad)),
		ONCE(points_are_means_and_names_say_how_it_ended),
	};

	return suite_run_with("curves", tests, N_OF(tests), setup, teardown);
}
