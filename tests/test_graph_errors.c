/* Damaged models, and names without end. What is refused in which words is in refused/graphs.txt.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orrery/graph.h"
#include "suite.h"

#define COST \
	" -- forward_compute_time=1, backward_compute_time=1, activation_size=9.0, " \
	"parameter_size=0.000"

START_TEST(messages_survive_names_without_end)
{
	static char text[20000], name[5000];
	struct orr_graph *g = NULL;
	struct orr_error err = {""};

	memset(name, 'a', sizeof(name) - 1);
	(void)snprintf(text, sizeof(text), "digraph { %s [op=%s] }", name, name);
	ck_assert_int_eq(orr_graph_parse(&g, name, text, &err), ORR_E_INPUT);
	ck_assert_int_lt((int)strlen(err.msg), (int)sizeof(err.msg));
	(void)snprintf(text, sizeof(text), "digraph { %s -> %sb [%s=1] }", name, name, name);
	ck_assert_int_eq(orr_graph_parse(&g, name, text, &err), ORR_E_INPUT);
}
END_TEST

/* Damaged models: whatever happens to the text, the answer is a graph or one line, and nothing is
 * printed. The sanitizers watch. */
START_TEST(no_damage_to_a_model_does_more_than_a_message)
{
	static const char *const models[] = {
		"strict digraph m { data=\"d.csv\" /* c */ node [stage=0]\n# line\n"
		"a [op=input, columns=\"0:3,5\", scale=0.5] b [op=input, columns=1]\n"
		"subgraph cluster_e { repeat=2; f [op=linear, features=4, repeat=2, "
		"label=<b<i>i</i>>]; r [op=relu] "
		"f -> r } a:n -> f; r -> {l l2}; b -> {l l2} l [op=softmax_cross_entropy] l2 "
		"[op=mse] }",
		"digraph { node [forward=\"1.5ms\", backward=\"2us\", stash=\"3MB\"]; subgraph s { "
		"repeat=3; a -> \"b\" + "
		"\"c\" } // x\n {rank=same; d; e} a -> d [color=red]; d -> e }",
		"node1 -- In -- forward_compute_time=1.0, backward_compute_time=1, "
		"activation_size=[9.0; 1], "
		"parameter_size=0.0 -- stage_id=1\nnode2 -- x" COST "\n\tnode1 -- node2\n",
	};
	static const char bytes[] = "{}[]<>\"\\/*#=;:,.+-> \n\t0159xe\x01\xff";
	char text[1024];
	uint64_t random = 88172645463325252u;
	int i, k, refusals = 0, before = dup(STDERR_FILENO);
	FILE *printed = tmpfile();

	ck_assert_ptr_nonnull(printed);
	fflush(stderr);
	ck_assert_int_ge(dup2(fileno(printed), STDERR_FILENO), 0);
	for (i = 0; i < 6000; i++) {
		struct orr_graph *g = NULL;
		struct orr_error err = {""};
		size_t length;
		int code;

		(void)snprintf(text, sizeof(text), "%s", models[i % N_OF(models)]);
		length = strlen(text);
		for (k = 0; k <= i % 4; k++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			if (random % 5 == 0) /* take a piece away */
				memmove(text + random / 8 % length,
					text + length - (length - random / 8 % length) / 2,
					(length - random / 8 % length) / 2 + 1);
			else
				text[random / 8 % length] =
					bytes[random / 65536 % (sizeof(bytes) - 1)];
			length = strlen(text);
			if (length == 0)
				break;
		}
		code = orr_graph_parse(&g, "m.dot", text, &err);
		ck_assert_msg(code == 0 || code == ORR_E_INPUT, "%s", text);
		ck_assert_msg((code == 0) == (g != NULL), "%s", text);
		ck_assert_msg(code == 0 || (*err.msg && !strchr(err.msg, '\n')), "%s: %s", text,
			      err.msg);
		refusals += code != 0;
		orr_graph_destroy(g);
	}
	fflush(stderr);
	ck_assert_int_ge(dup2(before, STDERR_FILENO), 0);
	close(before);
	ck_assert_int_eq(fseek(printed, 0, SEEK_END), 0);
	ck_assert_int_eq(ftell(printed), 0);
	fclose(printed);
	ck_assert_int_gt(refusals, 1000);
	ck_assert_int_lt(refusals, 6000);
}
END_TEST

static const struct suite_test tests[] = {
	ONCE(messages_survive_names_without_end),
	ONCE(no_damage_to_a_model_does_more_than_a_message),
};
SUITE("graph_errors")
