#pragma once
/* What StarPU has for a run: handles, and memory on its nodes. Each is noted when it is made, and
 * all of them are given back together, as orr_arrays are freed. After a failure nothing more is
 * made: handles stay as they are, and the fault is looked at once, at the end. */
#include <starpu.h>
#include "work.h"

struct orr_given;

struct orr_handles {
	struct orr_arrays *arrays; /* borrowed, as the next: of what is noted */
	struct orr_fault *fault;
	struct orr_given *last;
};

/* n floats, whose memory the writer allocates. An empty tensor, too, orders its writer and its
 * readers. */
void orr_handles_floats(struct orr_handles *all, starpu_data_handle_t *handle, int64_t n);
/* No data: it orders tasks. */
void orr_handles_void(struct orr_handles *all, starpu_data_handle_t *handle);
/* n floats of stage s that stay on a node, worker w's. */
void orr_handles_block(struct orr_handles *all, starpu_data_handle_t *handle, int64_t n,
		       unsigned node, int s, int w);
/* n zeros of a size in main memory that devices can write to; NULL: there are none. */
void *orr_handles_pinned(struct orr_handles *all, size_t n, size_t size);

void orr_handles_fini(struct orr_handles *all); /* nothing may be in flight */
