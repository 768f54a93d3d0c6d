#include "text_table.h"

#include <string.h>

static int n_headings(const struct orr_rows *rows)
{
	return rows->columns->heading[1] ? 2 : 1;
}

/* The headings are the rows before 0. */
static void fill(const struct orr_rows *rows, int i, const char **cells)
{
	for (int k = 0; k < rows->n_columns; k++)
		cells[k] = i < 0 ? rows->columns[k].heading[i + n_headings(rows)] : "";
	if (i >= 0)
		rows->fill(rows->user, i, cells);
}

static bool is_elided(const struct orr_rows *rows, int i)
{
	return rows->most && rows->n > rows->most && i >= rows->most / 2 &&
	       i < rows->n - rows->most / 2;
}

static void measure(const struct orr_rows *rows, const char **cells)
{
	for (int k = 0; k < rows->n_columns; k++) {
		int *width = &rows->columns[k].width, length = (int)strlen(cells[k]);

		*width = length > *width ? length : *width;
	}
}

static void write_row(FILE *file, const struct orr_rows *rows, const char **cells)
{
	for (int k = 0; k < rows->n_columns; k++) {
		const struct orr_column *column = &rows->columns[k];
		bool left = !k || column->left, ends = k && left && k + 1 == rows->n_columns;

		if (!column->hidden && (!ends || *cells[k]))
			fprintf(file, "%s%*s", k ? "  " : "",
				ends   ? 0
				: left ? -column->width
				       : column->width,
				cells[k]);
	}
	fputc('\n', file);
}

void orr_rows_write(FILE *file, const struct orr_rows *rows)
{
	const char *cells[ORR_MOST_COLUMNS];

	for (int pass = 0; pass < 2; pass++)
		for (int i = -n_headings(rows); i < rows->n; i++) {
			if (is_elided(rows, i)) {
				if (pass && !is_elided(rows, i - 1))
					fprintf(file, "... %d more\n", rows->n - rows->most);
				continue;
			}
			fill(rows, i, cells);
			if (pass)
				write_row(file, rows, cells);
			else
				measure(rows, cells);
		}
}
