/* Models as they are read: operators, order, shapes, repeats, encoders, and the way back to DOT. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "golden.h"
#include "orrery/graph.h"
#include "orrery/orrery.h"
#include "graphs.h"
#include "suite.h"

static struct orr_graph *parse(const char *name, const char *text)
{
	struct orr_graph *g = NULL;
	struct orr_error err = {""};
	int code = orr_graph_parse(&g, name, text, &err);

	ck_assert_msg(code == 0, "%s: %s", name, err.msg);
	return g;
}

/* "a(x,y) b(a)": every operator in order, with what it reads. */
static const char *outline(const struct orr_graph *g)
{
	static char text[4096];
	int i, k, n = 0;

	for (i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];

		n += snprintf(text + n, sizeof(text) - (size_t)n, "%s%s", i ? " " : "", o->name);
		for (k = 0; k < o->n_inputs; k++)
			n += snprintf(text + n, sizeof(text) - (size_t)n, "%s%s", k ? "," : "(",
				      g->operators[o->inputs[k]].name);
		if (k)
			n += snprintf(text + n, sizeof(text) - (size_t)n, ")");
		ck_assert_int_lt(n, (int)sizeof(text));
	}
	return text;
}

/* The model of most tests below. Shapes by hand: a has 3 columns, b has 5. */
static const char every_op[] =
	"digraph m {\n"
	"  a [op=input, columns=\"0:3\", scale=0.5]\n"
	"  b [op=input, columns=\"10,3:7\"]\n"
	"  class [op=input, columns=64]\n"
	"  target [op=input, columns=\"0:6\"]\n"
	"  fa [op=linear, features=4]\n"
	"  fb [op=linear, features=4]\n"
	"  sum [op=add] cat [op=concat] r [op=relu] g [op=gelu] n [op=layernorm]\n"
	"  fc [op=linear, features=6]\n"
	"  ce [op=softmax_cross_entropy] mse [op=mse]\n"
	"  a -> fa -> sum; b -> fb -> sum; fa -> sum2; sum2 [op=add]; sum -> sum2; fb -> sum2\n"
	"  sum2 -> r -> g -> n -> cat; b -> cat; cat -> fc\n"
	"  fc -> ce; class -> ce; fc -> mse; target -> mse\n"
	"}\n";

static const struct {
	const char *name;
	const char *op;
	int64_t width, parameters, forward, backward, weight, stash;
} shapes[] = {
	{"a", "input", 3, 0, 3, 0, 0, 0},
	{"b", "input", 5, 0, 5, 0, 0, 0},
	{"fa", "linear", 4, 3 * 4 + 4, 2 * 3 * 4, 2 * 3 * 4, 2 * 3 * 4, 3},
	{"fb", "linear", 4, 5 * 4 + 4, 2 * 5 * 4, 2 * 5 * 4, 2 * 5 * 4, 5},
	{"sum", "add", 4, 0, 4, 0, 0, 0},
	{"sum2", "add", 4, 0, 2 * 4, 0, 0, 0},
	{"r", "relu", 4, 0, 4, 4, 0, 4},
	{"g", "gelu", 4, 0, 32, 64, 0, 4},
	{"n", "layernorm", 4, 8, 32, 36, 12, 5},
	{"cat", "concat", 9, 0, 0, 0, 0, 0},
	{"fc", "linear", 6, 9 * 6 + 6, 108, 108, 108, 9},
	{"ce", "softmax_cross_entropy", 1, 0, 30, 12, 0, 6},
	{"mse", "mse", 1, 0, 18, 12, 0, 6},
};

START_TEST(shapes_and_operations_are_those_counted_by_hand)
{
	struct orr_graph *g = parse("m.dot", every_op);
	const struct orr_operator *o = find_operator(g, shapes[_i].name);

	ck_assert_str_eq(orr_operator_op(o), shapes[_i].op);
	ck_assert_int_eq(o->width, shapes[_i].width);
	ck_assert_int_eq(o->n_parameters, shapes[_i].parameters);
	ck_assert_int_eq(o->forward_flops, shapes[_i].forward);
	ck_assert_int_eq(o->backward_flops, shapes[_i].backward);
	ck_assert_int_eq(o->weight_flops, shapes[_i].weight);
	ck_assert_int_eq(o->stash_floats, shapes[_i].stash);
	ck_assert_int_eq(o->forward_ns, -1);
	ck_assert_int_eq(o->parameter_bytes, -1);
	orr_graph_destroy(g);
}
END_TEST

