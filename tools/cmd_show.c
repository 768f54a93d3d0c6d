/* orrery show: a model before scheduling. */
#include <argp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "command.h"
#include "options.h"
#include "orrery/graph.h"
#include "output.h"
#include "orrery/orrery.h"
#include "orrery/plan.h"
#include "orrery/quantity.h"
#include "orrery/rewrite.h"

enum { KEY_SPLIT = 256 };

struct options {
	const char *source, *splits;
	bool dot, json, operators;
};

/* Sums over the operators of a graph, or of one encoder. */
struct totals {
	int n_operators;
	int64_t n_parameters, parameter_bytes, stash_floats;
	int64_t forward_flops, backward_flops, weight_flops;
	int64_t forward_ns, backward_ns, weight_ns;
};

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case 'd':
		options->dot = true;
		break;
	case 'j':
		options->json = true;
		break;
	case 'o':
		options->operators = true;
		break;
	case KEY_SPLIT:
		options->splits = text;
		break;
	case ARGP_KEY_ARG:
		if (options->source)
			options_refuse("one GRAPH at a time: take one away");
		options->source = text;
		break;
	case ARGP_KEY_END:
		if (!options->source && !options->operators)
			options_refuse("no GRAPH: name a DOT file, a model in ONNX, a PipeDream "
				       "profile, or a study "
				       "such as chain:8 or towers:3,3/2");
		if (options->dot && options->json)
			options_refuse(
				"--dot and --json both write to standard output: choose one");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static int64_t at_least_0(int64_t value)
{
	return value > 0 ? value : 0;
}

static bool is_study(const struct orr_graph *g)
{
	return orr_operator_is_study(&g->operators[0]);
}

/* Of the gradients that its backward computes, which depends on what is frozen. */
static int64_t input_flops(const struct orr_operator *o)
{
	return o->has_input_gradient ? o->backward_flops : 0;
}

static int64_t weight_flops(const struct orr_operator *o)
{
	return o->has_weight_gradient ? o->weight_flops : 0;
}

/* encoder -1: all operators. */
static struct totals sum_up(const struct orr_graph *g, int encoder)
{
	struct totals t = {0};
	int i;

	for (i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];

		if (encoder >= 0 && o->encoder != encoder)
			continue;
		t.n_operators++;
		t.n_parameters += orr_operator_counts(o, i) ? o->n_parameters : 0;
		t.parameter_bytes +=
			orr_operator_counts(o, i) ? orr_operator_parameter_bytes(o) : 0;
		t.stash_floats += orr_operator_stash_floats(o);
		t.forward_flops += o->forward_flops;
		t.backward_flops += input_flops(o);
		t.weight_flops += weight_flops(o);
		t.forward_ns += at_least_0(o->forward_ns);
		t.backward_ns += o->has_input_gradient ? at_least_0(o->backward_ns) : 0;
		t.weight_ns += o->has_weight_gradient ? at_least_0(o->weight_ns) : 0;
	}
	return t;
}

static bool has_costs(const struct orr_graph *g)
{
	int i;

	for (i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];

		if (o->forward_ns >= 0 || o->backward_ns >= 0 || o->weight_ns >= 0 ||
		    o->activation_bytes >= 0 || o->stash_bytes >= 0 || o->parameter_bytes >= 0)
			return true;
	}
	return false;
}

static int n_stages(const struct orr_graph *g)
{
	int i, n = 0;

	for (i = 0; i < g->n_operators; i++)
		if (g->operators[i].stage >= n)
			n = g->operators[i].stage + 1;
	return n;
}

/* A duration, or - where the file gives none. */
static const char *duration(char *buffer, size_t size, const struct orr_graph *g, int64_t ns)
{
	if (ns < 0)
		return "-";
	return orr_duration_print(buffer, size, ns, g->units);
}

static const char *size(char *buffer, size_t room, int64_t bytes)
{
	return bytes < 0 ? "-" : orr_size_print(buffer, room, bytes);
}

/* "12.3 MFLOP" */
static const char *flops(char *buffer, size_t size, int64_t n)
{
	static const char *const names[] = {"", "k", "M", "G", "T", "P"};
	double value = (double)n;
	int i = 0;

	for (; i < 5 && value >= 999.5; i++)
		value /= 1000;
	(void)snprintf(buffer, size, "%.3g %sFLOP", value, names[i]);
	return buffer;
}

