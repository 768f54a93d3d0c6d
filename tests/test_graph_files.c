/* The models that come with the sources: the examples, and those in the pages of text. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/graph.h"
#include "graphs.h"
#include "suite.h"

START_TEST(the_examples_are_as_their_comments_say)
{
	struct orr_graph *g = read_graph(ORR_SOURCE "/graphs/digits.dot");
	int64_t parameters = 0;
	int i, stages = 0;

	for (i = 0; i < g->n_operators; i++) {
		parameters += g->operators[i].n_parameters;
		if (g->operators[i].stage >= stages)
			stages = g->operators[i].stage + 1;
	}
	/* an encoder: 16 -> 128 -> 64; the trunk: 256 -> 256 -> 128 -> 10 */
	ck_assert_int_eq(parameters, 4 * (17 * 128 + 129 * 64) + 257 * 256 + 257 * 128 + 129 * 10);
	ck_assert_str_eq(encoders(g), "top_left:5 top_right:5 bottom_left:5 bottom_right:5");
	ck_assert_int_eq(stages, 6);
	ck_assert_int_eq(find_operator(g, "br_pixels")->columns[15], 63);
	ck_assert_str_eq(g->data, ORR_SOURCE "/graphs/data/digits.csv");
	orr_graph_destroy(g);

	g = read_graph(ORR_SOURCE "/graphs/skip.dot");
	ck_assert_int_eq(g->n_operators, 5 + 12 * 5);
	ck_assert_str_eq(encoders(g), "blocks:60");
	ck_assert_str_eq(g->operators[find_operator(g, "start.11")->inputs[0]].name, "sum.10");
	ck_assert_str_eq(g->operators[find_operator(g, "sum.11")->inputs[1]].name, "start.11");
	orr_graph_destroy(g);

	g = read_graph(ORR_SOURCE "/graphs/two_towers.dot");
	ck_assert_str_eq(encoders(g), "left:6 right:3");
	orr_graph_destroy(g);

	g = read_graph(ORR_SOURCE "/graphs/study.dot");
	ck_assert_str_eq(encoders(g), "image:3 audio:1");
	ck_assert(g->units);
	orr_graph_destroy(g);
}
END_TEST

/* The indented blocks of a page that begin with digraph, each read. Returns how many there were. */
static int read_models_of(const char *path)
{
	FILE *file = fopen(path, "r");
	char line[512], text[8192] = "", name[600];
	struct orr_graph *g = NULL;
	struct orr_error err;
	int n = 0, number = 0, code;

	ck_assert_msg(file != NULL, "%s", path);
	while (fgets(line, sizeof(line), file)) {
		number++;
		if (!*text && strncmp(line, "    digraph", 11) != 0)
			continue;
		ck_assert_uint_lt(strlen(text) + strlen(line), sizeof(text));
		strcat(text, line);
		if (strcmp(line, "    }\n") != 0)
			continue;
		(void)snprintf(name, sizeof(name), "%s, the block that ends in line %d", path,
			       number);
		code = orr_graph_parse(&g, name, text, &err);
		ck_assert_msg(code == 0, "%s", err.msg);
		orr_graph_destroy(g);
		*text = '\0';
		n++;
	}
	fclose(file);
	ck_assert_str_eq(text, "");
	return n;
}

START_TEST(the_models_in_the_pages_are_read)
{
	ck_assert_int_eq(read_models_of(ORR_SOURCE "/README.md"), 1);
	ck_assert_int_eq(read_models_of(ORR_SOURCE "/graphs/README.md"), 2);
}
END_TEST

static const struct suite_test tests[] = {
	ONCE(the_examples_are_as_their_comments_say),
	ONCE(the_models_in_the_pages_are_read),
};
SUITE("graph_files")