START_TEST(a_sample_may_have_the_scores_of_gpt_2)
{
	struct orr_graph *g =
		parse("m.dot", "digraph { ids [op=input, columns=\"0:1024\", rows=1024]\n"
			       "class [op=input, columns=\"1024:2048\", rows=1024]\n"
			       "e [op=embedding, vocabulary=50257, features=768]\n"
			       "head [op=linear, features=50257]\n"
			       "loss [op=softmax_cross_entropy]\n"
			       "ids -> e -> head -> loss; class -> loss }");

	ck_assert_int_eq(g->operators[3].width, 1024 * 50257);
	ck_assert_int_eq(g->operators[3].forward_flops, 2LL * 1024 * 768 * 50257);
	orr_graph_destroy(g);
}
END_TEST

START_TEST(inputs_keep_the_order_of_the_edges_and_columns_that_of_the_file)
{
	static const int64_t columns[] = {10, 3, 4, 5, 6};
	struct orr_graph *g = parse("m.dot", every_op);
	const struct orr_operator *b = find_operator(g, "b");

	ck_assert_str_eq(
		outline(g),
		"a b class target fa(a) fb(b) sum(fa,fb) sum2(fa,sum,fb) r(sum2) g(r) n(g) "
		"cat(n,b) fc(cat) ce(fc,class) mse(fc,target)");
	ck_assert_int_eq(b->width, 5);
	ck_assert_mem_eq(b->columns, columns, sizeof(columns));
	ck_assert_double_eq(orr_operator_factor(b), 1);
	ck_assert_double_eq(orr_operator_factor(find_operator(g, "a")), 0.5);
	ck_assert_ptr_null(find_operator(g, "fa")->columns);
	orr_graph_destroy(g);
}
END_TEST

/* Text, and the outline that it has. Study operators, so that only the order counts. */
static const struct {
	const char *what, *text, *outline, *encoders;
} orders[] = {
	{"file order where the edges leave a choice",
	 "digraph { node [forward=1] c; b; a; c -> z; a -> z; b -> z }", "c b a z(c,a,b)", ""},
	{"a predecessor first, wherever the file has it",
	 "digraph { node [forward=1] z; y; x; x -> y -> z }", "x y(x) z(y)", ""},
	{"edges to several at once", "digraph { node [forward=1] a -> {b c} -> d }",
	 "a b(a) c(a) d(b,c)", ""},
	{"ports and edge drawings",
	 "digraph { node [forward=1] a:e -> b:w:c [color=red, weight=3]; }", "a b(a)", ""},
	{"comments, strings in parts, names in quotes",
	 "/* x */ strict digraph \"g\" {\n# line\n node [forward=1] // y\n \"a \\\"b\\\"\" -> "
	 "\"c\" + \"d\" }",
	 "a \"b\" cd(a \"b\")", ""},
	{"a node repeats", "digraph { node [forward=1] a -> b -> c; b [repeat=3] }",
	 "a b.0(a) b.1(b.0) b.2(b.1) c(b.2)", ""},
	{"repeat=1 changes nothing", "digraph { node [forward=1] a -> b; b [repeat=1] }", "a b(a)",
	 ""},
	{"two repeated nodes in a row", "digraph { node [forward=1, repeat=2] a -> b }",
	 "a.0 a.1(a.0) b.0(a.1) b.1(b.0)", ""},
	{"a subgraph repeats, with a skip inside",
	 "digraph { node [forward=1] subgraph s { repeat=2; a -> b -> c; a -> c } in -> a; c -> "
	 "out }",
	 "in a.0(in) b.0(a.0) c.0(b.0,a.0) a.1(c.0) b.1(a.1) c.1(b.1,a.1) out(c.1)", "s:6"},
	{"nested repeats, the inner one first",
	 "digraph { node [forward=1] subgraph s { repeat=2; a; subgraph t { repeat=2; b [repeat=2] "
	 "} a -> b } b -> z }",
	 "a.0 b.0.0.0(a.0) b.0.0.1(b.0.0.0) b.0.1.0(b.0.0.1) b.0.1.1(b.0.1.0) a.1(b.0.1.1) "
	 "b.1.0.0(a.1) "
	 "b.1.0.1(b.1.0.0) b.1.1.0(b.1.0.1) b.1.1.1(b.1.1.0) z(b.1.1.1)",
	 "s:10"},
	{"a subgraph inside one that repeats does not repeat by itself",
	 "digraph { node [forward=1] subgraph s { graph [repeat=2]; subgraph t { a -> b } } }",
	 "a.0 b.0(a.0) a.1(b.0) b.1(a.1)", "s:4"},
	{"the exit of a repeated subgraph feeds several",
	 "digraph { node [forward=1] subgraph s { repeat=2; a } a -> x; a -> y }",
	 "a.0 a.1(a.0) x(a.1) y(a.1)", "s:2"},
	{"several inputs of a repeated subgraph go to its first copy",
	 "digraph { node [forward=1] subgraph s { repeat=2; a } x -> a; y -> a }",
	 "x y a.0(x,y) a.1(a.0)", "s:2"},
	{"encoders by their first operators; cluster_ does not count",
	 "digraph { node [forward=1] subgraph cluster_b { b } subgraph a { a } z; a -> b -> z }",
	 "a b(a) z(b)", "a:1 b:1"},
	{"the outermost subgraph is the encoder, clusters in it are not",
	 "digraph { node [forward=1] subgraph cluster_x { a subgraph cluster_y { b } } a -> b -> c "
	 "}",
	 "a b(a) c(b)", "x:2"},
	{"subgraphs for drawing alone are no encoders",
	 "digraph { node [forward=1] a -> b; {rank=same; a; b} subgraph r { rank=same; a; b } "
	 "subgraph e { } }",
	 "a b(a)", ""},
	{"a named subgraph inside one without a name",
	 "digraph { node [forward=1] { subgraph e { a } } a -> b }", "a b(a)", "e:1"},
	{"a subgraph opened twice is one",
	 "digraph { node [forward=1] subgraph e { a } b; subgraph e { c } a -> b -> c }",
	 "a b(a) c(b)", "e:2"},
};

