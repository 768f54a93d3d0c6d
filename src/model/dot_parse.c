/* libcgraph, kept from printing. */
#include "dot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* libcgraph reports through a function without an argument of ours; it can parse one text at a time
 * anyway. */
static char cgraph_text[512];

static int keep_text(char *text)
{
	size_t used = strlen(cgraph_text);

	(void)snprintf(cgraph_text + used, sizeof(cgraph_text) - used, "%s", text);
	return 0;
}

/* "Error: FILE: syntax error in line 2 near ']'" as "FILE:2: syntax error near ']'". */
static int fail_syntax(const char *file, struct orr_error *err)
{
	const char *at = strstr(cgraph_text, " in line "), *near;
	char *end;
	long line;

	cgraph_text[strcspn(cgraph_text, "\n")] = '\0';
	if (!at)
		return orr_fail(err, ORR_E_INPUT, "%s: libcgraph cannot read it: %s", file,
				*cgraph_text ? cgraph_text : "it does not say why");
	line = strtol(at + strlen(" in line "), &end, 10);
	near = strstr(end, "near ");
	return orr_fail(err, ORR_E_INPUT,
			"%s:%ld: syntax error %.100s: see graphs/README.md for "
			"what may stand there",
			file, line, near ? near : end + strspn(end, " "));
}

int orr_dot_parse(Agraph_t **out, const char *file, const char *text, struct orr_error *err)
{
	Agraph_t *graph;
	agusererrf before;
	agerrlevel_t level;
	char *lines = NULL;

	/* A // comment that ends with the text, and not with its line, would go on in the next one.
	 */
	if (asprintf(&lines, "%s\n", text) < 0)
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", file);
	before = agseterrf(keep_text);
	level = agseterr(AGWARN);
	cgraph_text[0] = '\0';
	(void)agreseterrors();
	agreadline(1);
	agsetfile(NULL);
	graph = agmemread(lines);
	free(lines);
	if (graph && agerrors() > 0) {
		(void)agclose(graph);
		graph = NULL;
	}
	(void)agreseterrors();
	(void)agseterr(level);
	(void)agseterrf(before);
	*out = graph;
	return graph ? 0 : fail_syntax(file, err);
}
