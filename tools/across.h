#ifndef ORR_ACROSS_H
#define ORR_ACROSS_H
/* A command that mpirun has started on several ranks: rank 0 alone prints, and all of them end together. */
#include <jansson.h>
#include "error.h"
#include "traffic.h"

struct orr_run;

/* Join the other ranks; alone, it does nothing. */
int across_start(struct orr_error *err);
/* The end of the command: the exit code, and the message on rank 0. */
int across_end(int code, const struct orr_error *err);

/* What every rank has sent and received: traffic[n_ranks], on every rank; NULL: no memory. */
struct orr_traffic *across_traffic(struct orr_run *run, struct orr_error *err);
/* An array with an object for each rank, of what crossed in all steps; NULL: no memory. */
json_t *across_json(const struct orr_traffic *traffic);
/* One line for people. */
void across_print(const struct orr_traffic *traffic, int64_t n_steps);
#endif
