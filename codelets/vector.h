#ifndef ORR_VECTOR_H
#define ORR_VECTOR_H
/* A function of elementwise loops, compiled once for each width of vectors and chosen by what the
 * processor can do when the program starts. Every width gives the same bits: no loop that is marked
 * adds up in another order, and products and sums are not fused (-ffp-contract=off). clang 14 has
 * the attribute and does not link its functions to other files: there they have the width that all
 * processors of the kind have. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(ORR_PLAIN)
#define ORR_VECTOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define ORR_VECTOR
#endif
#endif
