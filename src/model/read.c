/* Where graphs come from: a file, a text or nothing but a study's name. */
#include "draft.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "orrery/utf8.h"

#define MOST_BYTES (INT64_C(1) << 30) /* of a file */

/* All of file, with a zero behind it. */
static int read_all(char **out, size_t *length, FILE *file, const char *path, struct orr_error *err)
{
	size_t room = 65536, n = 0;
	char *text = NULL, *more;
	int code = 0;

	for (;;) {
		more = realloc(text, room);
		if (!more) {
			code = orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", path);
			goto out;
		}
		text = more;
		n += fread(text + n, 1, room - n - 1, file);
		if (n < room - 1)
			break;
		room *= 2;
		if ((int64_t)room > 2 * MOST_BYTES) {
			code = orr_fail(err, ORR_E_INPUT,
					"%s: more than 1 GiB: no graph is that long", path);
			goto out;
		}
	}
	if (ferror(file)) {
		code = orr_fail(err, ORR_E_IO, "%s: %s", path, strerror(errno));
		goto out;
	}
	text[n] = '\0';
	*length = n;
	*out = text;
	text = NULL;
out:
	free(text);
	return code;
}

static int read_file(char **text, size_t *length, const char *path, struct orr_error *err)
{
	FILE *file = fopen(path, "rb");
	struct stat status;
	int code;

	if (!file)
		return orr_fail(err, ORR_E_INPUT,
				"%s: %s: name a DOT file, a PipeDream profile, or a study "
				"such as chain:8 or towers:3,3/2",
				path, strerror(errno));
	if (fstat(fileno(file), &status) == 0 && S_ISDIR(status.st_mode))
		code = orr_fail(err, ORR_E_INPUT, "%s: a directory: name a file in it", path);
	else
		code = read_all(text, length, file, path, err);
	(void)fclose(file);
	return code;
}

/* A file may hold line breaks where a message quotes it. */
static int fail_on_one_line(int code, struct orr_error *err)
{
	char *c;

	for (c = err->msg; code && *c; c++)
		if (iscntrl((unsigned char)*c))
			*c = ' ';
	return code;
}

/* Names are those of the text. */
static int check_utf8(const char *name, const char *text, struct orr_error *err)
{
	size_t length = strlen(text), bad = orr_utf8_check(text, length);
	int line = 1;

	if (bad == length)
		return 0;
	for (size_t i = 0; i < bad; i++)
		line += text[i] == '\n';
	return orr_fail(err, ORR_E_INPUT,
			"%s:%d: a byte (%#x) that is no UTF-8: save the file as UTF-8", name, line,
			(unsigned char)text[bad]);
}

/* What only a file has: a folder, and a path which need not be text. */
static int note_path(struct orr_graph *g, const char *path, struct orr_error *err)
{
	const char *slash = strrchr(path, '/');

	free(g->name);
	g->name = orr_utf8_copy(path);
	g->folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	return g->name && g->folder
		       ? 0
		       : orr_fail(err, ORR_E_NOMEM, "%s: no memory for its path", path);
}

int orr_graph_check_data(const struct orr_graph *g, struct orr_error *err)
{
	char *folder = g->folder ? realpath(g->folder, NULL) : NULL;
	char *data = g->data ? realpath(g->data, NULL) : NULL;
	size_t length = folder ? strlen(folder) : 0;
	bool inside = folder && data && !strncmp(data, folder, length) &&
		      (data[length] == '/' || folder[length - 1] == '/');
	int code = 0;

	if (g->data && !data)
		code = orr_fail(err, ORR_E_INPUT,
				"%s: data: %s: cannot open it: %s: name a CSV file ([data])",
				g->name, g->data, strerror(errno));
	else if (g->data && !inside)
		code = orr_fail(
			err, ORR_E_INPUT,
			"%s: data: %s is not in the folder of the graph: say that you want it "
			"([data])",
			g->name, g->data);
	free(folder);
	free(data);
	return code;
}

int orr_graph_read(struct orr_graph **out, const char *source, struct orr_error *err)
{
	struct orr_draft draft = {0};
	struct orr_graph *g = NULL;
	size_t length = 0;
	char *text = NULL;
	int code;

	if (orr_study_is(source)) {
		if (!(code = orr_draft_init(&draft, source, err)) &&
		    !(code = orr_study_read(&draft, source, err)))
			code = orr_draft_finish(out, &draft, err);
		orr_draft_fini(&draft);
		return code;
	}
	code = read_file(&text, &length, source, err);
	if (!code && memchr(text, '\0', length))
		code = orr_fail(err, ORR_E_INPUT,
				"%s: a binary file: a graph is text, DOT or a PipeDream "
				"profile",
				source);
	if (!code && !(code = orr_graph_parse(&g, source, text, err)))
		code = note_path(g, source, err);
	free(text);
	if (code)
		orr_graph_destroy(g);
	else
		*out = g;
	return code;
}

int orr_graph_parse(struct orr_graph **out, const char *name, const char *text,
		    struct orr_error *err)
{
	static const char mark[] = "\xef\xbb\xbf"; /* of byte order, which some editors write */
	struct orr_error unheard;
	struct orr_draft draft = {0};
	int code;

	if (!err)
		err = &unheard;
	if (strncmp(text, mark, strlen(mark)) == 0)
		text += strlen(mark);
	if ((code = check_utf8(name, text, err)) || (code = orr_draft_init(&draft, name, err)))
		return fail_on_one_line(code, err);
	code = orr_pipedream_is(text) ? orr_pipedream_read(&draft, text, err)
				      : orr_dot_read(&draft, text, err);
	if (!code)
		code = orr_draft_finish(out, &draft, err);
	orr_draft_fini(&draft);
	return fail_on_one_line(code, err);
}
