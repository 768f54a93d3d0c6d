#ifndef ORR_GEMM_H
#define ORR_GEMM_H
/* The product that linear layers and attention are made of. */
#include <stdint.h>

/* c [rows][columns] = alpha a b + beta c, with inner columns of a; form 'T': given transposed. Rows
 * as they lie in memory are a_row, b_row and c_row floats apart. beta 0: what is in c does not
 * count. */
void orr_gemm(char a_form, char b_form, int64_t rows, int64_t columns, int64_t inner, float alpha,
	      const float *a, int64_t a_row, const float *b, int64_t b_row, float beta, float *c,
	      int64_t c_row);

/* Calls of oneDNN go between these two: one thread computes. Workers already keep every core busy,
 * and a product split over a varying number of threads would not give the same bits twice. */
int orr_gemm_begin(void);
void orr_gemm_end(int n_threads); /* what begin returned */
#endif
