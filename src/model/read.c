/* Where graphs come from: a file, a text or nothing but a study's name. */
#include "draft.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/input.h"
#include "orrery/utf8.h"
#include "text.h"

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
	return orr_fail(err, ORR_E_INPUT,
			"%s: data: %s is not in the folder of the graph: say that you want it "
			"([data])",
			g->name, g->data);
}

#define CURE \
	"a DOT file, a model in ONNX (.onnx), a PipeDream profile, or a study such as chain:8 or " \
	"towers:3,3/2"

static bool is_onnx(const char *path)
{
	size_t length = strlen(path);

	return length > 5 && !strcmp(path + length - 5, ".onnx");
}

static int read_onnx(struct orr_graph **out, const char *path, struct orr_error *err)
{
	struct orr_draft draft = {0};
	struct orr_error unheard;
	char *bytes = NULL;
	size_t n;
	int code;

	err = err ? err : &unheard;
	if (!(code = orr_input_read(&bytes, &n, path, CURE, err)) &&
	    !(code = orr_draft_init(&draft, path, err)) &&
	    !(code = orr_onnx_read(&draft, bytes, n, err)))
		code = orr_draft_finish(out, &draft, err);
	if (!code && !((*out)->weights = strdup(path)))
		code = orr_fail(err, ORR_E_NOMEM, "%s: no memory for its path", path);
	orr_draft_fini(&draft);
	free(bytes);
	return code;
}

int orr_graph_read(struct orr_graph **out, const char *source, struct orr_error *err)
{
	struct orr_draft draft = {0};
	struct orr_graph *g = NULL;
	char *text = NULL;
	int code;

	if (orr_study_is(source)) {
		if (!(code = orr_draft_init(&draft, source, err)) &&
		    !(code = orr_study_read(&draft, source, err)))
			code = orr_draft_finish(out, &draft, err);
		orr_draft_fini(&draft);
		return code;
	}
	if (is_onnx(source))
		code = read_onnx(&g, source, err);
	else if (!(code = orr_input_read(&text, NULL, source, CURE, err)))
		code = orr_graph_parse(&g, source, text, err);
	if (!code)
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
	struct orr_error unheard;
	struct orr_draft draft = {0};
	int code;

	if (!err)
		err = &unheard;
	if ((code = orr_text_check(&text, name, err)) || (code = orr_draft_init(&draft, name, err)))
		return orr_text_fail(code, err);
	code = orr_pipedream_is(text) ? orr_pipedream_read(&draft, text, err)
				      : orr_dot_read(&draft, text, err);
	if (!code && !(code = draft.data ? orr_input_name(draft.data, err) : 0))
		code = orr_draft_finish(out, &draft, err);
	orr_draft_fini(&draft);
	return orr_text_fail(code, err);
}
