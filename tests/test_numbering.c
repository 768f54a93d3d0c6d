/* The numbers of stages: topological, and where that leaves a choice in the order in which the
 * graph lists their first operators that compute. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/graph.h"
#include "orrery/machine.h"
#include "pipeline/numbering.h"
#include "pipeline/partition.h"
#include "orrery/pipeline.h"
#include "orrery/plan.h"
#include "graphs.h"
#include "suite.h"

/* Stages as somebody named them, a letter an operator in the graph's order ("-": none yet), and the
 * numbers that they must get. */
static const struct {
	const char *dot, *stages, *numbers;
} cases[] = {
	{"a->b->d; c->d", "dbca", "0123"},
	{"a->b->d; c->d", "bbaa", "0011"},
	/* layer by layer: the order of the graph, not tower by tower */
	{"a; b; a->c; b->d; c->e; d->e", "acbde", "01234"},
	{"a; b; a->c; b->d; c->e; d->e", "abab0", "01012"},
	/* the first operator comes first, and its stage reads the other's: topology wins */
	{"a; b->c; a->d; c->d",
	 "a"
	 "bb"
	 "a",
	 "1001"},
	/* both orders are topological: the graph's */
	{"a; b; c->d; a->d; b->d", "cbad", "0123"},
};

static struct orr_graph *read_study(const char *dot)
{
	struct orr_error err = {""};
	struct orr_graph *g = NULL;
	char text[512];

	(void)snprintf(text, sizeof(text),
		       "digraph g { node [forward=1 backward=1]; a; b; c; d; %s }", dot);
	ck_assert_msg(!orr_graph_parse(&g, "g.dot", text, &err), "%s: %s", dot, err.msg);
	return g;
}

START_TEST(stages_are_numbered_as_the_graph_lists_them)
{
	struct orr_graph *g = read_study(cases[_i].dot);
	int stage_of[8], letters[128], n_stages = 0;
	struct orr_error err = {""};

	memset(letters, 0xff, sizeof(letters));
	ck_assert_int_eq(g->n_operators, (int)strlen(cases[_i].stages));
	for (const char *c = "0abcde"; *c; c++) /* ascending letters are ascending numbers before */
		if (strchr(cases[_i].stages, *c))
			letters[(int)*c] = n_stages++;
	for (int i = 0; i < g->n_operators; i++)
		stage_of[i] = letters[(int)cases[_i].stages[i]];
	ck_assert_msg(!orr_number_stages(g, stage_of, n_stages, &err), "%s", err.msg);
	for (int i = 0; i < g->n_operators; i++)
		ck_assert_msg(stage_of[i] == cases[_i].numbers[i] - '0',
			      "%s, %s: operator %s is in stage %d", cases[_i].dot, cases[_i].stages,
			      g->operators[i].name, stage_of[i]);
	orr_graph_destroy(g);
}
END_TEST

/* A random graph of cheap nodes, listed in a random order. */
static struct orr_graph *make_random(uint64_t seed, int *n)
{
	char text[4096] = "digraph g { node [forward=1 backward=2];";
	int name[12];

	suite_random = seed;
	*n = 3 + suite_draw(9);
	for (int i = 0; i < *n; i++) {
		int k = suite_draw(i + 1);

		name[i] = name[k];
		name[k] = i;
	}
	for (int i = 0; i < *n; i++)
		(void)sprintf(text + strlen(text), " n%d;", i);
	for (int i = 1; i < *n; i++)
		for (int k = 0; k < i; k++)
			if (k == i - 1 ? suite_draw(4) > 0 : suite_draw(5) == 0)
				(void)sprintf(text + strlen(text), " n%d -> n%d;", name[k],
					      name[i]);
	strcat(text, " }");
	return parse_graph(text);
}

/* The contract, the slow way: whoever has the next number has all that it reads behind it, and no
 * other such stage has an earlier first operator. */
static void check_numbers(const struct orr_graph *g, const int *stage_of, int n_stages)
{
	bool reads[16][16] = {{false}};
	int leader[16];

	for (int i = g->n_operators - 1; i >= 0; i--) {
		leader[stage_of[i]] = i;
		for (int k = 0; k < g->operators[i].n_inputs; k++)
			reads[stage_of[i]][stage_of[g->operators[i].inputs[k]]] = true;
	}
	for (int s = 0; s < n_stages; s++)
		for (int t = s; t < n_stages; t++) {
			bool ready = true;

			for (int from = s; from < n_stages; from++)
				ready = ready && (from == t || !reads[t][from]);
			ck_assert_msg(t > s || ready, "stage %d reads a later one", s);
			ck_assert_msg(t == s || !ready || leader[s] < leader[t],
				      "stage %d before %d", s, t);
		}
}

