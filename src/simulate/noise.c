#include "noise.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arrays.h"
#include "base/mix.h"
#include "base/sort.h"
#include "base/quantity.h"
#include "schedule/room.h"
#include "simulate.h"
#include "orrery/timeline.h"

/* ---- the draws ---- */

static const struct {
	const char *name;
	double most; /* the largest width */
} kinds[] = {[ORR_NOISE_LOGNORMAL] = {"lognormal", 2},
	     [ORR_NOISE_UNIFORM] = {"uniform", 1},
	     [ORR_NOISE_NORMAL] = {"normal", 1}};
#define N_KINDS (int)(sizeof(kinds) / sizeof(*kinds))

int orr_noise_parse(struct orr_noise *noise, const char *text, const char *what,
		    struct orr_error *err)
{
	const char *colon = strchr(text, ':');
	size_t length = colon ? (size_t)(colon - text) : strlen(text);

	for (int i = 0; i < N_KINDS; i++)
		if (colon && strlen(kinds[i].name) == length &&
		    !strncmp(kinds[i].name, text, length)) {
			noise->kind = (enum orr_noise_kind)i;
			return orr_real_parse(&noise->width, colon + 1, 0, kinds[i].most, what,
					      err);
		}
	return orr_fail(err, ORR_E_INPUT,
			"%s: '%.40s': write lognormal:SIGMA, uniform:WIDTH or normal:SIGMA, such "
			"as lognormal:0.2",
			what, text);
}

const char *orr_noise_print(char *buffer, size_t size, const struct orr_noise *noise)
{
	(void)snprintf(buffer, size, "%s:%.6g", kinds[noise->kind].name, noise->width);
	return buffer;
}

/* Elementary functions of the C library differ between processors in their last bits, additions and
 * multiplications do not. These are exact to about 1e-15, which is plenty. */
static double logarithm(double x)
{
	int power;
	double m = frexp(x, &power), t, square, sum = 0;

	if (m < 0.70710678118654752) {
		m *= 2;
		power--;
	}
	t = (m - 1) / (m + 1);
	square = t * t;
	for (int k = 21; k >= 1; k -= 2)
		sum = sum * square + 1.0 / k;
	return 2 * t * sum + power * 0.69314718055994531;
}

static double exponential(double x)
{
	double power = floor(x / 0.69314718055994531 + 0.5);
	double rest = x - power * 0.69314718055994531, sum = 1;

	for (int k = 16; k >= 1; k--)
		sum = 1 + sum * rest / k;
	return ldexp(sum, (int)power);
}

static double polynomial(const double *c, int n, double x)
{
	double sum = 0;

	for (int i = 0; i < n; i++)
		sum = sum * x + c[i];
	return sum;
}

/* The normal deviate of which a fraction u lies below, by Acklam's rational approximation: to
 * 1.15e-9 of its value. */
static double normal(double u)
{
	static const double a[] = {-3.969683028665376e+01, 2.209460984245205e+02,
				   -2.759285104469687e+02, 1.383577518672690e+02,
				   -3.066479806614716e+01, 2.506628277459239e+00},
			    b[] = {-5.447609879822406e+01, 1.615858368580409e+02,
				   -1.556989798598866e+02, 6.680131188771972e+01,
				   -1.328068155288572e+01, 1},
			    c[] = {-7.784894002430293e-03, -3.223964580411365e-01,
				   -2.400758277161838e+00, -2.549732539343734e+00,
				   4.374664141464968e+00,  2.938163982698783e+00},
			    d[] = {7.784695709041462e-03, 3.224671290700398e-01,
				   2.445134137142996e+00, 3.754408661907416e+00, 1};
	double tail = u < 0.5 ? u : 1 - u, q;

	if (tail > 0.02425) {
		q = u - 0.5;
		return q * polynomial(a, 6, q * q) / polynomial(b, 6, q * q);
	}
	q = sqrt(-2 * logarithm(tail));
	q = polynomial(c, 6, q) / polynomial(d, 5, q);
	return u < 0.5 ? q : -q;
}

