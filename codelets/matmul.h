#pragma once
/* Products by oneDNN: its sgemm, and its primitives, which are made for a shape: faster where few
 * rows meet a large matrix, and the only ones in bfloat16. A thread makes the primitive of a shape
 * before its first product and keeps it until it ends. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* c [rows][columns] = alpha a b + beta c, with inner columns of a; form 'T': given transposed. Rows
 * as they lie in memory are a_row, b_row and c_row floats apart. beta 0: what is in c does not
 * count. */
void orr_gemm(char a_form, char b_form, int64_t rows, int64_t columns, int64_t inner, float alpha,
	      const float *a, int64_t a_row, const float *b, int64_t b_row, float beta, float *c,
	      int64_t c_row);

/* c [rows][columns] = a b, with inner columns of a, added up in float32; form 'T': given
 * transposed. Rows as they lie in memory are a_row and b_row elements apart; those of c follow one
 * another. */
struct orr_matmul {
	bool bf16; /* a and b are bfloat16, else float */
	bool half; /* c is, too, rounded once */
	bool bias; /* a row of floats is added to every row of c */
	char a_form, b_form;
	int64_t rows, columns, inner, a_row, b_row;
};

/* False: oneDNN has none for it, and nothing is computed. bias: NULL where there is none. */
bool orr_matmul(const struct orr_matmul *m, const void *a, const void *b, const float *bias,
		void *c);

/* Does the processor multiply bfloat16? If not, float32 is faster. */
bool orr_matmul_has_bf16(void);

/* What oneDNN takes the processor for, such as "AVX-512 with bfloat16"; slow: an x86 one below
 * AVX2.
 */
const char *orr_matmul_instructions(bool *slow);
/* "oneDNN 2.6.3", as it was loaded. */
void orr_matmul_library(char *name, size_t size);
