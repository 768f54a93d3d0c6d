/* Graphs that are split among workers: parts that together are the whole, exchanges as they are in
 * the literature, and what is refused. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/operator.h"
#include "graphs.h"
#include "rewrite/rewrite.h"
#include "suite.h"

static struct orr_graph *split(struct orr_graph *g, const char *splits)
{
	struct orr_graph *out = NULL;
	struct orr_error err = {""};

	ck_assert_msg(!orr_graph_split(&out, g, splits, &err), "%s: %s", splits, err.msg);
	return out;
}

static struct orr_graph *read_split(const char *name, const char *splits)
{
	struct orr_graph *g = NULL;
	struct orr_error err = {""};
	char path[512];

	(void)snprintf(path, sizeof(path), ORR_SOURCE "/graphs/%s.dot", name);
	ck_assert_msg(!orr_graph_read(&g, path, &err), "%s", err.msg);
	return split(g, splits);
}

static const char *const models[] = {
	"gpt",    "clip", "mmt",          "vit", "encoder_decoder", "digits",
	"resnet", "dlrm", "large_towers", "moe", "tied_towers"};
static const char *const splits[] = {"2", "3", "4", "2:copied", "4:copied"};

/* Floats of parameter n of the whole operator k that its parts have, each counted once. */
static int64_t count_floats(const struct orr_graph *g, int k, const char *name)
{
	int64_t floats = 0;
	bool copy = false;

	for (int i = 0; i < g->n_operators; i++) {
		const struct orr_instance *is = g->operators[i].instance;

		for (int n = 0; n < is->n_parameters && g->operators[i].origin == k; n++) {
			if (strcmp(is->parameters[n].name, name) != 0)
				continue;
			if (is->parameters[n].portion.of || !copy)
				floats += orr_parameter_floats(&is->parameters[n]);
			copy = !is->parameters[n].portion.of;
		}
	}
	return floats;
}

/* _i: a model under a split. No float of a parameter is lost or there twice, but for copies, which
 * are tied; its initial values are those of the whole. */
START_TEST(parts_are_the_whole)
{
	struct orr_graph *g = read_split(models[_i / N_OF(splits)], splits[_i % N_OF(splits)]);
	const struct orr_graph *whole = g->whole;

	ck_assert_ptr_nonnull(whole);
	for (int k = 0; k < whole->n_operators; k++) {
		const struct orr_instance *is = whole->operators[k].instance;

		for (int n = 0; n < is->n_parameters; n++)
			ck_assert_int_eq(count_floats(g, k, is->parameters[n].name),
					 orr_parameter_floats(&is->parameters[n]));
	}
	for (int i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];
		const struct orr_operator *of = &whole->operators[o->origin];

		ck_assert_int_lt(o->shard, 4);
		ck_assert_int_eq(o->encoder, of->encoder);
		for (int n = 0; n < o->instance->n_parameters; n++) {
			const struct orr_parameter_tensor *own = &o->instance->parameters[n];

			ck_assert(own->value >= of->instance->parameters[n].value &&
				  own->value <= of->instance->parameters[n].value);
			if (o->shard && !own->portion.of && o->n_parameters)
				ck_assert_msg(o->tied >= 0 || !o->share, "%s is a copy", o->name);
		}
	}
	orr_graph_destroy(g);
}
END_TEST

/* What is computed once in all: of products no more than of the whole. */
START_TEST(products_are_not_computed_twice)
{
	struct orr_graph *g = read_split(models[_i / N_OF(splits)], splits[_i % N_OF(splits)]);
	int64_t products = 0, whole = 0;

	for (int i = 0; i < g->n_operators; i++)
		if (!strcmp(orr_operator_op(&g->operators[i]), "linear") ||
		    !strcmp(orr_operator_op(&g->operators[i]), "attention"))
			products += g->operators[i].forward_flops;
	for (int i = 0; i < g->whole->n_operators; i++)
		if (!strcmp(orr_operator_op(&g->whole->operators[i]), "linear") ||
		    !strcmp(orr_operator_op(&g->whole->operators[i]), "attention"))
			whole += g->whole->operators[i].forward_flops;
	ck_assert_int_eq(products, whole);
	orr_graph_destroy(g);
}
END_TEST

/* Of the operators of the transformer's blocks, whose names begin so. */
static int count(const struct orr_graph *g, enum orr_collective collective, int shard)
{
	int n = 0;

	for (int i = 0; i < g->n_operators; i++)
		n += g->operators[i].collective == collective && g->operators[i].shard == shard &&
		     g->operators[i].name[0] == 'b';
	return n;
}

