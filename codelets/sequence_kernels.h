#ifndef ORR_SEQUENCE_KERNELS_H
#define ORR_SEQUENCE_KERNELS_H
/* The kernels of sequences of a device, as a table; shapes and results are those of sequence.h. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sizes.h"

struct orr_device;

struct orr_sequence_kernels {
	/* what the device's workspace must hold */
	size_t (*rotary_bytes)(const struct orr_rotary *t);
	size_t (*attention_bytes)(const struct orr_attention *a);

	void (*move)(struct orr_device *d, const struct orr_box *b, const float *x, float *y);
	void (*multiply)(struct orr_device *d, int64_t count, const float *a, const float *b,
			 float *y);
	void (*add_row)(struct orr_device *d, int64_t n, int64_t width, const float *x,
			const float *w, float *y);
	void (*sum_rows)(struct orr_device *d, int64_t n, int64_t width, const float *dy,
			 float *apart, float *dw);
	void (*mean_forward)(struct orr_device *d, int64_t n, int64_t rows, int64_t width,
			     const float *x, float *y);
	void (*mean_input)(struct orr_device *d, int64_t n, int64_t rows, int64_t width,
			   const float *dy, float *dx);
	void (*softmax_forward)(struct orr_device *d, int64_t n, int64_t width, const float *x,
				float *y);
	void (*softmax_input)(struct orr_device *d, int64_t n, int64_t width, const float *y,
			      const float *dy, float *dx);
	void (*normalise_forward)(struct orr_device *d, int64_t n, int64_t width, float epsilon,
				  const float *x, float *y, float *factors);
	void (*normalise_input)(struct orr_device *d, int64_t n, int64_t width, float epsilon,
				const float *y, const float *factors, const float *dy, float *dx);
	void (*bag_forward)(struct orr_device *d, const struct orr_bag *b, const float *ids,
			    const float *w, float *y);
	void (*bag_weight)(struct orr_device *d, const struct orr_bag *b, const float *ids,
			   const float *dy, float *apart, float *dw);
	void (*rotary)(struct orr_device *d, const struct orr_rotary *t, const float *x, float *y);
	void (*interaction_forward)(struct orr_device *d, int64_t n, int64_t count, int64_t width,
				    const float *x, float *y);
	void (*interaction_input)(struct orr_device *d, int64_t n, int64_t count, int64_t width,
				  int64_t first, int64_t rows, const float *x, const float *dy,
				  float *dx);
	void (*dropout)(struct orr_device *d, const struct orr_drop *drop, int64_t n, int64_t count,
			const float *x, float *y);
	void (*attention_forward)(struct orr_device *d, const struct orr_attention *a,
				  const float *q, const float *k, const float *v,
				  const float *lengths, float *y, float *sums);
	void (*attention_input)(struct orr_device *d, const struct orr_attention *a, const float *q,
				const float *k, const float *v, const float *lengths,
				const float *y, const float *sums, const float *dy, float *dq,
				float *dk, float *dv);
};
extern const struct orr_sequence_kernels orr_sequence_kernels_cpu;
#endif