START_TEST(order_repeats_and_encoders_are_as_drawn)
{
	struct orr_graph *g = parse(orders[_i].what, orders[_i].text);

	ck_assert_msg(strcmp(outline(g), orders[_i].outline) == 0, "%s: %s", g->name, outline(g));
	ck_assert_msg(strcmp(encoders(g), orders[_i].encoders) == 0, "%s: %s", g->name,
		      encoders(g));
	orr_graph_destroy(g);
}
END_TEST

START_TEST(costs_units_pins_and_labels_are_read)
{
	struct orr_graph *g =
		parse("dir/m.dot", "digraph {\n data=\"d.csv\"; node [stage=2];\n"
				   " a [forward=\"1.2ms\", backward=\"2ms\", weight=\"1us\", "
				   "activation=\"12MB\", stash=\"1KiB\",\n"
				   "    parameters=100, label=\"the \\\"first\\\"\"]\n"
				   " b [stash=4, stage=3]; a -> b }");
	const struct orr_operator *a = find_operator(g, "a"), *b = find_operator(g, "b");

	ck_assert(!g->units);
	ck_assert_str_eq(g->data, "dir/d.csv");
	ck_assert_int_eq(a->line, 3);
	ck_assert_int_eq(b->line, 5);
	ck_assert_int_eq(a->stage, 2);
	ck_assert_int_eq(b->stage, 3);
	ck_assert_int_eq(a->forward_ns, 1200000);
	ck_assert_int_eq(a->backward_ns, 2000000);
	ck_assert_int_eq(a->weight_ns, 1000);
	ck_assert_int_eq(a->activation_bytes, 12000000);
	ck_assert_int_eq(a->stash_bytes, 1024);
	ck_assert_int_eq(a->parameter_bytes, 100);
	ck_assert_str_eq(a->label, "the \"first\"");
	ck_assert_int_eq(b->forward_ns, 0);
	ck_assert_int_eq(b->backward_ns, 0);
	ck_assert_int_eq(b->weight_ns, -1);
	ck_assert_int_eq(b->parameter_bytes, 0);
	ck_assert_ptr_null(b->label);
	orr_graph_destroy(g);
}
END_TEST

START_TEST(plain_durations_are_units)
{
	struct orr_graph *g =
		parse("m.dot", "digraph { a [forward=1.5, backward=0]; b [forward=0]; a -> b }");

	ck_assert(g->units);
	ck_assert_int_eq(find_operator(g, "a")->forward_ns, 3 * ORR_UNIT_NS / 2);
	ck_assert_ptr_null(g->data);
	orr_graph_destroy(g);
	/* a plain 0 goes with either */
	g = parse("m.dot", "digraph { a [forward=\"1ms\"]; b [forward=0]; a -> b }");
	ck_assert(!g->units);
	orr_graph_destroy(g);
}
END_TEST

START_TEST(a_model_that_computes_may_carry_measured_costs)
{
	struct orr_graph *g = parse(
		"m.dot",
		"digraph { x [op=input, columns=0]; y [op=input, columns=1];"
		" f [op=linear, features=1, forward=\"3us\"]; l [op=mse]; x -> f -> l; y -> l }");

	ck_assert_int_eq(find_operator(g, "f")->forward_ns, 3000);
	ck_assert_int_eq(find_operator(g, "f")->backward_ns, -1);
	ck_assert_int_eq(find_operator(g, "f")->n_parameters, 2);
	orr_graph_destroy(g);
}
END_TEST

static const struct {
	const char *text, *outline, *encoders;
} studies[] = {
	{"chain:1", "layer.0", ""},
	{"chain:3", "layer.0 layer.1(layer.0) layer.2(layer.1)", ""},
	{"towers:2,1/2",
	 "tower0.0 tower0.1(tower0.0) tower1.0 trunk.0(tower0.1,tower1.0) trunk.1(trunk.0)",
	 "tower0:2 tower1:1"},
	{"towers:1/1", "tower0.0 trunk.0(tower0.0)", "tower0:1"},
};

