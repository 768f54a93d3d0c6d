#include "study.h"

#include <stdlib.h>
#include <string.h>

#include "base/input_file.h"
#include "base/json.h"
#include "options.h"
#include "orrery/graph.h"
#include "report/html.h"

struct files {
	json_t *json;
	const char *data; /* of the model, which no simulation reads */
};

/* One that a plan only names may not be there. */
static void add_file(void *user, const char *path)
{
	struct files *files = user;
	char *text = NULL;

	if (files->data && !strcmp(path, files->data))
		return;
	if (!orr_input_read(&text, NULL, path, "", NULL))
		orr_json_set(&files->json, path, json_string(text));
	free(text);
}

json_t *study_json(const struct options *o, const struct orr_opened *x)
{
	struct files files;
	json_t *study;

	if (!o->output.html || !orr_html_has_engine() || o->measured || x->choice.module)
		return NULL;
	study = json_object();
	files = (struct files){json_object(), x->graph->data};
	output_each_input(add_file, &files);
	orr_json_set(&study, "graph", json_string(o->open.source));
	orr_json_set(&study, "options", options_words());
	orr_json_set(&study, "files", files.json);
	return study;
}
