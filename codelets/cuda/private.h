#ifndef ORR_CUDA_PRIVATE_H
#define ORR_CUDA_PRIVATE_H
/* (private to codelets/cuda) What its files share. */
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "../device.h"
#include "../program.h"
#include "../sizes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The workspace: what cuBLAS wants on Hopper, then the kernels' own. */
#define ORR_BLAS_BYTES ((size_t)32 << 20)

/* A product of a shape and how cuBLASLt computes it. */
struct orr_product {
	int64_t n, in, out;
	int pass;    /* of product.c; 0: the entry is free */
	int aligned; /* at multiples of 16 bytes: see product.c */
	bool halves; /* activations are bfloat16 */
	bool found;  /* else by cublasGemmEx */
	cublasLtMatmulAlgo_t algo;
};
#define ORR_PRODUCTS 1024
#define ORR_TICKETS (ORR_MOST_BLOCKS + ORR_MOST_STRIPS / ORR_GROUP + 1)

struct orr_cuda {
	cudaStream_t stream;
	cublasLtHandle_t lt;
	cublasHandle_t blas;
	char message[200];
	struct orr_product products[ORR_PRODUCTS]; /* a hash table */
	double *partial;                           /* [ORR_SLICES] on the device: of squares() */
	unsigned *tickets; /* [ORR_TICKETS] there: which blocks have ended, 0 between launches */
	struct orr_graphs *graphs; /* graph.c */
};

/* (failure.c) Note the first failure; true: there is none. */
bool orr_cuda_ok(struct orr_device *d, cudaError_t code, const char *what);
bool orr_cuda_blas_ok(struct orr_device *d, cublasStatus_t code, const char *what);
void orr_cuda_begin(struct orr_device *d);

static inline char *orr_cuda_workspace(const struct orr_device *d)
{
	return (char *)d->workspace + ORR_BLAS_BYTES;
}

static inline size_t orr_cuda_aligned(int64_t count, size_t size)
{
	return ((size_t)count * size + 255) / 256 * 256;
}

/* ---- graph.c ---- */
struct orr_graphs *orr_cuda_graphs_create(void); /* NULL: no memory, or no stream */
void orr_cuda_graphs_destroy(struct orr_graphs *graphs);
void orr_cuda_replay(struct orr_device *d, const struct orr_key *key,
		     void (*start)(struct orr_device *d, void *task), void *task);

/* ---- product.c ---- */
size_t orr_cuda_product_bytes(enum orr_precision precision, int64_t n, int64_t in, int64_t out);
void orr_cuda_prepare(struct orr_device *d, int64_t n, int64_t in, int64_t out, bool bias);
void orr_cuda_linear_forward(struct orr_device *d, int64_t n, int64_t in, int64_t out,
			     const float *x, const float *w, const void *rounded, const float *bias,
			     float *y);
void orr_cuda_linear_input(struct orr_device *d, int64_t n, int64_t in, int64_t out,
			   const float *dy, const float *w, const void *rounded, float *dx);
void orr_cuda_linear_weight(struct orr_device *d, int64_t n, int64_t in, int64_t out,
			    const float *x, const float *dy, float *apart, float *dw, float *dbias);

/* ---- trial.cu ---- */
/* to: floats, or bfloat16 */
void orr_cuda_fill(struct orr_device *d, int64_t count, unsigned seed, bool halves, void *to);
/* *first, on the device, becomes the least i where the bits of a[i] and b[i] differ, if that is
 * less than what it is */
void orr_cuda_find_difference(struct orr_device *d, int64_t count, const float *a, const float *b,
			      int64_t *first);

/* ---- elementwise.cu ---- */
void orr_cuda_copy(struct orr_device *d, int64_t count, const float *x, float *y);
void orr_cuda_zero(struct orr_device *d, int64_t count, float *y);
void orr_cuda_scale(struct orr_device *d, int64_t count, float factor, const float *x, float *y);
void orr_cuda_sum(struct orr_device *d, int64_t count, const float *a, const float *b, float *y);
void orr_cuda_sum_halves(struct orr_device *d, int64_t count, const void *a, const void *b,
			 void *y);
void orr_cuda_map(struct orr_device *d, enum orr_elementwise f, int64_t count, const float *x,
		  float *y);
void orr_cuda_map_back(struct orr_device *d, enum orr_elementwise f, int64_t count,
		       const float *kept, const float *dy, float *dx);

void orr_cuda_find_wild(struct orr_device *d, int64_t count, const float *x, int64_t at,
			int64_t *first);

void orr_cuda_multiply(struct orr_device *d, int64_t count, const float *a, const float *b,
		       float *y);

/* ---- half.cu ---- */
void orr_cuda_widen(struct orr_device *d, int64_t count, const void *x, float *y);
void orr_cuda_narrow(struct orr_device *d, int64_t count, int64_t end, const float *x, bool add,
		     void *y);

/* ---- matrix.cu ---- */
void orr_cuda_columns_put(struct orr_device *d, int64_t n, int64_t width, const float *x,
			  int64_t total, int64_t first, float *y);
