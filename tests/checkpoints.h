#pragma once
/* A folder of checkpoints of a small state, which is different at every step and lies in two
 * shards. Any failure fails the test. */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include "checkpoint/checkpoint.h"

/* Fresh for each test: `folder` is empty, and lies in `work`. */
extern char work[], folder[80];
void make_folders(void);
void remove_folders(void);
int count_names(const char *path);
bool exists(const char *name); /* in the folder */

extern struct orr_error err; /* of what follows */
#define N_PARTS 3
extern const char *const parts[N_PARTS]; /* of each checkpoint */

/* Three tensors, and their values at that step. */
#define N_TENSORS 3
#define N_FLOATS 17
void fill(struct orr_named_tensor *tensors, float *values, int64_t step);

json_t *about(void); /* what the state is of; the caller's */
/* Write one, and remove all but the last `keep` ones. A code, as of the functions tested. */
int save(int64_t step, int keep);
/* Write its first shard, as if the process died then. */
void save_half(int64_t step);
/* The newest that opens: its step, or -1. All that it holds must be right. Those that are passed
 * over are reported: how many, and the last line. */
int64_t resume(void);
extern int n_reported;
extern char reported[512];
