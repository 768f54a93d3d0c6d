#ifndef ORR_ACROSS_H
#define ORR_ACROSS_H
/* A command that mpirun has started on several ranks: rank 0 alone prints, and all of them end together. */
#include <jansson.h>
#include "error.h"
#include "traffic.h"

struct orr_dataset;
struct orr_run;

/* What a rank came to in all steps. */
struct across_rank {
	struct orr_traffic traffic;
	int64_t data_bytes; /* of the values of the dataset that it holds */
};

/* Join the other ranks; alone, it does nothing. */
int across_start(struct orr_error *err);
/* The end of the command: the exit code, and the message on rank 0. */
int across_end(int code, const struct orr_error *err);
/* The same for wrong options, which every rank has seen, before or after across_start. */
void across_refuse(const struct orr_error *err) __attribute__((noreturn));

/* Of every rank, on every rank: [n_ranks], the caller's to free; NULL: it failed. */
struct across_rank *across_gather(struct orr_run *run, const struct orr_dataset *data, struct orr_error *err);
/* An array with an object for each rank; NULL: no memory. */
json_t *across_json(const struct across_rank *ranks);
/* One line for people. */
void across_print(const struct across_rank *ranks, int64_t n_steps);
#endif
