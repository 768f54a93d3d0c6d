#ifndef ORR_RANKS_H
#define ORR_RANKS_H
/* The processes of a run that mpirun started: who is who, what goes between them, and how all of
 * them end where one fails. Alone, without mpirun, there is one rank, and nothing goes anywhere.
 * One of two files: ranks_mpi.c, or ranks_none.c where StarPU's MPI was not found. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "error.h"
#include "traffic.h"

/* Join the other ranks, once per process; does nothing when it was not started by mpirun, or has
 * joined before. say, which may be NULL, is called on one rank, with the message, when a rank
 * fails, dies or hangs; then all of them are ended. */
int orr_ranks_start(void (*say)(const char *message), struct orr_error *err);
/* Leave, all together; after the last run. */
void orr_ranks_stop(void);
int orr_ranks_count(void);
int orr_ranks_rank(void);

/* All ranks call these, in the same order. They wait without using the core. */

/* Has it gone well everywhere? Else every rank gets the code and the message of the first one where
 * it has not. */
int orr_ranks_agree(int code, struct orr_error *err);
/* Sums of n numbers, on every rank. */
int orr_ranks_sum(double *numbers, int n, struct orr_error *err);

/* Messages between the threads that call a run; those of one tag arrive in order.
 * receive takes exactly so many bytes. send returns when bytes may be used again, start_send
 * before; orr_ranks_sent waits for all that was started. */
enum { ORR_RANKS_CLOCK, ORR_RANKS_GATHER, ORR_RANKS_FIRST_TAG }; /* tags from here on are free */
int orr_ranks_send(int to, int tag, const void *bytes, size_t n, struct orr_error *err);
int orr_ranks_start_send(int to, int tag, const void *bytes, size_t n, struct orr_error *err);
int orr_ranks_sent(struct orr_error *err);
int orr_ranks_receive(int from, int tag, void *bytes, size_t n, struct orr_error *err);

/* What to add to this rank's CLOCK_MONOTONIC_RAW to have rank 0's; all ranks call it. 0 where the
 * clocks agree as well as can be measured, as on one host. */
int orr_ranks_clock(int64_t *offset_ns, struct orr_error *err);

/* A rank cannot go on: rank 0 says so, and all of them end. Does not return; alone, it does. */
void orr_ranks_fail(const char *message);
#endif