/* Operators of a kind that is not known. */
static void print_not_counted(const struct orr_graph *g)
{
	char text[512];
	int n = 0;

	for (int i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];

		if (orr_operator_is_counted(o))
			continue;
		printf("%s%s%s%s%s", n++ ? ", " : "not known, counted as 0 FLOP: ", o->name,
		       o->label ? " (" : "",
		       o->label ? command_text(text, sizeof(text), o->label) : "",
		       o->label ? ")" : "");
	}
	if (n)
		printf("\n");
}

static void print_head(const struct orr_graph *g)
{
	struct totals t = sum_up(g, -1);
	char a[32], b[32], c[32];
	int i, pinned = n_stages(g);

	printf("%s: %d operator%s", g->name, g->n_operators, g->n_operators == 1 ? "" : "s");
	if (g->n_encoders > 0)
		printf(", %d encoder%s", g->n_encoders, g->n_encoders == 1 ? "" : "s");
	if (pinned > 0)
		printf(", pinned to %d stage%s", pinned, pinned == 1 ? "" : "s");
	printf("\n");
	if (!is_study(g)) {
		printf("parameters: %lld floats, %s\n", (long long)t.n_parameters,
		       orr_size_print(a, sizeof(a), 4 * t.n_parameters));
		printf("per sample: forward %s, backward %s (input gradient) + %s (weight "
		       "gradient)\n",
		       flops(a, sizeof(a), t.forward_flops), flops(b, sizeof(b), t.backward_flops),
		       flops(c, sizeof(c), t.weight_flops));
		printf("stash per sample: %s\n", orr_size_print(a, sizeof(a), 4 * t.stash_floats));
	} else {
		printf("parameters: %s\n", orr_size_print(a, sizeof(a), t.parameter_bytes));
		printf("per microbatch%s: forward %s, backward %s", g->units ? ", in units" : "",
		       duration(a, sizeof(a), g, t.forward_ns),
		       duration(b, sizeof(b), g, t.backward_ns));
		if (t.weight_ns > 0)
			printf(" (input gradient) + %s (weight gradient)",
			       duration(c, sizeof(c), g, t.weight_ns));
		printf("\n");
	}
	if (g->profiled.hardware)
		printf("profiled: %s\n", orr_profiled_print(a, sizeof(a), &g->profiled));
	print_not_counted(g);
	for (i = 0; i < g->n_encoders; i++) {
		struct totals e = sum_up(g, i);

		printf("encoder %s: %d operator%s, %s of parameters, forward %s\n", g->encoders[i],
		       e.n_operators, e.n_operators == 1 ? "" : "s",
		       orr_size_print(a, sizeof(a), e.parameter_bytes),
		       is_study(g) ? duration(b, sizeof(b), g, e.forward_ns)
				   : flops(b, sizeof(b), e.forward_flops));
	}
}

static int name_width(const struct orr_graph *g)
{
	int i, width = 8;

	for (i = 0; i < g->n_operators; i++)
		if ((int)strlen(g->operators[i].name) > width)
			width = (int)strlen(g->operators[i].name);
	return width < 40 ? width : 40;
}

/* The last column: its inputs and its label. */
static void print_inputs(const struct orr_graph *g, const struct orr_operator *o)
{
	char text[512];
	int k;

	for (k = 0; k < o->n_inputs; k++)
		printf("%s%s", k ? ", " : "", g->operators[o->inputs[k]].name);
	if (o->n_inputs == 0)
		putchar('-');
	if (o->frozen)
		printf("  frozen");
	if (o->share)
		printf("  share=%s", command_text(text, sizeof(text), o->share));
	if (o->gather)
		printf("  gather=minibatch");
	if (o->n_gang)
		printf("  gang=%d", o->n_gang);
	for (k = 0; o->gang && k < o->n_gang; k++)
		printf("%s%d", k ? "," : " on ", o->gang[k]);
	if (o->with)
		printf("  with=%s", command_text(text, sizeof(text), o->with));
	if (o->label)
		printf("  (%s)", command_text(text, sizeof(text), o->label));
	printf("\n");
}

