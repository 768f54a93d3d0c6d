#ifndef ORR_RANKS_H
#define ORR_RANKS_H
/* The processes of a run that mpirun started: their numbers, messages between them, and how all of
 * them end when one fails. Without mpirun, or built without StarPU's MPI, there is one rank, and
 * nothing is sent. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "error.h"

ORR_BEGIN

/* Join the other ranks. Does nothing when mpirun did not start this process, or after a first call.
 * say (may be NULL) is called on one rank with a message when a rank fails, dies or hangs; then all
 * of them are ended. */
int orr_ranks_start(void (*say)(const char *message), struct orr_error *err);
/* Leave, all together, after the last run. */
void orr_ranks_stop(void);
int orr_ranks_count(void);
int orr_ranks_rank(void);

/* Collective: all ranks call these, in the same order. They wait without using the core. */

/* 0 where code is 0 on every rank; else every rank gets the code and the message of the lowest rank
 * where it is not. */
int orr_ranks_agree(int code, struct orr_error *err);
/* Replace n numbers by their sums over the ranks. */
int orr_ranks_sum(double *numbers, int n, struct orr_error *err);

/* Messages between the threads that call a run; those of one tag arrive in order. Tags below
 * ORR_RANKS_FIRST_TAG belong to the library. bytes is the caller's: orr_ranks_send returns when it
 * may be reused, orr_ranks_start_send at once, and orr_ranks_sent waits for all started sends. A
 * receiver asks for the number of bytes that was sent. */
enum { ORR_RANKS_CLOCK, ORR_RANKS_GATHER, ORR_RANKS_FIRST_TAG };
int orr_ranks_send(int to, int tag, const void *bytes, size_t n, struct orr_error *err);
int orr_ranks_start_send(int to, int tag, const void *bytes, size_t n, struct orr_error *err);
int orr_ranks_sent(struct orr_error *err);
int orr_ranks_receive(int from, int tag, void *bytes, size_t n, struct orr_error *err);

/* Collective: nanoseconds to add to this rank's CLOCK_MONOTONIC_RAW to get rank 0's; 0 where the
 * difference is below what can be measured, as on one host. */
int orr_ranks_clock(int64_t *offset_ns, struct orr_error *err);

/* This rank cannot go on: rank 0 says message, and all ranks end with this exit status. Returns
 * only where there is one rank. */
void orr_ranks_fail(int status, const char *message);

ORR_END
#endif
