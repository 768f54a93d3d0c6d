#ifndef ORR_EXCHANGE_H
#define ORR_EXCHANGE_H
/* Schedules as others write them: the CSV of PyTorch's torch.distributed.pipelining. A row is a
 * worker, a cell one job in the worker's order, stage, pass and microbatch: 0F0 forward, 0I0 input
 * gradient, 0W0 weight gradient, 0B0 the whole backward; an empty cell is idle time. Who owns
 * parameters does not stand in it: they are where they are computed with. */
#include <stddef.h>
#include <stdio.h>
#include "error.h"

ORR_BEGIN

struct orr_table;
struct orr_timeline;

/* Read a file. Strict: a wrong cell is refused as FILE:ROW:COLUMN, the column counted in cells.
 * Also read are the older writing (B for I, BW for B), groups that run together,
 * (0F7;7B3)OVERLAP_F_B, as one after the other, and transfers, waits for them and sharding as in
 * the form compute_comms (0SEND_F0, 0WAIT_SEND_F0, 0UNSHARD), which are passed over. Where a file
 * splits some backwards and not others, a whole one becomes its two halves, one right after the
 * other. */
int orr_exchange_read(struct orr_table **out, const char *path, struct orr_error *err);
/* The same from text in memory; name stands in the messages. */
int orr_exchange_parse(struct orr_table **out, const char *name, const char *text, size_t length,
		       struct orr_error *err);

/* Write who ran what in which order. Where all times are multiples of a common step, and no job
 * takes more than ten of them, a cell is a step and idle steps are empty; else there is no idle
 * time. */
int orr_exchange_write(FILE *file, const struct orr_timeline *t, struct orr_error *err);

ORR_END
#endif
