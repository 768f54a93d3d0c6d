#pragma once
#include <stdint.h>

struct orr_link_cost;

/* For qsort() and bsearch(): the order of edges and of a cluster's pairs, or whatever begins with
 * the ints from and to. */
int orr_ends_compare(const void *a, const void *b);

/* A ring all-reduce over k workers joined by links like this one, on each of which as many of its
 * transfers take turns: 1 unless both ways of one link do, or there are few lanes. */
int64_t orr_ring_over_ns(const struct orr_link_cost *link, int k, int64_t bytes, int turns);