void orr_cuda_columns_take(struct orr_device *d, int64_t n, int64_t total, int64_t first,
			   const float *y, int64_t width, float *x);
void orr_cuda_round(struct orr_device *d, const struct orr_rounding *pieces, int n_pieces);
/* y += bias, to every row */
void orr_cuda_add_bias(struct orr_device *d, int64_t n, int64_t width, bool halves,
		       const void *bias, void *y);
/* sum[i] is that of column i of dy, gain[i] that of dy times normal (either may be NULL); added to
 * what is there, or over it. Needs orr_cuda_sums_bytes of the workspace. */
void orr_cuda_column_sums(struct orr_device *d, int64_t n, int64_t width, const float *dy,
			  const float *normal, bool add, float *gain, float *sum);
size_t orr_cuda_sums_bytes(int64_t n, int64_t width);

/* ---- norm.cu ---- */
void orr_cuda_layernorm_forward(struct orr_device *d, const struct orr_norm *norm, const float *x,
				const float *gain, const float *bias, float *y, float *normal);
void orr_cuda_layernorm_input(struct orr_device *d, const struct orr_norm *norm,
			      const float *normal, const float *gain, const float *dy, float *dx);
void orr_cuda_layernorm_backward(struct orr_device *d, const struct orr_norm *norm,
				 const float *normal, const float *gain, const float *dy,
				 float *apart, float *dx, float *dgain, float *dbias);
void orr_cuda_layernorm_weight(struct orr_device *d, const struct orr_norm *norm,
			       const float *normal, const float *dy, float *apart, float *dgain,
			       float *dbias);

/* ---- rows.cu ---- */
void orr_cuda_softmax_forward(struct orr_device *d, int64_t n, int64_t width, const float *x,
			      float *y);
void orr_cuda_softmax_input(struct orr_device *d, int64_t n, int64_t width, const float *y,
			    const float *dy, float *dx);
void orr_cuda_normalise_forward(struct orr_device *d, int64_t n, int64_t width, float epsilon,
				const float *x, float *y, float *factors);
void orr_cuda_normalise_input(struct orr_device *d, int64_t n, int64_t width, float epsilon,
			      const float *y, const float *factors, const float *dy, float *dx);

/* ---- losses.cu ---- */
size_t orr_cuda_rows_bytes(int64_t n);
void orr_cuda_softmax_cross_entropy(struct orr_device *d, int64_t n, const struct orr_classes *k,
				    const float *scores, const float *classes, float *slope,
				    struct orr_metrics *metrics);
void orr_cuda_mse(struct orr_device *d, int64_t n, int64_t width, const float *prediction,
		  const float *target, float *slope, struct orr_metrics *metrics);
void orr_cuda_bce(struct orr_device *d, int64_t n, int64_t width, const float *scores,
		  const float *target, float *slope, struct orr_metrics *metrics);

void orr_cuda_class_part(struct orr_device *d, int64_t n, int64_t first, int64_t width,
			 const float *scores, const float *classes, float *y, float *exponentials,
			 float *at);
void orr_cuda_class_part_input(struct orr_device *d, int64_t n, int64_t width,
			       const float *exponentials, const float *at, const float *dy,
			       float *dx);
void orr_cuda_class_parts_entropy(struct orr_device *d, int64_t n, const struct orr_classes *k,
				  int64_t n_parts, const float *seen, const float *classes,
				  float *slope, struct orr_metrics *metrics);
void orr_cuda_balance(struct orr_device *d, const struct orr_routing *r, const float *scores,
		      const float *route, float *slope, float *shares, struct orr_metrics *metrics);

/* ---- experts.cu: as in experts.h ---- */
void orr_cuda_route(struct orr_device *d, const struct orr_routing *r, const float *scores,
		    float *route);
void orr_cuda_route_input(struct orr_device *d, const struct orr_routing *r, const float *scores,
			  const float *route, const float *slope, float *dx);
void orr_cuda_dispatch(struct orr_device *d, const struct orr_routing *r, int64_t expert,
		       int64_t width, const float *x, const float *route, float *y, float *at);
void orr_cuda_dispatch_input(struct orr_device *d, const struct orr_routing *r, int64_t width,
			     const float *at, const float *dy, float *dx);
void orr_cuda_combine(struct orr_device *d, const struct orr_routing *r, int64_t expert,
		      int64_t width, const float *route, const float *x, float *y);
void orr_cuda_combine_input(struct orr_device *d, const struct orr_routing *r, int64_t expert,
			    int64_t width, const float *route, const float *x, const float *dy,
			    float *dx, float *slope);

/* ---- images.cu ---- */
void orr_cuda_unfold(struct orr_device *d, int64_t n, const struct orr_window *w, const float *x,
		     float *rows);
void orr_cuda_fold(struct orr_device *d, int64_t n, const struct orr_window *w, const float *rows,
		   float *x);
void orr_cuda_turn(struct orr_device *d, int64_t n, int64_t rows, int64_t columns, const float *x,
		   float *y);