static void print_stage(const struct orr_operator *o)
{
	if (o->stage >= 0)
		printf("%5d", o->stage);
	else
		printf("%5s", "-");
}

/* One row per operator: the sizes that follow from its shapes. */
static void print_model(const struct orr_graph *g)
{
	int i, width = name_width(g);
	char a[32], b[32], c[32];

	printf("\n%-*s  %-21s  %5s  %7s  %10s  %10s  %10s  %9s  %s\n", width, "operator", "op",
	       "stage", "columns", "parameters", "forward", "backward", "stash", "reads");
	for (i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];

		printf("%-*s  %-21s  ", width, o->name, orr_operator_op(o));
		print_stage(o);
		printf("  %7lld  %10lld  %10s  %10s  %9s  ", (long long)o->width,
		       (long long)o->n_parameters, flops(a, sizeof(a), o->forward_flops),
		       flops(b, sizeof(b), input_flops(o) + weight_flops(o)),
		       orr_size_print(c, sizeof(c), 4 * orr_operator_stash_floats(o)));
		print_inputs(g, o);
	}
}

/* One row per operator: the costs in the file. */
static void print_costs(const struct orr_graph *g)
{
	int i, width = name_width(g);
	char a[32], b[32], c[32];

	printf("\n%-*s  %5s  %9s  %9s  %9s  ", width, "operator", "stage", "forward", "backward",
	       "weight");
	printf("%10s  %9s  %10s  %s\n", "activation", "stash", "parameters", "reads");
	for (i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];

		printf("%-*s  ", width, o->name);
		print_stage(o);
		printf("  %9s  %9s  %9s  ", duration(a, sizeof(a), g, o->forward_ns),
		       o->has_input_gradient ? duration(b, sizeof(b), g, o->backward_ns) : "-",
		       o->has_weight_gradient ? duration(c, sizeof(c), g, o->weight_ns) : "-");
		printf("%10s  %9s  %10s  ", size(a, sizeof(a), o->activation_bytes),
		       size(b, sizeof(b), o->stash_bytes), size(c, sizeof(c), o->parameter_bytes));
		print_inputs(g, o);
	}
}

/* Steals value; a NULL anywhere leaves the object as it is and is noticed by the caller's count. */
static void set(json_t *object, const char *key, json_t *value, bool *failed)
{
	if (!value || json_object_set_new(object, key, value))
		*failed = true;
}

static void set_totals(json_t *object, const struct totals *t, bool study, double unit,
		       bool *failed)
{
	set(object, "parameter_bytes", json_integer(t->parameter_bytes), failed);
	if (study) {
		set(object, "forward", json_real((double)t->forward_ns / unit), failed);
		set(object, "backward", json_real((double)(t->backward_ns + t->weight_ns) / unit),
		    failed);
		return;
	}
	set(object, "parameters", json_integer(t->n_parameters), failed);
	set(object, "forward_flop", json_integer(t->forward_flops), failed);
	set(object, "backward_flop", json_integer(t->backward_flops + t->weight_flops), failed);
	set(object, "stash_bytes_per_sample", json_integer(4 * t->stash_floats), failed);
}

static json_t *columns_json(const struct orr_operator *o)
{
	char *text = NULL;
	size_t length;
	FILE *file = open_memstream(&text, &length);
	json_t *columns = NULL;

	if (!file)
		return NULL;
	orr_operator_write_columns(o, file);
	if (!fclose(file))
		columns = json_string(text);
	free(text);
	return columns;
}

/* Attributes as a file says them. */
static json_t *attributes_json(const struct orr_operator *o, bool *failed)
{
	json_t *attributes = json_object();
	char value[ORR_VALUE];
	const char *name;
	bool usual;

	for (int i = 0; (name = orr_operator_attribute(o, i, value, &usual)); i++)
		set(attributes, name, json_string(value), failed);
	if (o->columns)
		set(attributes, "columns", columns_json(o), failed);
	if (o->tensor)
		set(attributes, "tensor", json_string(o->tensor), failed);
	return attributes;
}

