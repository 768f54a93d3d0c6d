#pragma once
/* Exchange of schedules: the CSV of PyTorch's torch.distributed.pipelining. A row is a worker, a
 * cell one job in the worker's order, as stage, pass and microbatch: 0F0 forward, 0I0 input
 * gradient, 0W0 weight gradient, 0B0 the whole backward; an empty cell is idle time. Owners of
 * parameters are not in it: each worker owns those that it computes with. */
#include <stddef.h>
#include <stdio.h>
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_table;
struct orr_timeline;

/* Read a file. Strict: a wrong cell is refused as FILE:ROW:COLUMN, the column counted in cells.
 * Also accepted: the older notation (B for I, BW for B); overlapped groups, (0F7;7B3)OVERLAP_F_B,
 * read as a sequence; and the transfers, waits and sharding of the form compute_comms (0SEND_F0,
 * 0WAIT_SEND_F0, 0UNSHARD), which are ignored. If a file splits only some backward passes, each
 * whole one is read as I followed by W. */
int orr_exchange_read(struct orr_table **out, const char *path, struct orr_error *err);
/* The same from text in memory; name stands in the messages. */
int orr_exchange_parse(struct orr_table **out, const char *name, const char *text, size_t length,
		       struct orr_error *err);

/* Write the order of every worker. If all times are multiples of a common step, and no job takes
 * more than ten steps, a cell is one step and idle steps are empty; else idle time is left out. Of
 * a graph that was split: of the stages before, a row a group, without idle time. */
int orr_exchange_write(FILE *file, const struct orr_timeline *t, struct orr_error *err);

ORR_END
