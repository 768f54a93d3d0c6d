/* What holds of any model that was read. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/graph.h"
#include "orrery/machine.h"
#include "pipeline/partition.h"
#include "orrery/pipeline.h"

#define MOST_OPERATORS 200 /* that are worth the time */

static void write_and_read(const struct orr_graph *g)
{
	struct orr_graph *again = NULL;
	struct orr_error err = {""};
	size_t size = 0;
	char *text = NULL;
	FILE *file = open_memstream(&text, &size);

	if (!file || orr_graph_write_dot(g, file, &err) || fclose(file))
		fail("cannot be written", err.msg);
	if (orr_graph_parse(&again, "again.dot", text, &err))
		fail("cannot be read back", err.msg);
	if (again->n_operators != g->n_operators || again->n_encoders != g->n_encoders)
		fail("read back to another graph", text);
	orr_graph_destroy(again);
	free(text);
}

static void cut(const struct orr_graph *g)
{
	struct orr_machine machine = orr_machine_default(3);
	struct orr_pipeline *p = NULL;
	struct orr_error err = {""};

	if (orr_partition(&p, g, &machine, 0, 12, &err))
		check_refusal(&err);
	orr_pipeline_destroy(p);
}

void fuzz_model(const struct orr_graph *g)
{
	if (g->n_operators > MOST_OPERATORS)
		return;
	write_and_read(g);
	cut(g);
}