START_TEST(studies_need_no_file)
{
	struct orr_graph *g = read_graph(studies[_i].text);

	ck_assert_str_eq(outline(g), studies[_i].outline);
	ck_assert_str_eq(encoders(g), studies[_i].encoders);
	ck_assert(g->units);
	ck_assert_int_eq(g->operators[0].forward_ns, ORR_UNIT_NS);
	ck_assert_int_eq(g->operators[0].backward_ns, ORR_UNIT_NS);
	ck_assert_int_eq(g->operators[0].weight_ns, -1);
	ck_assert_int_eq(g->operators[0].stash_bytes, 0);
	orr_graph_destroy(g);
}
END_TEST

START_TEST(costs_of_a_study_can_be_set)
{
	struct orr_study_costs costs = {2000, 3000, 1000, 64, -1, -1, false};
	struct orr_graph *g = read_graph("chain:2");
	struct orr_error err = {""};

	ck_assert_int_eq(orr_graph_set_costs(g, &costs, &err), 0);
	ck_assert(!g->units);
	ck_assert_int_eq(g->operators[1].forward_ns, 2000);
	ck_assert_int_eq(g->operators[1].backward_ns, 3000);
	ck_assert_int_eq(g->operators[1].weight_ns, 1000);
	ck_assert_int_eq(g->operators[1].activation_bytes, 64);
	ck_assert_int_eq(g->operators[1].stash_bytes, 0);
	/* sizes alone leave the durations and their unit; a backward without a weight is all of it
	 */
	costs = (struct orr_study_costs){-1, -1, -1, -1, 32, -1, true};
	ck_assert_int_eq(orr_graph_set_costs(g, &costs, &err), 0);
	ck_assert(!g->units);
	ck_assert_int_eq(g->operators[0].weight_ns, 1000);
	costs = (struct orr_study_costs){-1, 5, -1, -1, -1, -1, false};
	ck_assert_int_eq(orr_graph_set_costs(g, &costs, &err), 0);
	ck_assert_int_eq(g->operators[0].weight_ns, -1);
	ck_assert_int_eq(g->operators[0].stash_bytes, 32);
	costs.forward_ns = INT64_MAX;
	ck_assert_int_eq(orr_graph_set_costs(g, &costs, &err), ORR_E_INPUT);
	ck_assert_str_eq(
		err.msg,
		"chain:2: node layer.0: the costs of the graph add up to more than 2^60 up to "
		"here: make it smaller");
	orr_graph_destroy(g);
	g = parse("m.dot", every_op);
	ck_assert_int_eq(orr_graph_set_costs(g, &costs, &err), ORR_E_INPUT);
	ck_assert_str_eq(
		err.msg,
		"m.dot: a model that computes has costs of its own: take the costs away, or take a "
		"study such as chain:8");
	orr_graph_destroy(g);
}
END_TEST

static const char profile[] =
	"node1 -- Input0 -- forward_compute_time=1.000, backward_compute_time=0.000, "
	"activation_size=9.0, "
	"parameter_size=0.000\n"
	"node3 -- LSTM(2, 4, x=[1, 2]) -- forward_compute_time=3.190, "
	"backward_compute_time=5.3481234, "
	"activation_size=[6291456.0; 131072.0; 131072.0], parameter_size=50364416.000 -- "
	"stage_id=1\n"
	"node2 -- say \"x\\\" -- forward_compute_time=0.0000004, backward_compute_time=0.1, "
	"activation_size=10.0, parameter_size=0.000\r\n"
	"\n"
	"\tnode1 -- node2\n"
	"\tnode2 -- node3\n"
	"\tnode1 -- node3\n";

START_TEST(profiles_of_pipedream_are_told_by_their_content)
{
	struct orr_graph *g = parse("p.txt", profile);
	const struct orr_operator *o = find_operator(g, "node3");

	ck_assert_str_eq(outline(g), "node1 node2(node1) node3(node2,node1)");
	ck_assert(!g->units);
	ck_assert_int_eq(o->line, 2);
	ck_assert(orr_operator_is_study(o));
	ck_assert_str_eq(o->label, "LSTM(2, 4, x=[1, 2])");
	ck_assert_int_eq(o->forward_ns, 3190000);
	ck_assert_int_eq(o->backward_ns, 5348123);
	ck_assert_int_eq(o->weight_ns, -1);
	ck_assert_int_eq(o->activation_bytes, 6291456 + 2 * 131072);
	ck_assert_int_eq(o->stash_bytes, o->activation_bytes);
	ck_assert_int_eq(o->parameter_bytes, 50364416);
	ck_assert_int_eq(o->stage, 1);
	ck_assert_int_eq(find_operator(g, "node2")->forward_ns, 0);
	ck_assert_int_eq(find_operator(g, "node2")->stage, -1);
	ck_assert_int_eq(find_operator(g, "node1")->forward_ns, 0);
	ck_assert_int_eq(find_operator(g, "node1")->activation_bytes, 0);
	orr_graph_destroy(g);
}
END_TEST