int64_t orr_noise_factor(const struct orr_noise *noise, int sample, int s, int b, int d)
{
	const int counters[] = {sample, s, b, d};
	uint64_t hash = orr_mix_next(noise->seed);
	double u, width = noise->width, factor = 1;

	for (int i = 0; i < 4; i++)
		hash = orr_mix_next(hash ^ (uint64_t)counters[i]);
	u = ((double)(hash >> 12) + 0.5) * 0x1p-52; /* never 0 nor 1 */
	switch (noise->kind) {
	case ORR_NOISE_LOGNORMAL:
		factor = exponential(width * normal(u) - width * width / 2);
		break;
	case ORR_NOISE_UNIFORM:
		factor = 1 + width * (2 * u - 1);
		break;
	case ORR_NOISE_NORMAL:
		factor = 1 + width * normal(u);
		break;
	}
	return factor > 0 ? (int64_t)floor(factor * ORR_NOISE_ONE + 0.5) : 0;
}

/* ---- a sample ---- */

int orr_sample_init(struct orr_sample *sample, const struct orr_jobs *jobs, struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;
	size_t n_stages = (size_t)p->n_stages;

	*sample = (struct orr_sample){.jobs = *jobs, .pipeline = *p, .plain = jobs};
	sample->jobs.pipeline = &sample->pipeline;
	sample->jobs.span_bound_ns = sample->jobs.bound_ns = 0; /* holds for the plain costs */
	sample->jobs.duration_ns = calloc((size_t)jobs->n_jobs, sizeof(int64_t));
	sample->pipeline.stages = calloc(n_stages, sizeof(*sample->pipeline.stages));
	if (!sample->jobs.duration_ns || !sample->pipeline.stages) {
		orr_sample_fini(sample);
		return orr_no_memory(err, "noise");
	}
	memcpy(sample->pipeline.stages, p->stages, n_stages * sizeof(*p->stages));
	return 0;
}

void orr_sample_fini(struct orr_sample *sample)
{
	free(sample->jobs.duration_ns);
	free(sample->pipeline.stages);
	*sample = (struct orr_sample){0};
}

/* ns times factor, to the nearest; exact where it can be counted, else as many as can be. */
static int64_t scale(int64_t ns, int64_t factor)
{
	int64_t whole = ns / ORR_NOISE_ONE, rest = ns % ORR_NOISE_ONE;

	if ((double)whole * (double)factor > (double)(INT64_MAX / 4))
		return INT64_MAX / 4;
	return whole * factor + (rest * factor + ORR_NOISE_ONE / 2) / ORR_NOISE_ONE;
}

int orr_sample_draw(struct orr_sample *sample, const struct orr_noise *noise, int number,
		    struct orr_error *err)
{
	const struct orr_jobs *plain = sample->plain;
	double total = 0;

	for (int j = 0; j < plain->n_jobs; j++) {
		struct orr_job job = orr_jobs_at(plain, j);
		int64_t factor = orr_noise_factor(noise, number, job.s, job.b, (int)job.d);

		sample->jobs.duration_ns[j] = scale(plain->duration_ns[j], factor);
		total += (double)sample->jobs.duration_ns[j];
	}
	for (int s = 0; s < plain->pipeline->n_stages; s++) {
		int64_t *update_ns = &sample->pipeline.stages[s].update_ns;

		*update_ns = scale(plain->pipeline->stages[s].update_ns,
				   orr_noise_factor(noise, number, s, 0, ORR_N_PASSES));
		total += (double)*update_ns;
	}
	if (total < (double)(INT64_MAX / 4))
		return 0;
	return orr_fail(err, ORR_E_INPUT,
			"noise: the durations of sample %d add up to more than can be counted in "
			"nanoseconds: take shorter durations or less noise",
			number);
}

/* ---- many of them ---- */

static int time_once(int64_t *makespan_ns, const struct orr_jobs *jobs, struct orr_error *err)
{
	struct orr_timeline *t = NULL;
	int code = orr_simulate(&t, jobs, err);

	if (!code)
		*makespan_ns = orr_timeline_makespan(t);
	orr_timeline_destroy(t);
	return code;
}

#define MOST_THREADS 64
struct batch {
	const struct orr_jobs *jobs;
	const struct orr_noise *noise;
	struct orr_keyed *makespans; /* [n_samples] */
	atomic_int next;
};

struct thread {
	struct batch *batch;
	struct orr_error err;
	pthread_t id;
	int code;
};

static void *run_samples(void *argument)
{
	struct thread *thread = argument;
	struct batch *batch = thread->batch;
	struct orr_sample sample;
	int k;

	if ((thread->code = orr_sample_init(&sample, batch->jobs, &thread->err)))
		return NULL;
	while (!thread->code && (k = atomic_fetch_add(&batch->next, 1)) < batch->noise->n_samples)
		if (!(thread->code = orr_sample_draw(&sample, batch->noise, k, &thread->err)))
			thread->code =
				time_once(&batch->makespans[k].key, &sample.jobs, &thread->err);
	orr_sample_fini(&sample);
	return NULL;
}