/* A block of a transformer has two products behind each other twice [Narayanan21, Korthikanti23]:
 * forward two reduce-scatters and two all-gathers, be it by rows or as two all-reduces. */
START_TEST(blocks_exchange_as_in_the_literature)
{
	struct orr_graph *g = read_split("gpt", splits[_i]);
	int t = splits[_i][0] - '0';

	if (t == 3) { /* which 4 heads are no multiple of */
		orr_graph_destroy(g);
		return;
	}
	for (int shard = 0; shard < t; shard++) {
		ck_assert_int_eq(count(g, ORR_COLLECTIVE_REDUCE_SCATTER, shard), 4 * 2);
		/* the last sum is gathered by what comes after the blocks, where it is by rows */
		ck_assert_int_eq(count(g, ORR_COLLECTIVE_ALL_GATHER, shard), 4 * 2);
		ck_assert_int_eq(count(g, ORR_COLLECTIVE_ALL_TO_ALL, shard), 0);
	}
	orr_graph_destroy(g);
}
END_TEST

#define TWO \
	"digraph { x [op=input, columns=\"0:4\"]; y [op=input, columns=4]; " \
	"a [op=linear, features=6]; r [op=relu]; b [op=linear, features=1]; l [op=mse]; " \
	"x -> a -> r -> b -> l; y -> l; "

/* By hand: columns, then addends; the bias once; data where it is read. */
START_TEST(two_products_are_split_by_columns_and_rows)
{
	static const struct {
		const char *name;
		int shard;
		int64_t floats, first, of;
	} wanted[] = {
		{"x", 0, 0, 0, 0},    {"y", 0, 0, 0, 0},   {"a/0", 0, 15, 0, 6},
		{"a/1", 1, 15, 3, 6}, {"r/0", 0, 0, 0, 0}, {"r/1", 1, 0, 0, 0},
		{"b/0", 0, 4, 0, 6},  {"b/1", 1, 3, 3, 6}, {"b:whole/0", 0, 0, 0, 0},
		{"l", 0, 0, 0, 0},
	};
	struct orr_graph *g = split(parse_graph(TWO "}"), "2");

	ck_assert_int_eq(g->n_operators, N_OF(wanted));
	for (int i = 0; i < N_OF(wanted); i++) {
		int k = 0;

		while (k < g->n_operators && strcmp(g->operators[k].name, wanted[i].name) != 0)
			k++;
		ck_assert_msg(k < g->n_operators, "no %s", wanted[i].name);
		ck_assert_int_eq(g->operators[k].shard, wanted[i].shard);
		ck_assert_int_eq(g->operators[k].n_parameters, wanted[i].floats);
		if (!wanted[i].floats)
			continue;
		ck_assert_int_eq(g->operators[k].instance->parameters[0].portion.first,
				 wanted[i].first);
		ck_assert_int_eq(g->operators[k].instance->parameters[0].portion.of, wanted[i].of);
	}
	orr_graph_destroy(g);
}
END_TEST

/* With more classes than columns before them, the classes are in parts, the table of ids too, and
 * the loss is of what each worker sees of its part. */
START_TEST(vocabularies_are_split)
{
	struct orr_graph *g = split(
		parse_graph(
			"digraph { x [op=input, columns=\"0:4\", rows=4]; y [op=input, "
			"columns=\"4:8\", rows=4]; e [op=embedding, vocabulary=30, features=8]; "
			"n [op=layernorm]; s [op=linear, features=30]; "
			"l [op=softmax_cross_entropy, smoothing=0.1, ignore=-1]; "
			"x -> e -> n -> s -> l; y -> l }"),
		"3");
	const struct orr_operator *part = find_operator(g, "l:part/2"), *l = find_operator(g, "l"),
				  *table = find_operator(g, "e/2");

	ck_assert_str_eq(orr_operator_op(part), "softmax_part");
	ck_assert_int_eq(part->shard, 2);
	ck_assert(part->instance->values[0] > 19 && part->instance->values[0] < 21);
	ck_assert_str_eq(orr_operator_op(l), "softmax_cross_entropy_parts");
	ck_assert(l->instance->values[1] > 0.09 && l->instance->values[2] < -0.9);
	ck_assert_int_eq(table->instance->parameters[0].portion.first, 20);
	ck_assert_int_eq(table->instance->parameters[0].portion.of, 30);
	ck_assert_int_eq(find_operator(g, "e:sum/1")->collective, ORR_COLLECTIVE_REDUCE_SCATTER);
	orr_graph_destroy(g);
}
END_TEST