/* Everything but the name and the lines. */
static void check_same(const struct orr_graph *a, const struct orr_graph *b)
{
	int i, k;

	ck_assert_int_eq(a->units, b->units);
	ck_assert_int_eq(a->n_operators, b->n_operators);
	ck_assert_int_eq(a->n_encoders, b->n_encoders);
	for (i = 0; i < a->n_encoders; i++)
		ck_assert_str_eq(a->encoders[i], b->encoders[i]);
	ck_assert_pstr_eq(a->data, b->data);
	for (i = 0; i < a->n_operators; i++) {
		const struct orr_operator *x = &a->operators[i], *y = &b->operators[i];
		char own_x[ORR_VALUE], own_y[ORR_VALUE];
		const char *name;
		bool usual;
		const int64_t of_x[] = {x->rows,
					x->encoder,
					x->stage,
					x->width,
					x->n_parameters,
					x->forward_flops,
					x->backward_flops,
					x->weight_flops,
					x->stash_floats,
					x->forward_ns,
					x->backward_ns,
					x->weight_ns,
					x->activation_bytes,
					x->stash_bytes,
					x->parameter_bytes,
					x->frozen,
					x->tied};
		const int64_t of_y[] = {y->rows,
					y->encoder,
					y->stage,
					y->width,
					y->n_parameters,
					y->forward_flops,
					y->backward_flops,
					y->weight_flops,
					y->stash_floats,
					y->forward_ns,
					y->backward_ns,
					y->weight_ns,
					y->activation_bytes,
					y->stash_bytes,
					y->parameter_bytes,
					y->frozen,
					y->tied};

		for (k = 0; k < N_OF(of_x); k++)
			ck_assert_msg(of_x[k] == of_y[k], "%s: %s: field %d", a->name, x->name, k);
		ck_assert_str_eq(x->name, y->name);
		ck_assert_int_eq(x->n_inputs, y->n_inputs);
		ck_assert_mem_eq(x->inputs, y->inputs, (size_t)x->n_inputs * sizeof(*x->inputs));
		ck_assert_msg(!x->reads == !y->reads, "%s: %s: what is said of its edges", a->name,
			      x->name);
		for (k = 0; x->reads && k < x->n_inputs; k++)
			ck_assert(x->reads[k].bytes == y->reads[k].bytes &&
				  x->reads[k].gradient_bytes == y->reads[k].gradient_bytes &&
				  x->reads[k].detached == y->reads[k].detached);
		ck_assert_str_eq(orr_operator_op(x), orr_operator_op(y));
		for (k = 0; (name = orr_operator_attribute(x, k, own_x, &usual)); k++) {
			ck_assert_str_eq(name, orr_operator_attribute(y, k, own_y, &usual));
			ck_assert_str_eq(own_x, own_y);
		}
		ck_assert_pstr_eq(x->label, y->label);
		if (x->columns)
			ck_assert_mem_eq(x->columns, y->columns,
					 (size_t)x->width * sizeof(*x->columns));
	}
}

/* An edge from a subgraph is one from each of its nodes, in the order in which the file has them.
 */
START_TEST(edges_of_a_subgraph_are_in_the_order_of_its_nodes)
{
	struct orr_graph *g =
		parse("s.dot", "digraph { node [forward=1] a; b; c; {c; a; b} -> d }");
	const struct orr_operator *d = find_operator(g, "d");

	ck_assert_int_eq(d->n_inputs, 3);
	for (int i = 0; i < 3; i++)
		ck_assert_str_eq(g->operators[d->inputs[i]].name,
				 ((const char *[]){"a", "b", "c"})[i]);
	orr_graph_destroy(g);
}
END_TEST

