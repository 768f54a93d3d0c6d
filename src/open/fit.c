#include "fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/jobs.h"
#include "orrery/machine.h"
#include "orrery/open.h"
#include "orrery/timeline.h"
#include "simulate/idle.h"
#include "base/arrays.h"
#include "base/quantity.h"

#define MOST_ROUNDS 40
#define CLOSE 1e-7       /* no further rounds where values change less, as a share */
#define TOLD_APART 0.01  /* of a constant's column what the others must leave of it */
#define FIRST_BYTE 1e-11 /* s; 100 GB/s */
#define FIRST_LATENCY 1e-7
#define LEAST_WORK 1e-8 /* what machine files can say */
#define MOST_WORK 1e5

const char *orr_constant_name(int c)
{
	static const char *const names[ORR_CONSTANTS] = {"compute", "overhead", "bandwidth",
							 "latency"};

	return names[c];
}

/* ---- a step with given constants ---- */

char *orr_fit_machine(const struct orr_fit *fit, int n_workers)
{
	const double *value = fit->value;
	const char *bandwidth =
		value[ORR_CONSTANT_BYTE] > 0
			? orr_text("bandwidth=\"%.0fB/s\"; ", 1 / value[ORR_CONSTANT_BYTE])
			: "";
	char *text;

	return asprintf(&text,
			"graph fitted {\n    %slatency=\"%.0fns\"; overhead=\"%.0fns\";\n"
			"    worker [repeat=%d, speed=\"%.6g\"];\n}\n",
			bandwidth, value[ORR_CONSTANT_LATENCY] * 1e9,
			value[ORR_CONSTANT_OVERHEAD] * 1e9, n_workers,
			1 / value[ORR_CONSTANT_WORK]) < 0
		       ? NULL
		       : text;
}

/* Seconds that do not wait for a link, and how often a transfer pays latency. */
static double count_latencies(const struct orr_timeline *t, const struct orr_transfer *x)
{
	const int *first = &t->jobs->first_owner[x->set];

	if (x->kind != ORR_TRANSFER_ALL_REDUCE)
		return 1;
	return (x->ring == ORR_RING_ALL_REDUCE ? 2 : 1) * (first[1] - first[0] - 1);
}

static double count_bytes(const struct orr_timeline *t, const struct orr_transfer *x)
{
	const int *first = &t->jobs->first_owner[x->set];
	int n_parts = x->kind == ORR_TRANSFER_ALL_REDUCE ? first[1] - first[0] : 1;

	return count_latencies(t, x) * (double)x->bytes / n_parts;
}

/* What a part of the critical path is made of. Behind other transfers on its link it waits for
 * bytes. */
static void count_part(double *count, const struct orr_idle *idle, const struct orr_path_part *part,
		       const double *value)
{
	double s = (double)(part->end_ns - part->start_ns) / 1e9, bytes;
	const struct orr_transfer *x;

	if (part->item >= 0) {
		count[ORR_CONSTANT_OVERHEAD]++;
		count[ORR_CONSTANT_WORK] +=
			fmax(0, s - value[ORR_CONSTANT_OVERHEAD]) / value[ORR_CONSTANT_WORK];
		return;
	}
	x = &idle->timeline->transfers[part->transfer];
	count[ORR_CONSTANT_LATENCY] += count_latencies(idle->timeline, x);
	s -= value[ORR_CONSTANT_LATENCY] * count_latencies(idle->timeline, x);
	bytes = count_bytes(idle->timeline, x);
	count[ORR_CONSTANT_BYTE] +=
		value[ORR_CONSTANT_BYTE] > 0 ? fmax(bytes, s / value[ORR_CONSTANT_BYTE]) : bytes;
}

static int count_path(struct orr_measured_step *step, const double *value, struct orr_error *err)
{
	struct orr_path_part *parts = NULL;
	struct orr_idle *idle;
	int n, code = orr_idle_create(&idle, step->opened->tried.timeline, err);

	memset(step->count, 0, sizeof(step->count));
	if (code)
		return code;
	if (!(code = orr_idle_path(&parts, &n, idle, err)))
		for (int i = 0; i < n; i++)
			count_part(step->count, idle, &parts[i], value);
	free(parts);
	orr_idle_destroy(idle);
	return code;
}

static void set_overhead(struct orr_pipeline *p, double s)
{
	int64_t ns = llround(s * 1e9);

	orr_pipeline_set_overhead(p, ns - p->overhead_ns);
	p->overhead_ns = ns;
}

