#pragma once
/* A table as text, whose columns are as wide as what they hold. Private to the reports. */
#include <stdbool.h>
#include <stdio.h>

/* The first column is on the left; a last one that is on the left ends where its text does. */
struct orr_column {
	const char *heading[2]; /* the second line may be NULL, for all of them alike */
	bool left, hidden;
	int width; /* at least; then as measured */
};

enum { ORR_MOST_COLUMNS = 24 };
struct orr_rows {
	struct orr_column *columns;
	int n_columns, n;
	int most; /* rows that are shown: of more of them the first and the last; 0: all */
	/* Row i, each cell of which is "" before; see orr_text(). It is called twice: to measure,
	 * when it may still hide and show columns, and to write. */
	void (*fill)(void *user, int i, const char **cells);
	void *user;
};
void orr_rows_write(FILE *file, const struct orr_rows *rows);