static const char *const round_trips[] = {
	every_op,
	"digraph { data=\"/x/y.csv\"; node [forward=1.25, backward=\"0.000000001\"] subgraph "
	"cluster_b { b } subgraph a "
	"{ a subgraph cluster_x { y [repeat=3, stage=4] } a -> y } z [weight=3, stash=\"1MB\", "
	"parameters=12345, "
	"activation=\"12.34MB\"]; a -> b -> z; y -> z }",
	"digraph { a [forward=\"1.2ms\", backward=\"7ns\"]; \"b \\\"x\\\" \\\\\" "
	"[label=\"one\\ntwo \\\\\", stash=\"3GB\"]; "
	"a -> \"b \\\"x\\\" \\\\\" }",
	"digraph { a [forward=\"0ms\"] }",
	"digraph { x [op=input, columns=0]; y [op=input, columns=1]; f [op=linear, features=1]; "
	"a [op=mse, weight=0.3, backward=3]; b [op=mse]; x -> f -> a; y -> a; f -> b; y -> b }",
	"digraph { node [forward=1]; a -> b -> c [bytes=\"4MB\", color=red]; a -> c "
	"[gradient=false]; b -> d [gradient_bytes=0]; c -> d [gradient=true]; d -> e [bytes=7, "
	"gradient_bytes=9] }",
	"digraph { a [forward=0] }",
	"digraph { subgraph x { a; } subgraph y { b } subgraph x { c } node [forward=1] d; a "
	"[forward=2] b [forward=2] "
	"c [forward=2] a -> b -> c -> d }",
	"digraph { x [op=input, columns=\"0:2,7,3:5\", scale=0.1, stage=0]; y [op=input, "
	"columns=5]; node [stage=1] "
	"f [op=linear, features=1, repeat=2, forward=\"3us\", parameters=\"0\"]; l [op=mse]; x -> "
	"f -> l; y -> l }",
	"digraph { node [forward=1]; a [share=\"x \\\" y\"]; c [share=\"x \\\" y\"]; subgraph s { "
	"frozen=true; repeat=2; b [share=2] } a -> b -> c }",
};

START_TEST(dot_that_is_written_reads_back_to_the_same_graph)
{
	struct orr_graph *g, *again;
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);
	struct orr_error err = {""};

	ck_assert_ptr_nonnull(file);
	if (_i < N_OF(round_trips))
		g = parse("m.dot", round_trips[_i]);
	else
		g = _i == N_OF(round_trips) ? read_graph("towers:3,1,2/2")
					    : parse("p.txt", profile);
	ck_assert_int_eq(orr_graph_write_dot(g, file, &err), 0);
	fclose(file);
	if (_i > N_OF(round_trips)) { /* DOT doubles a backslash before a quote */
		free(g->operators[1].label);
		g->operators[1].label = strdup("say \"x\\\\\"");
	}
	again = parse("m.dot", text);
	check_same(g, again);
	orr_graph_destroy(g);
	orr_graph_destroy(again);
	free(text);
}
END_TEST

START_TEST(writing_to_a_full_disk_fails)
{
	struct orr_graph *g = read_graph("chain:8");
	FILE *file = full_disk();
	struct orr_error err = {""};

	ck_assert_int_eq(orr_graph_write_dot(g, file, &err), ORR_E_IO);
	ck_assert_str_eq(err.msg, "chain:8: its DOT could not be written: is there room?");
	fclose(file);
	orr_graph_destroy(g);
}
END_TEST

START_TEST(a_million_operators_are_numbered)
{
	struct orr_graph *g =
		parse("m.dot",
		      "digraph { node [forward=1] subgraph s { repeat=1000; a; b [repeat=998]; c; "
		      "a -> b -> c } }");

	ck_assert_int_eq(g->n_operators, 1000000);
	ck_assert_str_eq(g->operators[999999].name, "c.999");
	ck_assert_str_eq(g->operators[1000].name, "a.1");
	ck_assert_int_eq(g->operators[1000].inputs[0], 999);
	orr_graph_destroy(g);
}
END_TEST

START_TEST(a_comment_at_the_very_end_does_not_reach_the_next_model)
{
	struct orr_graph *first = parse("m.dot", "digraph { a [forward=1] } // the end");
	struct orr_graph *second = parse("m.dot", "digraph {\n\tb [forward=1];\n}\n");

	ck_assert_str_eq(outline(first), "a");
	ck_assert_str_eq(outline(second), "b");
	orr_graph_destroy(first);
	orr_graph_destroy(second);
}
END_TEST

/* A model in which a word is replaced. */
static const char printed[] =
	"digraph { overhead=\"1us\"; samples=4; profiled=\"cuda, tf32\"; data=\"d.csv\"; "
	"x [op=input, columns=\"0:3\", scale=2]; y [op=input, columns=\"3\"]; "
	"subgraph cluster_e { a [op=linear, features=1, label=\"A\", stage=0, "
	"forward=\"2ms\", backward=\"3ms\", weight=\"4ms\", update=\"5ms\", activation=\"6kB\", "
	"stash=\"7kB\", parameters=\"8kB\"]; } "
	"b [op=layernorm, stage=1]; c [op=gelu, stage=1]; l [op=mse, stage=1]; "
	"x -> a -> b -> c -> l; y -> l; }";