/* Simulate a step on the machine of these constants. */
static int simulate_unnamed(struct orr_measured_step *step, const struct orr_fit *fit,
			    struct orr_error *err)
{
	struct orr_opened *x = step->opened;
	struct orr_pipeline *p = x->pipeline;
	struct orr_cluster *cluster;
	char *text = orr_fit_machine(fit, p->n_workers);
	int code;

	if (!text)
		return orr_no_memory(err, "fit");
	code = orr_cluster_parse(&cluster, "fitted", text, err);
	free(text);
	if (code)
		return code;
	p->machine = orr_machine_of(cluster, p->n_workers);
	set_overhead(p, fit->value[ORR_CONSTANT_OVERHEAD]);
	if (p->split)
		set_overhead(p->split->whole, fit->value[ORR_CONSTANT_OVERHEAD]);
	if (!(code = orr_open_jobs(x, err)) && !(code = orr_try_time(&x->tried, err))) {
		step->simulated_s = (double)orr_timeline_makespan(x->tried.timeline) / 1e9;
		code = count_path(step, fit->value, err);
	}
	orr_try_fini(&x->tried);
	p->machine = orr_machine_default(p->n_workers);
	orr_cluster_destroy(cluster);
	return code;
}

/* The same, of which a failure names the step. */
static int simulate(struct orr_measured_step *step, const struct orr_fit *fit,
		    struct orr_error *err)
{
	struct orr_error why;
	int code = simulate_unnamed(step, fit, &why);

	return code ? orr_fail(err, code, "%s: %s", step->name, why.msg) : 0;
}

/* ---- the equations ---- */

/* Of the steps that are fitted to, each over its measured seconds: columns that are made orthogonal
 * one after the other (modified Gram-Schmidt), with what each had of those before it. */
struct equations {
	int n, n_columns, of[ORR_CONSTANTS]; /* the constant of a column */
	double *column[ORR_CONSTANTS];       /* [n] owned, of length 1 */
	double part[ORR_CONSTANTS][ORR_CONSTANTS];
};

static double product(const double *a, const double *b, int n)
{
	double sum = 0;

	for (int i = 0; i < n; i++)
		sum += a[i] * b[i];
	return sum;
}

/* false: those before it leave nothing of it. */
static bool add_column(struct equations *e, int of, double *column)
{
	int k = e->n_columns;
	double before = sqrt(product(column, column, e->n)), length;

	e->column[k] = column;
	for (int j = 0; j < k; j++) {
		e->part[j][k] = product(e->column[j], column, e->n);
		for (int i = 0; i < e->n; i++)
			column[i] -= e->part[j][k] * e->column[j][i];
	}
	length = sqrt(product(column, column, e->n));
	if (k == e->n || length <= TOLD_APART * before)
		return false;
	e->part[k][k] = length;
	for (int i = 0; i < e->n; i++)
		column[i] /= length;
	e->of[k] = of;
	e->n_columns++;
	return true;
}

/* What the columns' constants have to be for these right sides. */
static void solve(double *value, const struct equations *e, const double *right)
{
	for (int k = e->n_columns - 1; k >= 0; k--) {
		double rest = product(e->column[k], right, e->n);

		for (int j = k + 1; j < e->n_columns; j++)
			rest -= e->part[k][j] * value[e->of[j]];
		value[e->of[k]] = rest / e->part[k][k];
	}
}

/* The standard error of each column's constant where one of a right side is `each`: lengths of the
 * rows of the inverse of part. */
static void find_errors(double *error, const struct equations *e, double each)
{
	for (int r = 0; r < e->n_columns; r++) {
		double row[ORR_CONSTANTS] = {0}, sum = 0;

		for (int k = r; k < e->n_columns; k++) {
			double rest = k == r;

			for (int j = r; j < k; j++)
				rest -= row[j] * e->part[j][k];
			row[k] = rest / e->part[k][k];
			sum += row[k] * row[k];
		}
		error[e->of[r]] = each * sqrt(sum);
	}
}

/* ---- the fit ---- */

struct fitting {
	struct orr_fit *fit;
	struct orr_measured_step *steps;
	int n, out; /* step `out` takes no part; -1: all do */
	bool all;   /* every constant that was asked for is wanted */
	struct orr_fit given;
	double *room; /* [(ORR_CONSTANTS + 1) * n] */
	struct orr_error *err;
};

