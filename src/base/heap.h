#pragma once
/* A priority queue of small records: smallest (key, tie, value) first. */
#include <stdint.h>
#include "orrery/orrery.h"

struct orr_heap_entry {
	int64_t key, tie;
	int64_t value;
};

struct orr_heap {
	struct orr_heap_entry *entries; /* owned; all zero is an empty heap */
	int n, room;
};

int orr_heap_push(struct orr_heap *heap, int64_t key, int64_t tie, int64_t value,
		  struct orr_error *err);
struct orr_heap_entry orr_heap_pop(struct orr_heap *heap); /* not from an empty one */
void orr_heap_fini(struct orr_heap *heap);