/* Its parameters, one behind the other. */
static json_t *tensors_json(const struct orr_operator *o, bool *failed)
{
	json_t *tensors = json_array();
	const int64_t *dims;
	const char *name;
	int n_dims;

	for (int i = 0; (name = orr_operator_parameter(o, i, &n_dims, &dims)); i++) {
		json_t *shape = json_array();

		for (int k = 0; k < n_dims; k++)
			*failed |= json_array_append_new(shape, json_integer(dims[k])) != 0;
		*failed |= json_array_append_new(tensors,
						 json_pack("{s:s,s:s,s:o}", "name", name, "role",
							   orr_operator_parameter_role(o, i),
							   "shape", shape)) != 0;
	}
	return tensors;
}

/* The inputs to which no gradient goes back. */
static json_t *detached_json(const struct orr_graph *g, const struct orr_operator *o, bool *failed)
{
	json_t *detached = json_array();

	for (int k = 0; k < o->n_inputs; k++)
		if (orr_operator_is_detached(o, k))
			*failed |= json_array_append_new(
					   detached,
					   json_string(g->operators[o->inputs[k]].name)) != 0;
	return detached;
}

static json_t *operator_json(const struct orr_graph *g, const struct orr_operator *o, bool *failed)
{
	const struct {
		const char *key;
		int64_t value;
	} times[] = {{"forward", o->forward_ns},
		     {"backward", o->backward_ns},
		     {"weight", o->weight_ns},
		     {"update", o->update_ns}},
	  sizes[] = {{"activation_bytes", o->activation_bytes}, {"stash_bytes", o->stash_bytes}};
	json_t *object = json_object(), *inputs = json_array();
	int k;

	if (!object || !inputs)
		*failed = true;
	set(object, "name", json_string(o->name), failed);
	if (o->label)
		set(object, "label", json_string(o->label), failed);
	set(object, "op", json_string(orr_operator_op(o)), failed);
	set(object, "encoder", o->encoder >= 0 ? json_string(g->encoders[o->encoder]) : json_null(),
	    failed);
	set(object, "stage", o->stage >= 0 ? json_integer(o->stage) : json_null(), failed);
	for (k = 0; k < o->n_inputs; k++)
		if (json_array_append_new(inputs, json_string(g->operators[o->inputs[k]].name)))
			*failed = true;
	set(object, "inputs", inputs, failed);
	for (k = 0; k < 4; k++)
		if (times[k].value >= 0)
			set(object, times[k].key,
			    json_real((double)times[k].value / (double)ORR_UNIT_NS), failed);
	for (k = 0; k < 2; k++)
		if (sizes[k].value >= 0)
			set(object, sizes[k].key, json_integer(sizes[k].value), failed);
	set(object, "parameter_bytes", json_integer(orr_operator_parameter_bytes(o)), failed);
	set(object, "frozen", json_boolean(o->frozen), failed);
	if (o->share)
		set(object, "share", json_string(o->share), failed);
	if (o->gather)
		set(object, "gather", json_string("minibatch"), failed);
	if (o->n_gang)
		set(object, "gang", json_integer(o->n_gang), failed);
	if (o->gang) {
		json_t *workers = json_array();

		for (k = 0; k < o->n_gang; k++)
			*failed |= json_array_append_new(workers, json_integer(o->gang[k])) != 0;
		set(object, "gang_workers", workers, failed);
	}
	if (o->with)
		set(object, "with", json_string(o->with), failed);
	if (orr_operator_is_study(o))
		return object;
	set(object, "attributes", attributes_json(o, failed), failed);
	set(object, "shape",
	    json_pack("[I,I]", (json_int_t)o->rows, (json_int_t)(o->width / o->rows)), failed);
	set(object, "tensors", tensors_json(o, failed), failed);
	if (o->reads)
		set(object, "detached", detached_json(g, o, failed), failed);
	set(object, "columns", json_integer(o->width / o->rows), failed);
	set(object, "parameters", json_integer(o->n_parameters), failed);
	set(object, "forward_flop", json_integer(o->forward_flops), failed);
	set(object, "backward_flop", json_integer(o->backward_flops), failed);
	set(object, "weight_flop", json_integer(o->weight_flops), failed);
	set(object, "stash_bytes_per_sample", json_integer(4 * orr_operator_stash_floats(o)),
	    failed);
	return object;
}

