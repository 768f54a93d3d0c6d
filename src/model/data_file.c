#include <stdlib.h>
#include <string.h>

#include "data_file.h"
#include "orrery/graph.h"

int orr_data_cannot_read(const char *path, int why, struct orr_error *err)
{
	return orr_fail(err, ORR_E_INPUT, "%s: cannot read it: %s: name " ORR_DATA_KINDS, path,
			strerror(why));
}

int orr_data_keep(int64_t **index_of, int64_t *n_kept, int64_t n_columns, const char *name,
		  const struct orr_data_columns *wanted, int n)
{
	*n_kept = n_columns;
	if (!wanted)
		return 0;
	if (!(*index_of = calloc((size_t)n_columns, sizeof(**index_of))))
		return -1;
	for (int i = 0; i < n; i++)
		for (int64_t k = 0; k < wanted[i].n; k++) {
			int64_t c = wanted[i].columns[k];

			if ((!wanted[i].tensor || (name && !strcmp(wanted[i].tensor, name))) &&
			    c >= 0 && c < n_columns)
				(*index_of)[c] = 1;
		}
	*n_kept = 0;
	for (int64_t c = 0; c < n_columns; c++)
		(*index_of)[c] = (*index_of)[c] ? (*n_kept)++ : -1;
	return 0;
}
