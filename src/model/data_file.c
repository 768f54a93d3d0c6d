#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "data_file.h"
#include "orrery/graph.h"

int orr_data_cannot_read(const char *path, int why, struct orr_error *err)
{
	return orr_fail(err, ORR_E_INPUT, "%s: cannot read it: %s: name " ORR_DATA_KINDS, path,
			strerror(why));
}

int orr_data_keep(int64_t **index_of, int64_t *n_kept, int64_t n_columns, const char *name,
		  const struct orr_data_file *in, struct orr_error *err)
{
	*n_kept = n_columns;
	if (!in->wanted)
		return 0;
	if (!(*index_of = calloc((size_t)n_columns, sizeof(**index_of))))
		return orr_no_memory(err, in->path);
	for (int i = 0; i < in->n_wanted; i++) {
		const struct orr_data_columns *w = &in->wanted[i];
		bool here = !w->tensor || (name && !strcmp(w->tensor, name));

		for (int64_t k = 0; here && k < w->n; k++)
			if (w->columns[k] >= 0 && w->columns[k] < n_columns)
				(*index_of)[w->columns[k]] = 1;
	}
	*n_kept = 0;
	for (int64_t c = 0; c < n_columns; c++)
		(*index_of)[c] = (*index_of)[c] ? (*n_kept)++ : -1;
	return 0;
}
