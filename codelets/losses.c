#include "kernels.h"

#include <math.h>
#include <stdbool.h>

#include "elements.h"

/* One row, made stable by taking the largest score off all of them. */
static double cross_entropy(int64_t width, const float *scores, float class, float *slope,
			    bool *hit)
{
	int64_t best = 0, own;
	double sum = 0;

	for (int64_t i = 1; i < width; i++)
		if (scores[i] > scores[best])
			best = i;
	if (!(class >= 0.0f && class < (float)width && class == floorf(class))) {
		for (int64_t i = 0; i < width; i++)
			slope[i] = NAN;
		*hit = false;
		return NAN;
	}
	own = (int64_t) class;
	for (int64_t i = 0; i < width; i++) {
		slope[i] = orr_exp_of(scores[i] - scores[best]);
		sum += (double)slope[i];
	}
	for (int64_t i = 0; i < width;
	     i++) /* p - 1 in double: near 1 a float keeps nothing of it */
		slope[i] = (float)(((double)slope[i] - (i == own ? sum : 0.0)) / sum);
	*hit = best == own;
	return log(sum) - ((double)scores[own] - (double)scores[best]);
}

double orr_softmax_cross_entropy(int64_t n, int64_t width, const float *scores,
				 const float *classes, float *slope, int64_t *correct)
{
	double loss = 0;

	*correct = 0;
	for (int64_t r = 0; r < n; r++) {
		bool hit;

		loss += cross_entropy(width, scores + r * width, classes[r], slope + r * width,
				      &hit);
		*correct += hit;
	}
	return loss;
}

double orr_mse(int64_t n, int64_t width, const float *prediction, const float *target, float *slope)
{
	double loss = 0;

	for (int64_t r = 0; r < n; r++, prediction += width, target += width, slope += width) {
		double sum = 0;

		for (int64_t i = 0; i < width; i++) {
			double difference = (double)prediction[i] - (double)target[i];

			sum += difference * difference;
			slope[i] = (float)(2.0 * difference / (double)width);
		}
		loss += sum / (double)width;
	}
	return loss;
}
