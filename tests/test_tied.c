/* Parameters that stages have in common: which sets a cut leaves, and what they cost, by hand. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graphs.h"
#include "orrery/machine.h"
#include "orrery/partition.h"
#include "pipelines.h"
#include "suite.h"

#define NODES \
	"node [forward=1, backward=1, parameters=8, update=1]; a [share=x]; b [share=y]; " \
	"c [share=x, parameters=8]; d [share=y]; e [share=z]; f [share=z]; a -> b -> c -> d -> " \
	"e -> f; "

static struct orr_pipeline *cut(struct orr_graph **g, const char *text, const int *stage_of,
				int n_stages)
{
	struct orr_machine machine = orr_machine_default(0);
	struct orr_pipeline *p = NULL;
	struct orr_error err = {""};

	*g = parse_graph(text);
	ck_assert_msg(!orr_partition_as(&p, *g, &machine, stage_of, n_stages, 1, &err), "%s",
		      err.msg);
	return p;
}

/* "0,1: 8; 0,2: 8 frozen" */
static const char *print_sets(const struct orr_pipeline *p)
{
	static char text[256];
	size_t n = 0;

	text[0] = '\0';
	for (int t = 0; t < p->n_tied; t++) {
		for (int i = 0; i < p->tied[t].n_stages; i++)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%d",
					      i   ? ","
					      : t ? "; "
						  : "",
					      p->tied[t].stages[i]);
		n += (size_t)snprintf(text + n, sizeof(text) - n, ": %lld%s",
				      (long long)p->tied[t].bytes,
				      p->tied[t].frozen ? " frozen" : "");
	}
	return text;
}

static const struct {
	const char *more, *sets;
	int n_stages, stage_of[6], bytes[6], tied[6];
} cuts[] = {
	/* every operator a stage */
	{"",
	 "0,2: 8; 1,3: 8; 4,5: 8",
	 6,
	 {0, 1, 2, 3, 4, 5},
	 {8, 8, 8, 8, 8, 8},
	 {8, 8, 8, 8, 8, 8}},
	/* two sets of the same stages are one; inside a stage a set counts once */
	{"", "0,1: 16", 2, {0, 0, 1, 1, 1, 1}, {16, 24}, {16, 16}},
	{"", "", 1, {0, 0, 0, 0, 0, 0}, {24}, {0}},
	{"", "0,1: 8", 2, {0, 0, 0, 1, 1, 1}, {16, 16}, {8, 8}},
	/* what is frozen makes no gradient, and is a set of its own */
	{"a [frozen=true]; c [frozen=true];",
	 "0,1: 8 frozen; 0,1: 8",
	 2,
	 {0, 0, 1, 1, 1, 1},
	 {16, 24},
	 {8, 8}},
};

START_TEST(a_cut_leaves_sets_of_the_parameters_that_stages_share)
{
	struct orr_graph *g;
	struct orr_pipeline *p;
	char text[512];

	snprintf(text, sizeof(text), "digraph { " NODES "%s }", cuts[_i].more);
	p = cut(&g, text, cuts[_i].stage_of, cuts[_i].n_stages);
	ck_assert_str_eq(print_sets(p), cuts[_i].sets);
	for (int s = 0; s < p->n_stages; s++) {
		ck_assert_int_eq(p->stages[s].parameter_bytes, cuts[_i].bytes[s]);
		ck_assert_int_eq(p->stages[s].tied_bytes, cuts[_i].tied[s]);
		ck_assert_int_eq(p->stages[s].update_ns,
				 (cuts[_i].bytes[s] - p->stages[s].frozen_bytes) / 8 * ORR_UNIT_NS);
	}
	orr_pipeline_destroy(p);
	orr_graph_destroy(g);
}
END_TEST

START_TEST(what_is_shared_changes_the_fingerprint)
{
	static const char *const texts[] = {
		"digraph { node [forward=1]; a; b; c; a -> b -> c }",
		"digraph { node [forward=1]; a [share=x]; b [share=x]; c; a -> b -> c }",
		"digraph { node [forward=1]; a; b [share=x]; c [share=x]; a -> b -> c }"};
	char prints[3][24];

	for (int i = 0; i < 3; i++) {
		struct orr_graph *g = parse_graph(texts[i]);

		orr_graph_fingerprint(g, prints[i]);
		for (int k = 0; k < i; k++)
			ck_assert_str_ne(prints[i], prints[k]);
		orr_graph_destroy(g);
	}
}
END_TEST

static const struct {
	int64_t bytes;
	int n, stages[3];
	const char *message;
} refused[] = {
	{8,
	 1,
	 {0},
	 "pipeline: tied parameters of 1 stages and 8 bytes: give two stages or more, "
	 "and their size"},
	{-1,
	 2,
	 {0, 1},
	 "pipeline: tied parameters of 2 stages and -1 bytes: give two stages or "
	 "more, and their size"},
	{8, 2, {1, 3}, "pipeline: tied parameters of stage 3: name stages from 0 to 2, ascending"},
	{8, 2, {1, 1}, "pipeline: tied parameters of stage 1: name stages from 0 to 2, ascending"},
	{9,
	 2,
	 {1, 2},
	 "pipeline: 9 bytes of tied parameters in stage 1, which has fewer trained "
	 "ones: count them in its parameter_bytes"},
};

START_TEST(sets_that_cannot_be_are_refused)
{
	struct orr_pipeline *p = make_pipeline(3, "0>1 1>2", 1, 1, 0, 0, 8, 0);
	struct orr_tied tied = {refused[_i].bytes, false, refused[_i].n, refused[_i].stages};
	struct orr_error err = {""};

	ck_assert_int_eq(orr_pipeline_tie(p, &tied, 1, &err), ORR_E_INPUT);
	ck_assert_str_eq(err.msg, refused[_i].message);
	ck_assert_int_eq(p->n_tied, 0);
	orr_pipeline_destroy(p);
}
END_TEST

int main(void)
{
	const struct suite_test tests[] = {
		EACH(a_cut_leaves_sets_of_the_parameters_that_stages_share, N_OF(cuts)),
		ONCE(what_is_shared_changes_the_fingerprint),
		EACH(sets_that_cannot_be_are_refused, N_OF(refused)),
	};

	return suite_run("tied", tests, N_OF(tests));
}