static bool takes_part(const struct fitting *f, int i)
{
	return i != f->out && !f->steps[i].apart;
}

/* The squares of what the steps are off. */
static double sum_squares(const struct fitting *f)
{
	double sum = 0;

	for (int i = 0; i < f->n; i++)
		if (takes_part(f, i))
			sum += pow(f->steps[i].simulated_s / f->steps[i].seconds - 1, 2);
	return sum;
}

static int simulate_all(const struct fitting *f)
{
	int code = 0;

	for (int i = 0; i < f->n && !code; i++)
		if (takes_part(f, i))
			code = simulate(&f->steps[i], f->fit, f->err);
	return code;
}

static int refuse(const struct fitting *f, const struct equations *e, int c)
{
	if (!e->n_columns)
		return orr_fail(f->err, ORR_E_INPUT, "%d steps do not depend on %s: leave it out",
				e->n, orr_constant_name(c));
	return orr_fail(
		f->err, ORR_E_INPUT,
		"%d steps do not tell %s from the constants before it: fit fewer, or add steps "
		"with other numbers of workers and microbatches",
		e->n, orr_constant_name(c));
}

/* A column for each constant that is fitted, but for those that are to be 0. What is not told apart
 * is not fitted. */
static int make_equations(struct equations *e, const struct fitting *f, const bool *zero)
{
	*e = (struct equations){0};
	for (int i = 0; i < f->n; i++)
		e->n += takes_part(f, i);
	for (int c = 0; c < ORR_CONSTANTS; c++) {
		double *column = f->room + (size_t)c * (size_t)f->n;
		int at = 0;

		if (!f->fit->asked[c] || zero[c])
			continue;
		for (int i = 0; i < f->n; i++)
			if (takes_part(f, i))
				column[at++] = f->steps[i].count[c] / f->steps[i].seconds;
		if (add_column(e, c, column))
			continue;
		if (f->all)
			return refuse(f, e, c);
		f->fit->asked[c] = false;
		f->fit->value[c] = f->given.value[c];
	}
	return 0;
}

/* What is left of the measured seconds for the constants that are fitted. */
static void set_right(double *right, const struct fitting *f)
{
	int at = 0;

	for (int i = 0; i < f->n; i++) {
		const struct orr_measured_step *step = &f->steps[i];

		if (!takes_part(f, i))
			continue;
		right[at] = step->seconds - step->simulated_s;
		for (int c = 0; c < ORR_CONSTANTS; c++)
			if (f->fit->asked[c])
				right[at] += step->count[c] * f->fit->value[c];
		right[at++] /= step->seconds;
	}
}

/* New values. A constant is not negative: where one would be, the last of them is 0, and the others
 * are solved for again. */
static int improve(double *value, const struct fitting *f)
{
	double *right = f->room + (size_t)ORR_CONSTANTS * (size_t)f->n;
	bool zero[ORR_CONSTANTS] = {false};
	int last = ORR_CONSTANTS;

	set_right(right, f);
	while (last > ORR_CONSTANT_WORK) {
		struct equations e;
		int code = make_equations(&e, f, zero);

		if (code)
			return code;
		memcpy(value, f->fit->value, sizeof(f->fit->value));
		for (int c = 0; c < ORR_CONSTANTS; c++)
			value[c] = zero[c] ? 0 : value[c];
		solve(value, &e, right);
		for (last = ORR_CONSTANTS - 1; last > ORR_CONSTANT_WORK && value[last] >= 0;)
			last--;
		zero[last] = last > ORR_CONSTANT_WORK;
	}
	return 0;
}

/* Towards the new values, half as far each time that it gets no better. *moved: how much, as a
 * share. */
static int move(const struct fitting *f, const double *target, double *moved)
{
	struct orr_fit *fit = f->fit;
	double before = sum_squares(f), old[ORR_CONSTANTS], share = 1;
	int code;

	memcpy(old, fit->value, sizeof(old));
	for (int tries = 0;; tries++, share /= 2) {
		*moved = 0;
		for (int c = 0; c < ORR_CONSTANTS; c++) {
			bool work = c == ORR_CONSTANT_WORK;
			double low = work ? fmax(LEAST_WORK, old[c] / 10) : 0;
			double high = work ? fmin(MOST_WORK, old[c] * 10) : INFINITY;

			fit->value[c] =
				fmin(high, fmax(low, old[c] + share * (target[c] - old[c])));
			if (fit->value[c] + old[c] > 0)
				*moved = fmax(*moved, fabs(fit->value[c] - old[c]) /
							      (fit->value[c] + old[c]));
		}
		if ((code = simulate_all(f)) || sum_squares(f) <= before || tries == 6)
			break;
	}
	if (code || sum_squares(f) <= before)
		return code;
	memcpy(fit->value, old, sizeof(old));
	*moved = 0;
	return simulate_all(f);
}