/* Each expert is on one worker, whole; its rows come from all of them, and go back to all. */
START_TEST(experts_are_on_workers_of_their_own)
{
	struct orr_graph *g = read_split("moe", _i ? "4" : "2");
	int t = _i ? 4 : 2;

	for (int e = 0; e < 4; e++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "b0_up%d", e);
		ck_assert_int_eq(find_operator(g, name)->shard, e * t / 4);
		ck_assert_int_eq(find_operator(g, name)->instance->parameters[0].portion.of, 0);
		(void)snprintf(name, sizeof(name), "b0_down%d", e);
		ck_assert_int_eq(find_operator(g, name)->shard, e * t / 4);
	}
	orr_graph_destroy(g);
}
END_TEST

/* The same weights for words and for their scores; what is between them lies as `norm` leaves it.
 */
#define TIED(WORDS, NORM) \
	"digraph { x [op=input, columns=\"0:6\", rows=6]; y [op=input, columns=\"6:12\", " \
	"rows=6]; " \
	"e [op=embedding, vocabulary=" WORDS ", features=32, share=w]; n [" NORM \
	"]; r [op=relu]; " \
	"s [op=linear, features=" WORDS ", bias=false, share=w]; " \
	"l [op=softmax_cross_entropy]; x -> e -> n -> r -> s -> l; y -> l; "

/* n_sets: of tied parameters, of which each is of one worker or of none */
static const struct {
	const char *text, *splits;
	int n_sets;
} ties[] = {
	{TIED("16", "op=linear, features=32") "}", "2", 2},
	{TIED("16", "op=linear, features=32") "}", "3", 3},
	{TIED("16", "op=linear, features=32") "}", "4", 4},
	{TIED("16", "op=linear, features=32") "}", "2:copied", 2},
	{TIED("16", "op=linear, features=32") "}", "3:copied", 3},
	{TIED("16", "op=linear, features=32") "}", "4:copied", 4},
	{TIED("16", "op=layernorm") "}", "2", 2},
	{TIED("16", "op=layernorm") "}", "3", 3},
	{TIED("16", "op=layernorm") "}", "4", 4},
	{TIED("16", "op=layernorm") "}", "4:copied", 4},
	/* too few words for a part each: no way for both */
	{TIED("3", "op=linear, features=32") "}", "4", 1},
	{TIED("3", "op=linear, features=32") "}", "4:copied", 1},
	/* not as many parts of both, or parts of one alone */
	{TIED("16", "op=linear, features=32") "}", "2,s=4", 1},
	{TIED("16", "op=linear, features=32") "}", "e=2", 1},
	{TIED("16", "op=linear, features=32") "}", "s=2", 1},
};

/* Whatever one of them would rather be, both have the same parts. */
START_TEST(tied_operators_are_split_alike)
{
	struct orr_graph *g = split(parse_graph(ties[_i].text), ties[_i].splits);
	int n_sets = 0, n_whole = 0;

	for (int k = 0; k < g->n_operators; k++) {
		const struct orr_operator *o = &g->operators[k], *first;
		const char *name = g->whole->operators[o->origin].name;

		if (!o->n_parameters || (*name != 'e' && *name != 's'))
			continue;
		ck_assert_int_ge(o->tied, 0);
		first = &g->operators[o->tied];
		ck_assert_int_eq(o->instance->parameters[0].portion.axis, 0);
		ck_assert_int_eq(o->instance->parameters[0].portion.first,
				 first->instance->parameters[0].portion.first);
		ck_assert_int_eq(o->instance->parameters[0].portion.of,
				 first->instance->parameters[0].portion.of);
		n_sets += o == first;
		n_whole += !o->instance->parameters[0].portion.of;
		if (ties[_i].n_sets > 1)
			ck_assert_int_eq(o->shard, first->shard);
	}
	ck_assert_int_eq(n_sets, ties[_i].n_sets);
	ck_assert_int_eq(n_whole, n_sets > 1 ? 0 : 2);
	orr_graph_destroy(g);
}
END_TEST