void orr_cuda_max_pool_forward(struct orr_device *d, int64_t n, const struct orr_window *w,
			       const float *x, float *y, float *at);
void orr_cuda_max_pool_backward(struct orr_device *d, int64_t n, const struct orr_window *w,
				const float *at, const float *dy, float *dx);
void orr_cuda_mean_pool_forward(struct orr_device *d, int64_t n, const struct orr_window *w,
				const float *x, float *y);
void orr_cuda_mean_pool_backward(struct orr_device *d, int64_t n, const struct orr_window *w,
				 const float *dy, float *dx);

/* ---- batchnorm.cu ---- */
size_t orr_cuda_batchnorm_bytes(int64_t n, int64_t width);
void orr_cuda_groupnorm_forward(struct orr_device *d, int64_t n, const struct orr_groups *g,
				const float *x, const float *gain, const float *bias, float *y,
				float *normal);
void orr_cuda_groupnorm_input(struct orr_device *d, int64_t n, const struct orr_groups *g,
			      const float *normal, const float *gain, const float *dy, float *dx);
void orr_cuda_batchnorm_forward(struct orr_device *d, int64_t n, int64_t width, double epsilon,
				const float *x, const float *gain, const float *bias, float *y,
				float *normal, float *moments);
void orr_cuda_batchnorm_evaluate(struct orr_device *d, int64_t n, int64_t width, double epsilon,
				 const float *x, const float *gain, const float *bias,
				 const float *moments, float *y);
void orr_cuda_batchnorm_input(struct orr_device *d, int64_t n, int64_t width, double epsilon,
			      const float *normal, const float *moments, const float *gain,
			      const float *dy, float *dx);

/* ---- contrastive.cu ---- */
void orr_cuda_contrastive_normalise(struct orr_device *d, int64_t n_rows, int64_t n_columns,
				    int64_t first, const float *t, const float *scores,
				    const struct orr_largest *rows,
				    const struct orr_largest *columns, float *room);
void orr_cuda_contrastive_slopes(struct orr_device *d, int64_t n_rows, int64_t n_columns,
				 int64_t first, const float *t, float *scores,
				 const struct orr_largest *rows, const struct orr_largest *columns,
				 float *room, struct orr_contrast *seen, bool again);
void orr_cuda_contrastive_count(struct orr_device *d, int64_t n, const struct orr_contrast *seen,
				float *slope, struct orr_metrics *metrics);
/* ---- sequence.cu: as in sequence.h ---- */
void orr_cuda_move(struct orr_device *d, const struct orr_box *b, const float *x, float *y);
void orr_cuda_add_row(struct orr_device *d, int64_t n, int64_t width, const float *x,
		      const float *w, float *y);
void orr_cuda_sum_rows(struct orr_device *d, int64_t n, int64_t width, const float *dy,
		       float *apart, float *dw);
void orr_cuda_mean_forward(struct orr_device *d, int64_t n, int64_t rows, int64_t width,
			   const float *x, float *y);
void orr_cuda_mean_input(struct orr_device *d, int64_t n, int64_t rows, int64_t width,
			 const float *dy, float *dx);
void orr_cuda_bag_forward(struct orr_device *d, const struct orr_bag *b, const float *ids,
			  const float *w, float *y);
void orr_cuda_bag_weight(struct orr_device *d, const struct orr_bag *b, const float *ids,
			 const float *dy, float *apart, float *dw);
void orr_cuda_rotary(struct orr_device *d, const struct orr_rotary *t, const float *x, float *y);
void orr_cuda_interaction_forward(struct orr_device *d, int64_t n, int64_t count, int64_t width,
				  const float *x, float *y);
void orr_cuda_interaction_input(struct orr_device *d, int64_t n, int64_t count, int64_t width,
				int64_t first, int64_t rows, const float *x, const float *dy,
				float *dx);
void orr_cuda_dropout(struct orr_device *d, const struct orr_drop *drop, int64_t n, int64_t count,
		      const float *x, float *y);

/* ---- attention.cu ---- */
size_t orr_cuda_attention_bytes(const struct orr_attention *a); /* of the workspace */
void orr_cuda_attention_forward(struct orr_device *d, const struct orr_attention *a, const float *q,
				const float *k, const float *v, const float *lengths, float *y,
				float *sums);
void orr_cuda_attention_input(struct orr_device *d, const struct orr_attention *a, const float *q,
			      const float *k, const float *v, const float *lengths, const float *y,
			      const float *sums, const float *dy, float *dq, float *dk, float *dv);

/* ---- step.cu ---- */
void orr_cuda_step(struct orr_device *d, const struct orr_rule *rule, int64_t number, int64_t n,
		   float *parameters, float *state, const float *const *blocks, int n_blocks,
		   bool summed);
/* A sum of squares is that of so many slices. */
#define ORR_SLICES 128
void orr_cuda_squares(struct orr_device *d, int64_t n, const float *const *blocks, int n_blocks,
		      bool summed, const struct orr_extent *tensors, int n_tensors, double *sums);

#ifdef __cplusplus
}
#endif
#endif
