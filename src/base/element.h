#pragma once
/* The numbers of a file of tensors, and what they are as floats. */
#include <stdint.h>
#include "orrery/orrery.h"

/* By its name in a safetensors file, "BF16"; -1: there is none. */
int orr_element_find(const char *name);
const char *orr_element_name(enum orr_element element);
int64_t orr_element_bytes(enum orr_element element);

/* n columns of a row, NULL: the first ones, each as the nearest float; elements need not be
 * aligned. index_of: the place of each column in the row, NULL: its number. */
void orr_element_gather(enum orr_element element, const void *row, const int64_t *index_of,
			const int64_t *columns, int64_t n, float *to);
