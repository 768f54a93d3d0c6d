/* Lengths of the microbatches of a step: a list, or a file with a number a line. */
#include "orrery/open.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/input_file.h"
#include "base/quantity.h"

#define LEAST 1e-9
#define MOST 1e15

struct list {
	double *lengths; /* owned */
	int n, room;
};

static int add(struct list *list, const char *word, const char *what, struct orr_error *err)
{
	if (list->n == list->room) {
		int room = list->room ? 2 * list->room : 64;
		double *more = realloc(list->lengths, (size_t)room * sizeof(*more));

		if (!more)
			return orr_fail(err, ORR_E_NOMEM, "%s: no memory for %d lengths", what,
					room);
		list->lengths = more;
		list->room = room;
	}
	return orr_real_parse(&list->lengths[list->n++], word, LEAST, MOST, what, err);
}

static int add_words(struct list *list, char *words, const char *what, struct orr_error *err)
{
	int code = 0;

	for (char *word; !code && (word = strsep(&words, ", \t\r\n"));)
		if (*word)
			code = add(list, word, what, err);
	return code;
}

static int read_list(struct list *list, const char *text, struct orr_error *err)
{
	char *copy = strdup(text), *words = copy;
	int code = copy ? 0 : orr_fail(err, ORR_E_NOMEM, "[lengths]: no memory");

	for (char *word; !code && (word = strsep(&words, ","));)
		code = add(list, word + strspn(word, " "), "[lengths]", err);

	free(copy);
	return code;
}

static int read_file(struct list *list, const char *path, struct orr_error *err)
{
	char *text = NULL, *rest, *line, what[256];
	int code =
		orr_input_read(&text, NULL, path,
			       "a file with one length a line ([lengths]), or give numbers, such "
			       "as 512,1024",
			       err);

	rest = text;
	for (int n = 1; !code && (line = strsep(&rest, "\n")); n++) {
		(void)snprintf(what, sizeof(what), "%.200s:%d", path, n);
		code = add_words(list, line, what, err);
	}
	free(text);
	return code;
}

int orr_open_lengths(struct orr_graph *g, const struct orr_open_options *options,
		     struct orr_error *err)
{
	const char *text = options->lengths;
	struct list list = {NULL, 0, 0};
	int code;

	if (!text)
		return 0;
	code = strspn(text, "0123456789.,eE+- ") == strlen(text) ? read_list(&list, text, err)
								 : read_file(&list, text, err);

	if (!code && !list.n)
		code = orr_fail(err, ORR_E_INPUT, "[lengths]: %.200s: no number in it", text);
	if (!code)
		code = orr_graph_set_lengths(g, list.lengths, list.n, err);
	free(list.lengths);
	return code;
}
