#include "kernels.h"

#include <math.h>
#include <string.h>

#include "device.h"
#include "loops.h"
#include "vector.h"

/* Sums along a row are kept in double: a row is short, and float would lose digits for nothing. A
 * row is added up in 16 sums, element i in sum i % 16, and these from the first to the last. */
static inline double total(const double *lanes)
{
	double sum = 0;

	for (int k = 0; k < ORR_LANES; k++)
		sum += lanes[k];
	return sum;
}

/* Of the differences of a row from its mean, squared. */
ORR_VECTOR static double sum_squares(int64_t width, const float *x, double mean)
{
	double lanes[ORR_LANES] = {0};

	ORR_IN_LANES(width, lanes[k] += ((double)x[i + k] - mean) * ((double)x[i + k] - mean));
	return total(lanes);
}

ORR_VECTOR static double sum_row(int64_t width, const float *x)
{
	double lanes[ORR_LANES] = {0};

	ORR_IN_LANES(width, lanes[k] += (double)x[i + k]);
	return total(lanes);
}

/* Of dy times gain, and of that along the normal row. */
ORR_VECTOR static void sum_slopes(int64_t width, const float *dy, const float *gain,
				  const float *normal, double *sum, double *along)
{
	double lanes[ORR_LANES] = {0}, along_lanes[ORR_LANES] = {0};

	ORR_IN_LANES(width, {
		double g = (double)dy[i + k] * (double)gain[i + k];

		lanes[k] += g;
		along_lanes[k] += g * (double)normal[i + k];
	});
	*sum = total(lanes);
	*along = total(along_lanes);
}

ORR_VECTOR static void normalise(int64_t width, const float *restrict x, double mean, double factor,
				 const float *restrict gain, const float *restrict bias,
				 float *restrict y, float *restrict normal)
{
	for (int64_t i = 0; i < width; i++) {
		normal[i] = (float)(((double)x[i] - mean) * factor);
		y[i] = normal[i] * gain[i] + bias[i];
	}
}

/* Neither mean nor bias. */
ORR_VECTOR static void scale_row(int64_t width, const float *restrict x, double factor,
				 const float *restrict gain, float *restrict y,
				 float *restrict normal)
{
	for (int64_t i = 0; i < width; i++) {
		normal[i] = (float)((double)x[i] * factor);
		y[i] = normal[i] * gain[i];
	}
}

ORR_VECTOR static void input_slopes(int64_t width, const float *restrict dy,
				    const float *restrict gain, const float *restrict normal,
				    double factor, double mean, double along, float *restrict dx)
{
	for (int64_t i = 0; i < width; i++)
		dx[i] = (float)(factor * ((double)dy[i] * (double)gain[i] - mean -
					  (double)normal[i] * along));
}

ORR_VECTOR static void add_products(int64_t width, const float *restrict a, const float *restrict b,
				    float *restrict sum)
{
	for (int64_t i = 0; i < width; i++)
		sum[i] += a[i] * b[i];
}

/* Are x and dx bfloat16? */
static bool has_half_input(const struct orr_device *d)
{
	return d->halves && !d->floats;
}

/* Where of bfloat16 the workspace has room for the floats of two rows: one that is read, and one
 * that is written. */
static float *written_row(const struct orr_device *d, const struct orr_norm *norm)
{
	return (float *)d->workspace + norm->width;
}

static void layernorm_forward(struct orr_device *d, const struct orr_norm *norm, const float *x,
			      const float *gain, const float *bias, float *y, float *normal)
{
	int64_t width = norm->width;
	float *factors = normal + norm->n * width;

	for (int64_t r = 0; r < norm->n; r++, normal += width) {
		const float *from =
			orr_floats_at(has_half_input(d), x, r * width, width, d->workspace);
		float *to = orr_floats_to(d->halves, y, r * width, written_row(d, norm));
		double mean = norm->centred ? sum_row(width, from) / (double)width : 0.0;
		double variance = sum_squares(width, from, mean) / (double)width;
		double factor = 1.0 / sqrt(variance + norm->epsilon);

		factors[r] = (float)factor;
		if (norm->centred)
			normalise(width, from, mean, factor, gain, bias, to, normal);
		else
			scale_row(width, from, factor, gain, to, normal);
		orr_floats_keep(d->halves, y, r * width, width, to);
	}
}

static void find_dx(struct orr_device *d, const struct orr_norm *norm, const float *normal,
		    const float *gain, const float *dy, float *dx)
{
	int64_t width = norm->width;
	const float *factors = normal + norm->n * width;

	for (int64_t r = 0; r < norm->n; r++, normal += width) {
		const float *from = orr_floats_at(d->halves, dy, r * width, width, d->workspace);
		float *to = orr_floats_to(has_half_input(d), dx, r * width, written_row(d, norm));
		double sum, along;

		sum_slopes(width, from, gain, normal, &sum, &along);
		input_slopes(width, from, gain, normal, (double)factors[r],
			     norm->centred ? sum / (double)width : 0.0, along / (double)width, to);
		orr_floats_keep(has_half_input(d), dx, r * width, width, to);
	}
}

static void add_rows(struct orr_device *d, const struct orr_norm *norm, const float *normal,
		     const float *dy, float *apart, float *dgain, float *dbias)
{
	int64_t width = norm->width;
	float *gain = apart ? apart : dgain, *bias = apart ? apart + width : dbias;
	const float *from = orr_floats_at(d->halves, dy, 0, width, d->workspace);

	for (int64_t i = 0; i < width; i++)
		gain[i] = from[i] * normal[i];
	if (norm->centred)
		memcpy(bias, from, (size_t)width * sizeof(*bias));
	for (int64_t r = 1; r < norm->n; r++) {
		from = orr_floats_at(d->halves, dy, r * width, width, d->workspace);
		normal += width;
		add_products(width, from, normal, gain);
		if (norm->centred)
			orr_add(width, from, bias);
	}
	if (apart)
		orr_add(width, gain, dgain);
	if (apart && norm->centred)
		orr_add(width, bias, dbias);
}

static void layernorm_backward(struct orr_device *d, const struct orr_norm *norm,
			       const float *normal, const float *gain, const float *dy,
			       float *apart, float *dx, float *dgain, float *dbias)
{
	if (dx)
		find_dx(d, norm, normal, gain, dy, dx);
	if (dgain)
		add_rows(d, norm, normal, dy, apart, dgain, dbias);
}

const struct orr_norm_kernels orr_norms_cpu = {ORR_NORM_KERNELS(ORR_KERNEL)};
