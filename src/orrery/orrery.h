#ifndef ORR_ORRERY_H
#define ORR_ORRERY_H
/* The legend. These letters, and no others, are used short everywhere:
 *
 *   s  stage, in [0, n_stages)                S stages, numbered topologically
 *   b  microbatch, in [0, n_microbatches)     B microbatches make a minibatch
 *   d  pass: forward, backward, weight gradient
 *   w  worker, in [0, n_workers)              computes jobs one at a time
 *   j  job (s, b, d) as one number, see jobs.h
 *
 * A job prints as 2F0: stage 2, forward, microbatch 0.
 * Times are int64_t nanoseconds and sizes int64_t bytes, so that sums are exact; the end of a name
 * says which (_ns, _bytes). In a study with unit costs one unit is one second: 1,000,000,000 ns. */
#include <stdint.h>
#include "declare.h"

ORR_BEGIN

#define ORR_UNIT_NS INT64_C(1000000000)

enum orr_pass {
	ORR_PASS_F, /* forward */
	ORR_PASS_B, /* backward: all of it, or the input gradient alone where W is a job of its own
		     */
	ORR_PASS_W  /* weight gradient, only in schedules that split the backward */
};
#define ORR_N_PASSES 3

/* 'F', 'B' or 'W'. */
static inline char orr_pass_letter(enum orr_pass d)
{
	return "FBW"[d];
}

/* Of the library that runs, and what it was built with: "0.1.0 (StarPU 1.3.10, no MPI, no CUDA)".
 */
const char *orr_version(void);

ORR_END
#endif