/* Fit to all steps that take part, from the values as they are. */
static int fit_all(const struct fitting *f)
{
	double target[ORR_CONSTANTS], moved = 1;
	int code = simulate_all(f);

	for (int i = 0; i < MOST_ROUNDS && moved > CLOSE && !code; i++)
		if (!(code = improve(target, f)))
			code = move(f, target, &moved);
	return code;
}

/* Constants up to c that are wanted join, also those that were not told apart without it. */
static void join(struct orr_fit *fit, const struct orr_fit *wanted, int c)
{
	static const double first[ORR_CONSTANTS] = {1, 0, FIRST_BYTE, FIRST_LATENCY};

	for (int k = 0; k <= c; k++) {
		if (wanted->asked[k] && !fit->asked[k])
			fit->value[k] = first[k];
		fit->asked[k] = wanted->asked[k];
	}
}

/* One constant after the other joins; where that brings the steps no nearer it is 0. Of all that
 * are wanted, each has to be told apart in the end. */
static int fit_in_turn(const struct fitting *f)
{
	struct orr_fit *fit = f->fit, wanted = *fit;
	struct fitting some = *f;
	int code = 0;

	some.all = false;
	for (int c = 0; c < ORR_CONSTANTS; c++) {
		fit->value[c] = !wanted.asked[c] ? fit->value[c] : c == ORR_CONSTANT_WORK;
		fit->asked[c] = false;
	}
	for (int c = 0; c < ORR_CONSTANTS && !(code = simulate_all(f)); c++) {
		struct orr_fit before = *fit;
		double squares = sum_squares(f);

		if (!wanted.asked[c])
			continue;
		join(fit, &wanted, c);
		if ((code = fit_all(&some)))
			break;
		if (sum_squares(f) > squares)
			memcpy(fit->value, before.value, sizeof(fit->value));
	}
	if (code || !f->all)
		return code;
	memcpy(fit->asked, wanted.asked, sizeof(fit->asked));
	return fit_all(f);
}

/* Each step, simulated with what the others say, from where all together ended. */
static int leave_out(struct fitting *f)
{
	struct orr_fit all = *f->fit;
	int code = 0;

	for (int i = 0; i < f->n && !code; i++) {
		struct orr_measured_step *step = &f->steps[i];
		struct orr_error why;
		struct fitting one = *f;

		one.out = i;
		one.err = &why;
		if (step->apart)
			continue;
		if (!fit_all(&one) && !(code = simulate(step, f->fit, f->err)))
			step->left_out_s = step->simulated_s;
		*f->fit = all;
	}
	return code ? code : simulate_all(f);
}

static int sum_up(const struct fitting *f)
{
	struct equations e;
	const bool zero[ORR_CONSTANTS] = {false};
	int code = make_equations(&e, f, zero);

	for (int c = 0; c < ORR_CONSTANTS; c++)
		f->fit->error[c] = NAN;
	f->fit->n_fitted = e.n;
	if (!code && e.n > e.n_columns)
		find_errors(f->fit->error, &e, sqrt(sum_squares(f) / (e.n - e.n_columns)));
	for (int i = 0; i < f->n && !code; i++)
		if (f->steps[i].apart)
			code = simulate(&f->steps[i], f->fit, f->err);
	return code;
}

int orr_fit(struct orr_fit *fit, struct orr_measured_step *steps, int n, struct orr_error *err)
{
	struct fitting f = {
		.fit = fit, .steps = steps, .n = n, .out = -1, .given = *fit, .err = err};
	int code;

	for (int c = 0; c < ORR_CONSTANTS; c++)
		f.all = f.all || fit->asked[c];
	for (int c = 0; c < ORR_CONSTANTS && !f.all; c++)
		fit->asked[c] = true;
	if (!(f.room = calloc((size_t)(ORR_CONSTANTS + 1) * (size_t)n, sizeof(*f.room))))
		return orr_no_memory(err, "fit");
	if (!(code = fit_in_turn(&f)))
		f.all = true;
	if (!code && !(code = leave_out(&f)))
		code = sum_up(&f);
	free(f.room);
	return code;
}