START_TEST(cuts_and_plans_of_random_graphs_are_numbered_alike)
{
	struct orr_machine machine = orr_machine_default(0);
	struct orr_plan_options options = {.levels = {.n = 1, .workers = {3}},
					   .activations = true,
					   .straight = true,
					   .numerics.optimizer = ORR_OPTIMIZER_MOMENTUM,
					   .n_microbatches = 3,
					   .samples = 1,
					   .flops_per_s = 1e9,
					   .pieces = _i % 2};
	struct orr_pipeline *p = NULL;
	struct orr_plan *plan = NULL;
	struct orr_error err = {""};
	int n;
	struct orr_graph *g = make_random((uint64_t)_i + 1, &n);

	ck_assert_msg(!orr_partition(&p, g, &machine, 0, 1, &err), "%s", err.msg);
	for (int i = 0; i < n; i++) /* a stage an operator: its row in `orrery show` */
		ck_assert_int_eq(p->stage_of[i], i);
	orr_pipeline_destroy(p);
	p = NULL;
	if (!orr_partition(&p, g, &machine, 3, 1, &err))
		check_numbers(g, p->stage_of, 3);
	orr_pipeline_destroy(p);
	ck_assert_msg(!orr_plan_create(&plan, g, &options, &err), "%s", err.msg);
	check_numbers(g, plan->pipeline->stage_of, plan->pipeline->n_stages);
	orr_plan_destroy(plan);
	orr_graph_destroy(g);
}
END_TEST

/* x comes with the first stage that reads it, whatever its place; y with its only reader. */
START_TEST(inputs_go_to_their_first_readers)
{
	static const char dot[] =
		"digraph g { y [op=input columns=\"1\"]; x [op=input columns=\"0\"]; a [op=linear "
		"features=1];"
		" b [op=linear features=1]; j [op=concat]; h [op=linear features=1]; l [op=mse];"
		" x->b; x->a; b->j; a->j; j->h->l; y->l }";
	static const struct {
		const char *name;
		int stage;
	} expected[] = {{"x", 0}, {"a", 0}, {"b", 1}, {"j", 2}, {"h", 3}, {"y", 4}, {"l", 4}};
	struct orr_machine machine = orr_machine_default(0);
	struct orr_pipeline *p = NULL;
	struct orr_graph *g = NULL;
	struct orr_error err = {""};

	ck_assert_msg(!orr_graph_parse(&g, "g.dot", dot, &err), "%s", err.msg);
	ck_assert_msg(!orr_partition(&p, g, &machine, 5, 1, &err), "%s", err.msg);
	for (int k = 0; k < N_OF(expected); k++)
		for (int i = 0; i < g->n_operators; i++)
			if (!strcmp(g->operators[i].name, expected[k].name))
				ck_assert_msg(p->stage_of[i] == expected[k].stage,
					      "%s is in stage %d", expected[k].name,
					      p->stage_of[i]);
	orr_pipeline_destroy(p);
	orr_graph_destroy(g);
}
END_TEST

/* Costs 1 1 1 1 (F alone), 2 (F and W), 3 (F, B and W): three stages of 3. */
START_TEST(a_cut_counts_the_passes_that_there_are)
{
	static const int stages[] = {0, 0, 0, 1, 1, 2};
	struct orr_machine machine = orr_machine_default(3);
	struct orr_error err = {""};
	struct orr_graph *g = NULL;
	struct orr_pipeline *p = NULL;

	ck_assert_msg(!orr_graph_parse(&g, "g.dot",
				       "digraph { node [forward=1, backward=1, weight=1, "
				       "parameters=4]; a [repeat=4, frozen=true]; a -> b -> c }",
				       &err),
		      "%s", err.msg);
	ck_assert_msg(!orr_partition(&p, g, &machine, 3, 1, &err), "%s", err.msg);
	for (int i = 0; i < g->n_operators; i++)
		ck_assert_int_eq(p->stage_of[i], stages[i]);
	orr_pipeline_destroy(p);
	orr_graph_destroy(g);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(stages_are_numbered_as_the_graph_lists_them, N_OF(cases)),
	EACH(cuts_and_plans_of_random_graphs_are_numbered_alike, 100),
	ONCE(inputs_go_to_their_first_readers),
	ONCE(a_cut_counts_the_passes_that_there_are),
};
SUITE("numbering")