/* On this thread and on one more for every other core. */
static int run_batch(struct batch *batch, struct orr_error *err)
{
	struct thread threads[MOST_THREADS];
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	int n = 1, code = 0;

	while (n < cores && n < MOST_THREADS && n < batch->noise->n_samples) {
		threads[n] = (struct thread){.batch = batch};
		if (pthread_create(&threads[n].id, NULL, run_samples, &threads[n]))
			break; /* fewer do as well */
		n++;
	}
	threads[0] = (struct thread){.batch = batch};
	run_samples(&threads[0]);
	for (int i = 0; i < n; i++) {
		if (i)
			pthread_join(threads[i].id, NULL);
		if (!code && (code = threads[i].code))
			(void)orr_fail(err, code, "%s", threads[i].err.msg);
	}
	return code;
}

static int64_t quantile(const struct orr_keyed *sorted, int n, int percent)
{
	return sorted[((int64_t)n * percent + 99) / 100 - 1].key;
}

static int spread(struct orr_spread *out, const struct orr_jobs *jobs,
		  const struct orr_noise *noise, struct orr_error *err)
{
	int n = noise->n_samples, code;
	struct batch batch = {jobs, noise, calloc((size_t)n, sizeof(*batch.makespans)), 0};

	if (!batch.makespans)
		return orr_no_memory(err, "noise");
	if (!(code = time_once(&out->plain_ns, jobs, err)) && !(code = run_batch(&batch, err)) &&
	    !(code = orr_sort(batch.makespans, n, err))) {
		out->median_ns = quantile(batch.makespans, n, 50);
		out->p95_ns = quantile(batch.makespans, n, 95);
		out->worst_ns = batch.makespans[n - 1].key;
	}
	free(batch.makespans);
	return code;
}

/* A greedy order as it runs without noise, of arrays of its own. */
static int spread_fixed(struct orr_spread *out, const struct orr_jobs *jobs,
			const struct orr_noise *noise, struct orr_error *err)
{
	struct orr_jobs fixed = *jobs;
	struct orr_timeline *t = NULL;
	struct orr_arrays all = {0};
	int code;

	orr_arrays_make(&all, fixed.by_worker, jobs->first[jobs->pipeline->n_workers]);
	orr_arrays_make(&all, fixed.position, (size_t)jobs->n_jobs * (size_t)jobs->most_at);
	orr_arrays_make(&all, fixed.priority, jobs->n_jobs);
	if (!(code = orr_arrays_check(&all, "noise", err)) &&
	    !(code = orr_simulate(&t, jobs, err)) &&
	    !(code = orr_jobs_fix(&fixed, t->start_ns, err)))
		code = spread(out, &fixed, noise, err);
	orr_timeline_destroy(t);
	orr_arrays_free(&all);
	return code;
}

/* A strict order made greedy; where it cannot be, out says so. */
static int spread_freed(struct orr_noisy *out, const struct orr_jobs *jobs,
			const struct orr_noise *noise, struct orr_error *err)
{
	struct orr_jobs freed = *jobs;
	struct orr_error why;
	int code = orr_jobs_free(&freed, &why);

	if (code == ORR_E_INPUT)
		return 0;
	if (code)
		return orr_fail(err, code, "%s", why.msg);
	out->has_greedy = true;
	code = spread(&out->greedy, &freed, noise, err);
	orr_room_destroy(freed.room);
	return code;
}

int orr_noise_run(struct orr_noisy *out, const struct orr_jobs *jobs, const struct orr_noise *noise,
		  struct orr_error *err)
{
	struct orr_jobs strict = *jobs;
	int code;

	*out = (struct orr_noisy){.has_greedy = jobs->order == ORR_ORDER_GREEDY};
	if (jobs->order == ORR_ORDER_GREEDY && (code = spread(&out->greedy, jobs, noise, err)))
		return code;
	if (jobs->order == ORR_ORDER_GREEDY && !jobs->room)
		return spread_fixed(&out->strict, jobs, noise, err);
	strict.order = ORR_ORDER_STRICT;
	strict.room = NULL;
	if ((code = spread(&out->strict, &strict, noise, err)) || out->has_greedy)
		return code;
	return spread_freed(out, jobs, noise, err);
}
