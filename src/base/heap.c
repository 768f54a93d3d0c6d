#include "heap.h"

#include <assert.h>

#include "grow.h"

static bool before(struct orr_heap_entry x, struct orr_heap_entry y)
{
	if (x.key != y.key)
		return x.key < y.key;
	if (x.tie != y.tie)
		return x.tie < y.tie;
	return x.value < y.value;
}

int orr_heap_push(struct orr_heap *heap, int64_t key, int64_t tie, int64_t value,
		  struct orr_error *err)
{
	struct orr_heap_entry entry = {key, tie, value};
	int i = heap->n;

	if (!orr_grow(&heap->entries, heap->n, &heap->room, sizeof(entry)))
		return orr_fail(err, ORR_E_NOMEM, "no memory for a queue of %d", 2 * heap->room);
	for (heap->n++; i > 0 && before(entry, heap->entries[(i - 1) / 2]); i = (i - 1) / 2)
		heap->entries[i] = heap->entries[(i - 1) / 2];
	heap->entries[i] = entry;
	return 0;
}

struct orr_heap_entry orr_heap_pop(struct orr_heap *heap)
{
	struct orr_heap_entry top, last;
	int i = 0;

	assert(heap->n > 0);
	top = heap->entries[0];
	last = heap->entries[--heap->n];
	for (int child = 1; child < heap->n; child = 2 * i + 1) {
		if (child + 1 < heap->n && before(heap->entries[child + 1], heap->entries[child]))
			child++;
		if (!before(heap->entries[child], last))
			break;
		heap->entries[i] = heap->entries[child];
		i = child;
	}
	heap->entries[i] = last;
	return top;
}

void orr_heap_fini(struct orr_heap *heap)
{
	free(heap->entries);
	*heap = (struct orr_heap){0};
}
