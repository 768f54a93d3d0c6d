/* Any text as a model: read or refused in one line, and what is read can be cut, written and read
 * back. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "orrery/graph.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct orr_graph *g = NULL;
	struct orr_error err = {""};

	if (!text)
		return 0;
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	if (orr_graph_parse(&g, "fuzz.dot", text, &err)) {
		check_refusal(&err);
	} else {
		fuzz_model(g);
	}
	orr_graph_destroy(g);
	free(text);
	return 0;
}