static const struct {
	const char *from, *to;
	bool changes;
} prints[] = {
	{"b [op=layernorm", "b [op=gelu", true},
	{"c [op=gelu, stage=1]; l [op=mse, stage=1]; x -> a -> b -> c",
	 "z [op=gelu, stage=1]; l [op=mse, stage=1]; x -> a -> b -> z", true},
	{"x -> a -> b -> c -> l;", "x -> a -> c -> b -> l;", true},
	{"x -> a -> b -> c -> l; y -> l;", "y -> l; x -> a -> b -> c -> l;", true},
	{"columns=\"0:3\"", "columns=\"0:4\"", true}, /* and a's parameters */
	{"columns=\"0:3\"", "columns=\"1:4\"", true},
	{"columns=\"0:3\"", "columns=\"0,2,1\"", true},
	{"columns=\"3\"", "columns=\"4\"", true},
	{"scale=2", "scale=2.000001", true},
	{"scale=2", "scale=1", true},
	{"columns=\"3\"", "columns=\"3\", scale=0.5", true},
	{"forward=\"2ms\"", "forward=\"1ms\"", true},
	{"backward=\"3ms\"", "backward=\"1ms\"", true},
	{"weight=\"4ms\"", "weight=\"1ms\"", true},
	{"update=\"5ms\"", "update=\"1ms\"", true},
	{"activation=\"6kB\"", "activation=\"1kB\"", true},
	{"stash=\"7kB\"", "stash=\"1kB\"", true},
	{"parameters=\"8kB\"", "parameters=\"1kB\"", true},
	{", parameters=\"8kB\"", "", true},
	{", parameters=\"8kB\"", ", parameters=\"8kB\", frozen=true", true},
	{"overhead=\"1us\"", "overhead=\"2us\"", true},
	{"l [op=mse,", "l [op=mse, weight=0.3,", true},
	{"l [op=mse,", "l [op=mse, weight=1,", false},
	{"y -> l;", "y -> l [gradient=false];", true},
	{"c -> l;", "c -> l [bytes=1];", true},
	{"c -> l;", "c -> l [gradient_bytes=1];", true},
	{"c -> l;", "c -> l [color=red, gradient=true];", false},
	{"data=\"d.csv\"", "data=\"e.csv\"", false},
	{"label=\"A\"", "label=\"B\"", false},
	{"cluster_e", "cluster_f", false},
	{"c [op=gelu, stage=1]", "c [op=gelu, stage=0]", false},
	{"samples=4", "samples=8", false},
	{"cuda, tf32", "cpu, bf16", false},
	{"x [", "\n\nx [", false},
};

START_TEST(what_a_graph_computes_or_costs_changes_its_fingerprint)
{
	const char *at = strstr(printed, prints[_i].from);
	struct orr_graph *before = parse("m.dot", printed), *after;
	char text[1024], was[24], is[24];

	ck_assert_ptr_nonnull(at);
	snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - printed), printed, prints[_i].to,
		 at + strlen(prints[_i].from));
	after = parse("another.dot", text);
	orr_graph_fingerprint(before, was);
	orr_graph_fingerprint(after, is);
	ck_assert_msg(!strcmp(was, is) != prints[_i].changes, "%s and %s: %s and %s",
		      prints[_i].from, prints[_i].to, was, is);
	orr_graph_destroy(before);
	orr_graph_destroy(after);
}
END_TEST

/* Plans on disk have it. */
START_TEST(a_study_keeps_its_fingerprint)
{
	struct orr_graph *g = read_graph("towers:3,3/2");
	char text[24];

	orr_graph_fingerprint(g, text);
	ck_assert_str_eq(text, "c42a80a24ff49fd4");
	orr_graph_destroy(g);
}
END_TEST

/* Of every operator in the order of show: f frozen, and its gradients, of the input and of the
 * weights. */
static const struct {
	const char *text, *gradients;
} freezings[] = {
	{"node [parameters=4]; a [frozen=true]; a -> b -> c", "f W BW"},
	{"node [parameters=4]; b [frozen=true]; a -> b -> c", "BW fB BW"},
	{"node [parameters=4]; a [repeat=2, frozen=true]; a -> b", "f f W"},
	{"node [parameters=4]; subgraph cluster_v { frozen=true; a; b [repeat=2] } a -> b -> c",
	 "f f f W"},
	{"node [parameters=4]; subgraph cluster_v { frozen=true; repeat=2; a -> b } b -> c",
	 "f f f f W"},
	{"node [parameters=4]; subgraph cluster_v { frozen=true; subgraph cluster_w { a -> b } } "
	 "b -> c",
	 "f f W"},
	{"node [parameters=4]; subgraph cluster_v { frozen=true; a } b; {a; b} -> c", "f BW BW"},
	{"node [parameters=4]; subgraph cluster_v { frozen=false; a } a -> b", "BW BW"},
};

START_TEST(frozen_operators_have_the_gradients_that_are_needed)
{
	struct orr_graph *g;
	char text[256], found[64] = "", *at = found;

	snprintf(text, sizeof(text), "digraph { %s }", freezings[_i].text);
	g = parse("m.dot", text);
	for (int i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];

		at += sprintf(at, "%s%s%s%s", i ? " " : "", o->frozen ? "f" : "",
			      o->has_input_gradient ? "B" : "", o->has_weight_gradient ? "W" : "");
	}
	ck_assert_msg(!strcmp(found, freezings[_i].gradients), "%s: %s", text, found);
	orr_graph_destroy(g);
}
END_TEST

