/* orrery show: a model before scheduling. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "options.h"
#include "base/input_file.h"
#include "base/utf8.h"
#include "orrery/graph.h"
#include "output.h"
#include "report/report.h"
#include "plan/plan_file.h"
#include "rewrite/rewrite.h"

/* Each with what it may be told, and the value that it has otherwise. */
static int list_operators(void)
{
	const char *op, *text;

	for (int i = 0; (op = orr_graph_op(i, &text)); i++)
		printf(*text ? "%-22s %s\n" : "%s\n", op, text);
	return command_end(0, NULL);
}

/* A plan has none of its own to show. */
static int read_model(struct orr_graph **graph, const char *source, struct orr_error *err)
{
	int code = orr_graph_read(graph, source, err);

	return code == ORR_E_INPUT && orr_plan_is(source)
		       ? orr_fail(err, code,
				  "%s: a plan, and no model: show the model that it names, or "
				  "simulate the plan",
				  source)
		       : code;
}

/* Data in a FIFO, a device or a folder: the line of train, which reads it. Without data a model has
 * all to show. */
static int check_data(const struct orr_graph *g, struct orr_error *err)
{
	struct stat about;
	int code;

	if (!g->data || stat(g->data, &about) || S_ISREG(about.st_mode))
		return 0;
	code = orr_graph_check_data(g, err);
	return code ? code : orr_input_open(NULL, NULL, g->data, "", err);
}

/* A terminal would obey the control characters that a label may hold; a file keeps them. */
static int write_dot(const struct orr_graph *g, struct orr_error *err)
{
	char *text = NULL;
	size_t size = 0, length;
	FILE *file = isatty(STDOUT_FILENO) ? open_memstream(&text, &size) : stdout;
	int code = file ? orr_graph_write_dot(g, file, err)
			: orr_fail(err, ORR_E_NOMEM, "%s: no memory to show it", g->name);

	if (!file || file == stdout)
		return code;
	(void)fclose(file);
	for (const char *at = text; !code && at < text + size; at += length) {
		length = orr_utf8_shown(at, (size_t)(text + size - at));
		if (length)
			(void)fwrite(at, 1, length, stdout);
		else if (*at == '\n' || *at == '\t')
			(void)putchar(*at);
		else
			printf("\\x%02x", (unsigned char)*at);
		length = length ? length : 1;
	}
	free(text);
	return code;
}

int cmd_show(int argc, char **argv)
{
	const struct options options =
		options_read(VERB_SHOW, "GRAPH",
			     "Show the operators of a model, its encoders, parameters, operations "
			     "(FLOP) and sizes. GRAPH is a DOT file, a PipeDream "
			     "profile, or a study such as chain:8 or towers:3,3/2.",
			     argc, argv);
	struct orr_graph *graph = NULL;
	struct orr_error err = {""};
	int code;

	if (options.operators)
		return list_operators();
	if ((code = read_model(&graph, options.open.source, &err)) ||
	    (code = check_data(graph, &err)) ||
	    (code = orr_graph_split(&graph, graph, options.open.splits, &err)))
		goto out;
	if (options.dot) {
		code = write_dot(graph, &err);
	} else if (!options.output.json) {
		code = orr_graph_report_write(stdout, graph, &err);
	} else {
		code = output_json(orr_graph_report_json(graph, &err), &err);
	}
out:
	orr_graph_destroy(graph);
	return command_end(code, &err);
}
