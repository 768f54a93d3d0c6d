/* Where graphs come from: a file, a text or nothing but a study's name. */
#include "draft.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/input_file.h"
#include "base/utf8.h"

/* What only a file has: a folder, and a path which need not be text. */
static int note_path(struct orr_graph *g, const char *path, struct orr_error *err)
{
	const char *slash = strrchr(path, '/');

	free(g->name);
	g->name = orr_utf8_copy(path);
	g->folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	return g->name && g->folder ? 0 : orr_no_memory(err, path);
}

int orr_graph_check_data(const struct orr_graph *g, struct orr_error *err)
{
	char *real = NULL;

	if (!g->data || !orr_input_within(&real, g->folder ? g->folder : "", g->data)) {
		free(real);
		return 0;
	}
	if (g->folder && errno != EXDEV)
		return orr_fail(err, ORR_E_INPUT,
				"%s: data: %s: cannot open it: %s: name a CSV, .npy or "
				".safetensors file ([data])",
				g->name, g->data, strerror(errno));
	return orr_fail(
		err, ORR_E_INPUT,
		"%s: data: %s is not in the folder of the graph: say that you want it ([data])",
		g->name, g->data);
}

#define CURE "a DOT file, a PipeDream profile, or a study such as chain:8 or towers:3,3/2"

/* Which Python reads. */
static int check_onnx(const char *path, struct orr_error *err)
{
	size_t length = strlen(path);

	if (length < 6 || strcmp(path + length - 5, ".onnx") != 0)
		return 0;
	return orr_fail(err, ORR_E_INPUT,
			"%s: a model in ONNX: python -m orrery_torch.onnx %s -o model.dot makes a "
			"graph of it",
			path, path);
}

int orr_graph_read(struct orr_graph **out, const char *source, struct orr_error *err)
{
	struct orr_draft draft = {0};
	struct orr_graph *g = NULL;
	char *text = NULL;
	int code;

	if (orr_study_is(source)) {
		if (!orr_draft_init(&draft, source, err))
			orr_study_read(&draft, source);
		code = orr_draft_finish(out, &draft);
		orr_draft_fini(&draft);
		return code;
	}
	if (!(code = check_onnx(source, err)) &&
	    !(code = orr_input_read(&text, NULL, source, CURE, err)) &&
	    !(code = orr_graph_parse(&g, source, text, err)))
		code = note_path(g, source, err);
	free(text);
	if (code)
		orr_graph_destroy(g);
	else
		*out = g;
	return code;
}

int orr_text_fail(int code, struct orr_error *err)
{
	struct orr_error raw = *err;

	if (code)
		(void)orr_utf8_print(err->msg, sizeof(err->msg), raw.msg);
	return code;
}

int orr_text_check(const char **at, const char *name, struct orr_error *err)
{
	static const char mark[] = "\xef\xbb\xbf"; /* of byte order, which some editors write */
	const char *text = *at += strncmp(*at, mark, strlen(mark)) ? 0 : strlen(mark);
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

int orr_graph_parse(struct orr_graph **out, const char *name, const char *text,
		    struct orr_error *err)
{
	struct orr_error unheard;
	struct orr_draft draft = {0};
	int code;

	if (!err)
		err = &unheard;
	if ((code = orr_text_check(&text, name, err)) || (code = orr_draft_init(&draft, name, err)))
		return orr_text_fail(code, err);
	if (orr_pipedream_is(text))
		orr_pipedream_read(&draft, text);
	else
		orr_dot_read(&draft, text);
	if (!draft.code && draft.data)
		orr_draft_keep(&draft, orr_input_name(draft.data, err));
	code = orr_draft_finish(out, &draft);
	orr_draft_fini(&draft);
	return orr_text_fail(code, err);
}