static int print_json(const struct orr_graph *g, struct orr_error *err)
{
	json_t *root = json_object(), *operators = json_array(), *encoders = json_array(), *encoder;
	double unit = (double)ORR_UNIT_NS; /* a second or a unit: the same here */
	struct totals t = sum_up(g, -1);
	bool failed = !root || !operators || !encoders;
	char text[16];
	int i, code = 0;

	set(root, "graph", json_string(g->name), &failed);
	set(root, "data", g->data ? json_string(g->data) : json_null(), &failed);
	set(root, "units", json_boolean(g->units), &failed);
	set(root, "stages", n_stages(g) ? json_integer(n_stages(g)) : json_null(), &failed);
	set_totals(root, &t, is_study(g), unit, &failed);
	if (g->profiled.hardware)
		set(root, "profiled",
		    json_string(orr_profiled_print(text, sizeof(text), &g->profiled)), &failed);
	for (i = 0; i < g->n_encoders; i++) {
		t = sum_up(g, i);
		encoder = json_object();
		set(encoder, "name", json_string(g->encoders[i]), &failed);
		set(encoder, "operators", json_integer(t.n_operators), &failed);
		set_totals(encoder, &t, is_study(g), unit, &failed);
		failed = json_array_append_new(encoders, encoder) || failed;
	}
	for (i = 0; i < g->n_operators; i++)
		failed = json_array_append_new(operators,
					       operator_json(g, &g->operators[i], &failed)) ||
			 failed;
	set(root, "encoders", encoders, &failed);
	set(root, "operators", operators, &failed);
	if (failed)
		code = orr_fail(err, ORR_E_NOMEM,
				"%s: no JSON: no memory, or a name that is no UTF-8", g->name);
	else if (json_dumpf(root, stdout, JSON_INDENT(2) | OUTPUT_JSON_DIGITS) ||
		 putchar('\n') == EOF)
		code = orr_fail(err, ORR_E_IO, "%s: its JSON could not be written: is there room?",
				g->name);
	json_decref(root);
	return code;
}

/* Each with what it may be told, and the value that it has otherwise. */
static int list_operators(void)
{
	char text[256];
	const char *op;

	for (int i = 0; (op = orr_graph_op(i, text, sizeof(text))); i++)
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

int cmd_show(int argc, char **argv)
{
	static const struct argp_option table[] = {
		{"dot", 'd', NULL, 0, "Write the graph as DOT, repeats unfolded", 0},
		{"json", 'j', NULL, 0, "Write one JSON object", 0},
		{"operators", 'o', NULL, 0,
		 "List the operators that a graph may have, with their attributes", 0},
		{"split", KEY_SPLIT, "N", 0,
		 "Show the graph as it is split among N workers, or trunk=2,image=1 by encoders",
		 0},
		{0},
	};
	static const struct argp argp = {
		table,
		parse,
		"GRAPH",
		"Show the operators of a model, its encoders, parameters, operations (FLOP) and "
		"sizes. GRAPH is a DOT file, a model in ONNX, a PipeDream profile, or a study such "
		"as chain:8 or "
		"towers:3,3/2.",
		NULL,
		NULL,
		NULL};
	struct options options = {0};
	struct orr_graph *graph = NULL;
	struct orr_error err = {""};
	int code;

	options_parse(&argp, argc, argv, &options);
	if (options.operators)
		return list_operators();
	if ((code = read_model(&graph, options.source, &err)) ||
	    (code = orr_graph_split(&graph, graph, options.splits, &err)))
		goto out;
	if (options.dot) {
		code = orr_graph_write_dot(graph, stdout, &err);
	} else if (options.json) {
		code = print_json(graph, &err);
	} else {
		print_head(graph);
		if (!is_study(graph))
			print_model(graph);
		if (has_costs(graph))
			print_costs(graph);
		if (fflush(stdout))
			code = orr_fail(&err, ORR_E_IO, "%s: could not be shown: is there room?",
					graph->name);
	}
out:
	orr_graph_destroy(graph);
	return command_end(code, &err);
}
