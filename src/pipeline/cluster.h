#pragma once
#include <stdbool.h>
#include <stdint.h>

struct orr_link_cost;

/* For qsort() and bsearch(): the order of edges and of a cluster's pairs, or whatever begins with
 * the ints from and to. */
int orr_ends_compare(const void *a, const void *b);

/* A ring all-reduce over k workers joined by links like this one; in_turn: the two directions of
 * the link take turns. */
int64_t orr_ring_over_ns(const struct orr_link_cost *link, int k, int64_t bytes, bool in_turn);
