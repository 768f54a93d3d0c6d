#pragma once
/* A data set of drawn numbers. */
#include <stdbool.h>
#include <stdlib.h>

#include "orrery/graph.h"

/* Numbers in [-1, 1) that follow from seed, and in one column classes from 0 to 4. Of `every` rows
 * the first is for testing; 0: none. False: no memory. */
static inline bool draw_data(struct orr_dataset *data, int64_t n_rows, int64_t n_columns,
			     int64_t class_column, int every, uint64_t seed)
{
	*data = (struct orr_dataset){.n_rows = n_rows, .n_columns = n_columns};
	data->values = calloc((size_t)(n_rows * n_columns), sizeof(float));
	data->train = calloc((size_t)n_rows, sizeof(*data->train));
	data->test = calloc((size_t)n_rows, sizeof(*data->test));
	if (!data->values || !data->train || !data->test)
		return false;
	for (int64_t i = 0; i < n_rows * n_columns; i++) {
		seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
		data->values[i] = (float)(int64_t)(seed >> 33) * 0x1p-30f - 1;
	}
	for (int64_t r = 0; r < n_rows; r++) {
		data->values[r * n_columns + class_column] = (float)(r * 3 % 5);
		if (every && r % every == 0)
			data->test[data->n_test++] = r;
		else
			data->train[data->n_train++] = r;
	}
	return true;
}

static inline void free_data(struct orr_dataset *data)
{
	free(data->values);
	free(data->train);
	free(data->test);
}
