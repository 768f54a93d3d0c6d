#pragma once
#include <stdatomic.h>
#include <stdbool.h>

/* Called by every member before a sum, in the worker that it keeps; NULL: nothing is. */
extern void (*shared_collective_begins)(void);

/* The sum of this number, from 1 on in a process, never begins; 0: all do. */
extern int shared_collective_lost;
/* And a group says that it has failed as soon as one did not. */
extern bool shared_collective_tells;
/* Sums that members have begun, and groups that were aborted. */
extern atomic_int shared_collective_n_sums, shared_collective_n_aborted;
