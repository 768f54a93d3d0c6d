#pragma once
/* Marks a static function of elementwise loops: compiled once for each width of vectors, and chosen
 * by what the processor can do when the program starts. Every width gives the same bits: no loop
 * that is marked adds up in another order, and products and sums are not fused
 * (-ffp-contract=off). Static, because compilers give what others call no hidden visibility; of a
 * name that no other file gives one, because clang 14 makes the function that chooses global. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(ORR_PLAIN)
#define ORR_VECTOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define ORR_VECTOR
#endif

/* A loop over elements, and the function of loops.h that runs it. */
#define ORR_LOOP(NAME, DOES, PARAMETERS, ...) \
	ORR_VECTOR static void each_##NAME PARAMETERS \
	{ \
		for (int64_t i = 0; i < count; i++) \
			DOES; \
	} \
	void orr_##NAME PARAMETERS \
	{ \
		each_##NAME(count, __VA_ARGS__); \
	}

/* A row of n elements in ORR_LANES sums, so that it becomes vectors: the rest for each i + k,
 * of lane k. */
#define ORR_LANES 16
#define ORR_IN_LANES(n, ...) \
	do { \
		int64_t i = 0; \
\
		for (; i + ORR_LANES <= (n); i += ORR_LANES) \
			for (int k = 0; k < ORR_LANES; k++) \
				__VA_ARGS__; \
		for (int k = 0; i + k < (n); k++) \
			__VA_ARGS__; \
	} while (0)

/* The width that is chosen here. */
static inline const char *orr_vector_instructions(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
	return __builtin_cpu_supports("avx512f") ? "AVX-512"
	       : __builtin_cpu_supports("avx2")  ? "AVX2"
						 : "SSE2";
#else
	return "what the compiler was told";
#endif
}
