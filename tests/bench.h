#pragma once
/* What benchmarks have in common: a clock, and the median of what they measure. */
#include <stdlib.h>
#include <time.h>

static inline double bench_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static inline int bench_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Of n numbers, which are sorted. */
static inline double bench_median(double *x, int n)
{
	qsort(x, (size_t)n, sizeof(*x), bench_compare);
	return x[n / 2];
}
