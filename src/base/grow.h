#pragma once
/* Arrays that get longer. */
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

/* Room for one more than n elements of a size in *array, which malloc made; *room: for how many it
 * has some. false: no memory, and nothing has changed. */
static inline bool orr_grow(void *array, int n, int *room, size_t size)
{
	void **at = array, *more;
	int wanted = *room ? 2 * *room : 16;

	if (n < *room)
		return true;
	if (!(more = realloc(*at, (size_t)wanted * size)))
		return false;
	*at = more;
	*room = wanted;
	return true;
}