static char *as_dot(const struct orr_graph *g)
{
	struct orr_error err = {""};
	char *text = NULL;
	size_t size;
	FILE *file = open_memstream(&text, &size);

	ck_assert_ptr_nonnull(file);
	ck_assert(!orr_graph_write_dot(g, file, &err));
	ck_assert(!fclose(file));
	return text;
}

#define TOWERS(LEFT, RIGHT) \
	"digraph { subgraph cluster_left { " LEFT "x [op=input, columns=\"0:4\"]; " \
	"a [op=linear, features=4]; x -> a; } subgraph cluster_right { " RIGHT \
	"z [op=input, columns=\"4:8\"]; b [op=linear, features=4]; z -> b; } " \
	"s [op=add]; y [op=input, columns=\"8:12\"]; l [op=mse]; a -> s; b -> s; s -> l; y -> l }"

/* What the file says, and what a text says over it. */
START_TEST(files_and_texts_say_the_same)
{
	static const struct {
		const char *file, *splits, *same_file, *same_splits;
	} cases[] = {
		{TOWERS("split=2; ", ""), NULL, TOWERS("", ""), "left=2"},
		{TOWERS("", "split=\"2:copied\"; "), NULL, TOWERS("", ""), "right=2:copied"},
		{TOWERS("split=4; ", "split=2; "), "left=2", TOWERS("", ""), "left=2,b=2,z=2"},
		{TOWERS("node [split=2]; ", ""), NULL, TOWERS("", ""), "1,left=2"},
		{TOWERS("split=2; ", "split=2; "), "1", TOWERS("", ""), NULL},
	};

	for (int i = 0; i < N_OF(cases); i++) {
		struct orr_graph *a = split(parse_graph(cases[i].file), cases[i].splits);
		struct orr_graph *b = split(parse_graph(cases[i].same_file), cases[i].same_splits);
		char *one = as_dot(a), *other = as_dot(b);

		if (a->whole) /* else its file says what was taken back */
			ck_assert_str_eq(one, other);
		else
			ck_assert_int_eq(a->n_operators, b->n_operators);
		free(one);
		free(other);
		orr_graph_destroy(a);
		orr_graph_destroy(b);
	}
}
END_TEST

/* One tensor that several read otherwise: by rows and by columns, and in parts of several numbers.
 */
START_TEST(exchanges_have_names_of_their_own)
{
	static const char *const several[] = {"2", "4", "2,m=2:copied", "a=2,m=4", "a=2,n=3,m=4"};

	for (int i = 0; i < N_OF(several); i++)
		orr_graph_destroy(split(
			parse_graph(
				"digraph { x [op=input, columns=\"0:4\", rows=4]; y [op=input, "
				"columns=\"4:8\"]; a [op=linear, features=16]; r [op=relu]; "
				"c [op=linear, features=8]; n [op=layernorm]; m [op=mean]; "
				"f [op=mean]; s [op=add]; h [op=linear, features=4]; l [op=mse]; "
				"x -> a -> r -> c; c -> n -> f -> s; c -> m -> s -> h -> l; y -> l "
				"}"),
			several[i]));
}
END_TEST

/* What the file calls its sets of parameters is not what copies are called. */
START_TEST(sets_of_parameters_keep_their_names)
{
	struct orr_graph *g =
		split(parse_graph("digraph { x [op=input, columns=\"0:4\", rows=4]; y [op=input, "
				  "columns=4]; "
				  "n [op=layernorm, share=\"n/\"]; k [op=layernorm, share=\"n/\"]; "
				  "m [op=layernorm]; f [op=mean]; l [op=mse]; x -> n -> k -> m -> "
				  "f -> l; y -> l }"),
		      "2");

	for (int i = 0; i < g->n_operators; i++)
		if (g->operators[i].n_parameters)
			ck_assert_msg(g->operators[i].tied >= 0, "%s has a set of its own",
				      g->operators[i].name);
	orr_graph_destroy(g);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(parts_are_the_whole, N_OF(models) * N_OF(splits)),
	EACH(products_are_not_computed_twice, N_OF(models) * N_OF(splits)),
	EACH(blocks_exchange_as_in_the_literature, N_OF(splits)),
	ONCE(two_products_are_split_by_columns_and_rows),
	ONCE(vocabularies_are_split),
	EACH(experts_are_on_workers_of_their_own, 2),
	EACH(tied_operators_are_split_alike, N_OF(ties)),
	ONCE(exchanges_have_names_of_their_own),
	ONCE(sets_of_parameters_keep_their_names),
	ONCE(files_and_texts_say_the_same),
};
SUITE("split")