#define WORDS \
	"w [op=input, columns=\"0:4\", rows=4]; e [op=embedding, vocabulary=9, features=8];" \
	"p [op=positions]; n [op=layernorm]; q [op=linear, features=8]; o [op=linear, " \
	"features=8];" \
	"s [op=add]; w -> e -> p -> n;"
#define ENDS(x) \
	"d [op=linear, features=2]; y [op=input, columns=4]; z [op=first];" x \
	" -> d -> z -> l; l [op=softmax_cross_entropy]; y -> l;"

/* In bf16: what is kept as bfloat16. The types are those of autocast in PyTorch, but for what
 * nothing but products read, which round it. */
static const struct {
	const char *text, *halves;
} kept[] = {
	/* a sum with floats is of floats, before a norm and behind one */
	{WORDS "n -> q -> o -> s; p -> s; m [op=layernorm]; s -> m;" ENDS("m"), "n q o m d z"},
	{WORDS "n -> q -> o -> s; n -> s; m [op=layernorm]; s -> m;" ENDS("m"), "q o m d z"},
	/* of products alone, of halves */
	{"x [op=input, columns=\"0:4\"]; a [op=linear, features=4]; r [op=relu]; s [op=add];"
	 "n [op=layernorm]; g [op=gelu]; t [op=add]; x -> a -> r -> s; a -> s -> n -> g -> t;"
	 "n -> t;" ENDS("t"),
	 "a r s n g t d z"},
	/* a part is what the whole is; attention rounds what it reads */
	{WORDS
	 "b [op=slice, rows=\"0:2\"]; n -> b -> q -> o; n -> s; p -> s; t [op=attention, heads=2];"
	 "k [op=rmsnorm]; v [op=scale, factor=2]; o -> t; s -> k -> t; s -> v -> t;" ENDS("t"),
	 "b q o k v t d z"},
	/* data, and what points at experts */
	{"x [op=input, columns=\"0:4\"]; n [op=layernorm]; g [op=linear, features=2];"
	 "r [op=route, experts=2]; i [op=dispatch, experts=2, expert=0]; j [op=dispatch, "
	 "experts=2, expert=1];"
	 "a [op=linear, features=4]; b [op=linear, features=4]; c [op=combine]; x -> n -> g -> r;"
	 "n -> {i j}; r -> {i j c}; i -> a -> c; j -> b -> c;" ENDS("c"),
	 "g i j a b c d z"},
};

START_TEST(a_sum_with_floats_is_kept_in_floats)
{
	char text[1024], found[64] = "";
	struct orr_graph *g;

	snprintf(text, sizeof(text), "digraph { %s }", kept[_i].text);
	g = parse("m.dot", text);
	for (int k = 0; k < 2; k++) {
		orr_graph_set_precision(g, k ? ORR_PRECISION_FP32 : ORR_PRECISION_BF16);
		for (int i = 0; i < g->n_operators; i++)
			if (g->operators[i].half)
				snprintf(found + strlen(found), sizeof(found) - strlen(found),
					 "%s%s", found[0] ? " " : "", g->operators[i].name);
	}
	ck_assert_msg(!strcmp(found, kept[_i].halves), "%s: %s", text, found);
	orr_graph_destroy(g);
}
END_TEST

static const struct suite_test tests[] = {
	ONCE(a_comment_at_the_very_end_does_not_reach_the_next_model),
	EACH(shapes_and_operations_are_those_counted_by_hand, N_OF(shapes)),
	ONCE(a_sample_may_have_the_scores_of_gpt_2),
	ONCE(inputs_keep_the_order_of_the_edges_and_columns_that_of_the_file),
	EACH(order_repeats_and_encoders_are_as_drawn, N_OF(orders)),
	ONCE(costs_units_pins_and_labels_are_read),
	ONCE(plain_durations_are_units),
	ONCE(edges_of_a_subgraph_are_in_the_order_of_its_nodes),
	ONCE(a_model_that_computes_may_carry_measured_costs),
	EACH(studies_need_no_file, N_OF(studies)),
	ONCE(costs_of_a_study_can_be_set),
	ONCE(profiles_of_pipedream_are_told_by_their_content),
	EACH(dot_that_is_written_reads_back_to_the_same_graph, N_OF(round_trips) + 2),
	ONCE(writing_to_a_full_disk_fails),
	ONCE(a_million_operators_are_numbered),
	EACH(what_a_graph_computes_or_costs_changes_its_fingerprint, N_OF(prints)),
	ONCE(a_study_keeps_its_fingerprint),
	EACH(a_sum_with_floats_is_kept_in_floats, N_OF(kept)),
	EACH(frozen_operators_have_the_gradients_that_are_needed, N_OF(freezings)),
};
SUITE("graph")
