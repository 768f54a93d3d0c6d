#pragma once
/* Arrays that are allocated and freed together: one check for all of them, and one free. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include "orrery/orrery.h"

ORR_BEGIN

union orr_array {
	union orr_array *before;
	max_align_t aligned;
};

struct orr_arrays { /* {0}: none */
	union orr_array *last;
	size_t bytes; /* asked for */
	bool failed;  /* one of them is NULL */
};

/* n zeros of a size, until orr_arrays_free(); NULL: no memory, and failed says so from then on. */
static inline void *orr_arrays_add(struct orr_arrays *all, size_t n, size_t size)
{
	union orr_array *x = n > ((size_t)PTRDIFF_MAX - sizeof(*x)) / size
				     ? NULL
				     : calloc(1, sizeof(*x) + n * size);

	all->bytes += n * size;
	if (!x) {
		all->failed = true;
		return NULL;
	}
	x->before = all->last;
	all->last = x;
	return x + 1;
}

/* The same for n elements of the array that a pointer is for. */
#define orr_arrays_make(all, array, n) \
	((array) = orr_arrays_add(all, (size_t)(n), sizeof(*(array))))

static inline void orr_arrays_free(struct orr_arrays *all)
{
	while (all->last) {
		union orr_array *x = all->last;

		all->last = x->before;
		free(x);
	}
}

/* what: is short of memory. */
static inline int orr_no_memory(struct orr_error *err, const char *what)
{
	return orr_fail(err, ORR_E_NOMEM, "%s: no memory", what);
}

/* 0; where one of them is NULL, all are freed. what: is short of memory. */
static inline int orr_arrays_check(struct orr_arrays *all, const char *what, struct orr_error *err)
{
	if (!all->failed)
		return 0;
	orr_arrays_free(all);
	return orr_fail(err, ORR_E_NOMEM, "%s: no memory for %zu bytes", what, all->bytes);
}

ORR_END
