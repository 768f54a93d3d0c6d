#include "report.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/graph.h"
#include "base/json.h"
#include "base/max.h"
#include "base/quantity.h"
#include "base/utf8.h"

/* Sums over the operators of a graph, or of one encoder. */
struct totals {
	int n_operators;
	int64_t n_parameters, parameter_bytes, stash_floats;
	int64_t forward_flops, backward_flops, weight_flops;
	int64_t forward_ns, backward_ns, weight_ns;
};

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

	for (int i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];

		if (encoder >= 0 && o->encoder != encoder)
			continue;
		t.n_operators++;
		if (orr_operator_counts(o, i)) {
			t.n_parameters += o->n_parameters;
			t.parameter_bytes += orr_operator_parameter_bytes(o);
		}
		t.stash_floats += orr_operator_stash_floats(o);
		t.forward_flops += o->forward_flops;
		t.backward_flops += input_flops(o);
		t.weight_flops += weight_flops(o);
		t.forward_ns += larger(o->forward_ns, 0);
		t.backward_ns += o->has_input_gradient ? larger(o->backward_ns, 0) : 0;
		t.weight_ns += o->has_weight_gradient ? larger(o->weight_ns, 0) : 0;
	}
	return t;
}

static bool has_costs(const struct orr_graph *g)
{
	for (int i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];

		if (o->forward_ns >= 0 || o->backward_ns >= 0 || o->weight_ns >= 0 ||
		    o->activation_bytes >= 0 || o->stash_bytes >= 0 || o->parameter_bytes >= 0)
			return true;
	}
	return false;
}

static int n_stages(const struct orr_graph *g)
{
	int n = 0;

	for (int i = 0; i < g->n_operators; i++)
		n = (int)larger(n, g->operators[i].stage + 1);
	return n;
}

/* A duration, or - where the file gives none. */
static const char *duration(const struct orr_graph *g, int64_t ns)
{
	return ns < 0 ? "-" : orr_duration_text(ns, g->units);
}

static const char *size(int64_t bytes)
{
	return bytes < 0 ? "-" : orr_size_text(bytes);
}

/* "12.3 MFLOP" */
static const char *flops(int64_t n)
{
	static const char *const names[] = {"", "k", "M", "G", "T", "P"};
	double value = (double)n;
	int i = 0;

	for (; i < 5 && value >= 999.5; i++)
		value /= 1000;
	return orr_text("%.3g %sFLOP", value, names[i]);
}

static void write_not_counted(FILE *file, const struct orr_graph *g)
{
	char text[512];
	int n = 0;

	for (int i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];

		if (orr_operator_is_counted(o))
			continue;
		fprintf(file, "%s%s", n++ ? ", " : "not known, counted as 0 FLOP: ", o->name);
		if (o->label)
			fprintf(file, " (%s)", orr_utf8_print(text, sizeof(text), o->label));
	}
	if (n)
		fprintf(file, "\n");
}

static void write_head(FILE *file, const struct orr_graph *g)
{
	struct totals t = sum_up(g, -1);
	int pinned = n_stages(g);

	fprintf(file, "%s: %s", g->name, orr_count_text(g->n_operators, "operator"));
	if (g->n_encoders > 0)
		fprintf(file, ", %s", orr_count_text(g->n_encoders, "encoder"));
	if (pinned > 0)
		fprintf(file, ", pinned to %s", orr_count_text(pinned, "stage"));
	fprintf(file, "\n");
	if (!orr_graph_is_study(g)) {
		fprintf(file, "parameters: %lld floats, %s\n", (long long)t.n_parameters,
			size(4 * t.n_parameters));
		fprintf(file,
			"per sample: forward %s, backward %s (input gradient) + %s (weight "
			"gradient)\n",
			flops(t.forward_flops), flops(t.backward_flops), flops(t.weight_flops));
		fprintf(file, "stash per sample: %s\n", size(4 * t.stash_floats));
	} else {
		fprintf(file, "parameters: %s\n", size(t.parameter_bytes));
		fprintf(file, "per microbatch%s: forward %s, backward %s",
			g->units ? ", in units" : "", duration(g, t.forward_ns),
			duration(g, t.backward_ns));
		if (t.weight_ns > 0)
			fprintf(file, " (input gradient) + %s (weight gradient)",
				duration(g, t.weight_ns));
		fprintf(file, "\n");
	}
	if (g->profiled.hardware)
		fprintf(file, "profiled: %s\n", orr_profiled_text(&g->profiled));
	write_not_counted(file, g);
	for (int i = 0; i < g->n_encoders; i++) {
		struct totals e = sum_up(g, i);

		fprintf(file, "encoder %s: %s, %s of parameters, forward %s\n", g->encoders[i],
			orr_count_text(e.n_operators, "operator"), size(e.parameter_bytes),
			orr_graph_is_study(g) ? duration(g, e.forward_ns) : flops(e.forward_flops));
	}
}

static int name_width(const struct orr_graph *g)
{
	int width = 8;

	for (int i = 0; i < g->n_operators; i++)
		width = (int)larger(width, (int64_t)strlen(g->operators[i].name));
	return width < 40 ? width : 40;
}

static void write_inputs(FILE *file, const struct orr_graph *g, const struct orr_operator *o)
{
	char text[512];

	for (int k = 0; k < o->n_inputs; k++)
		fprintf(file, "%s%s", k ? ", " : "", g->operators[o->inputs[k]].name);
	if (o->n_inputs == 0)
		fputc('-', file);
	if (o->frozen)
		fprintf(file, "  frozen");
	if (o->share)
		fprintf(file, "  share=%s", orr_utf8_print(text, sizeof(text), o->share));
	if (o->gather)
		fprintf(file, "  gather=minibatch");
	if (o->n_gang)
		fprintf(file, "  gang=%d", o->n_gang);
	for (int k = 0; o->gang && k < o->n_gang; k++)
		fprintf(file, "%s%d", k ? "," : " on ", o->gang[k]);
	if (o->with)
		fprintf(file, "  with=%s", orr_utf8_print(text, sizeof(text), o->with));
	if (o->label)
		fprintf(file, "  (%s)", orr_utf8_print(text, sizeof(text), o->label));
	fprintf(file, "\n");
}

static const char *stage(const struct orr_operator *o)
{
	return o->stage >= 0 ? orr_text("%d", o->stage) : "-";
}

static void write_model(FILE *file, const struct orr_graph *g)
{
	int width = name_width(g);

	fprintf(file, "\n%-*s  %-21s  %5s  %7s  %10s  %10s  %10s  %9s  %s\n", width, "operator",
		"op", "stage", "columns", "parameters", "forward", "backward", "stash", "reads");
	for (int i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];

		fprintf(file, "%-*s  %-21s  %5s  %7lld  %10lld  %10s  %10s  %9s  ", width, o->name,
			orr_operator_op(o), stage(o), (long long)o->width,
			(long long)o->n_parameters, flops(o->forward_flops),
			flops(input_flops(o) + weight_flops(o)),
			size(4 * orr_operator_stash_floats(o)));
		write_inputs(file, g, o);
	}
}

static void write_costs(FILE *file, const struct orr_graph *g)
{
	static const char format[] = "%-*s  %5s  %9s  %9s  %9s  %10s  %9s  %10s  ";
	int width = name_width(g);

	fputc('\n', file);
	fprintf(file, format, width, "operator", "stage", "forward", "backward", "weight",
		"activation", "stash", "parameters");
	fputs("reads\n", file);
	for (int i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];

		fprintf(file, format, width, o->name, stage(o), duration(g, o->forward_ns),
			o->has_input_gradient ? duration(g, o->backward_ns) : "-",
			o->has_weight_gradient ? duration(g, o->weight_ns) : "-",
			size(o->activation_bytes), size(o->stash_bytes), size(o->parameter_bytes));
		write_inputs(file, g, o);
	}
}

int orr_graph_report_write(FILE *file, const struct orr_graph *g, struct orr_error *err)
{
	write_head(file, g);
	if (!orr_graph_is_study(g))
		write_model(file, g);
	if (has_costs(g))
		write_costs(file, g);
	return fflush(file)
		       ? orr_fail(err, ORR_E_IO, "%s: could not be shown: is there room?", g->name)
		       : 0;
}

static json_t *totals_json(const struct totals *t, bool study)
{
	if (study)
		return json_pack("{s:I, s:o, s:o}", "parameter_bytes",
				 (json_int_t)t->parameter_bytes, "forward",
				 orr_json_time(t->forward_ns), "backward",
				 orr_json_time(t->backward_ns + t->weight_ns));
	return json_pack("{s:I, s:I, s:I, s:I, s:I}", "parameter_bytes",
			 (json_int_t)t->parameter_bytes, "parameters", (json_int_t)t->n_parameters,
			 "forward_flop", (json_int_t)t->forward_flops, "backward_flop",
			 (json_int_t)t->backward_flops + t->weight_flops, "stash_bytes_per_sample",
			 4 * (json_int_t)t->stash_floats);
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

static json_t *attributes_json(const struct orr_operator *o)
{
	json_t *attributes = json_object();
	char value[ORR_VALUE];
	const char *name;
	bool usual;

	for (int i = 0; (name = orr_operator_attribute(o, i, value, &usual)); i++)
		orr_json_set(&attributes, name, json_string(value));
	if (o->columns)
		orr_json_set(&attributes, "columns", columns_json(o));
	if (o->tensor)
		orr_json_set(&attributes, "tensor", json_string(o->tensor));
	return attributes;
}

/* Its parameters, one behind the other. */
static json_t *tensors_json(const struct orr_operator *o)
{
	json_t *tensors = json_array();
	const int64_t *dims;
	const char *name;
	int n_dims;

	for (int i = 0; (name = orr_operator_parameter(o, i, &n_dims, &dims)); i++) {
		json_t *shape = json_array();

		for (int k = 0; k < n_dims; k++)
			orr_json_append(&shape, json_integer(dims[k]));
		orr_json_append(&tensors,
				json_pack("{s:s,s:s,s:o}", "name", name, "role",
					  orr_operator_parameter_role(o, i), "shape", shape));
	}
	return tensors;
}

/* The inputs, or those of them to which no gradient goes back. */
static json_t *inputs_json(const struct orr_graph *g, const struct orr_operator *o, bool detached)
{
	json_t *inputs = json_array();

	for (int k = 0; k < o->n_inputs; k++)
		if (!detached || orr_operator_is_detached(o, k))
			orr_json_append(&inputs, json_string(g->operators[o->inputs[k]].name));
	return inputs;
}

/* What a model that computes has beside its costs. */
static void set_shapes(json_t **object, const struct orr_graph *g, const struct orr_operator *o)
{
	const json_int_t columns = (json_int_t)(o->width / o->rows);

	orr_json_update(object,
			json_pack("{s:o, s:[I,I], s:o}", "attributes", attributes_json(o), "shape",
				  (json_int_t)o->rows, columns, "tensors", tensors_json(o)));
	if (o->reads)
		orr_json_set(object, "detached", inputs_json(g, o, true));
	orr_json_update(object, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "columns", columns,
					  "parameters", (json_int_t)o->n_parameters, "forward_flop",
					  (json_int_t)o->forward_flops, "backward_flop",
					  (json_int_t)o->backward_flops, "weight_flop",
					  (json_int_t)o->weight_flops, "stash_bytes_per_sample",
					  4 * (json_int_t)orr_operator_stash_floats(o)));
}

static json_t *operator_json(const struct orr_graph *g, const struct orr_operator *o)
{
	const struct {
		const char *key;
		int64_t value;
	} costs[] = {{"forward", o->forward_ns},
		     {"backward", o->backward_ns},
		     {"weight", o->weight_ns},
		     {"update", o->update_ns},
		     {"activation_bytes", o->activation_bytes},
		     {"stash_bytes", o->stash_bytes}};
	json_t *object = json_pack("{s:s, s:s*, s:s, s:s?, s:o, s:o}", "name", o->name, "label",
				   o->label, "op", orr_operator_op(o), "encoder",
				   o->encoder >= 0 ? g->encoders[o->encoder] : NULL, "stage",
				   o->stage >= 0 ? json_integer(o->stage) : json_null(), "inputs",
				   inputs_json(g, o, false));

	for (int k = 0; k < 6; k++)
		if (costs[k].value >= 0)
			orr_json_set(&object, costs[k].key,
				     k < 4 ? orr_json_time(costs[k].value)
					   : json_integer(costs[k].value));
	orr_json_update(&object,
			json_pack("{s:I, s:b, s:s*, s:s*}", "parameter_bytes",
				  (json_int_t)orr_operator_parameter_bytes(o), "frozen", o->frozen,
				  "share", o->share, "gather", o->gather ? "minibatch" : NULL));
	if (o->n_gang)
		orr_json_set(&object, "gang", json_integer(o->n_gang));
	if (o->gang)
		orr_json_set(&object, "gang_workers", orr_json_integers(o->gang, o->n_gang));
	if (o->with)
		orr_json_set(&object, "with", json_string(o->with));
	if (!orr_operator_is_study(o))
		set_shapes(&object, g, o);
	return object;
}

json_t *orr_graph_report_json(const struct orr_graph *g, struct orr_error *err)
{
	json_t *operators = json_array(), *encoders = json_array(), *encoder;
	json_t *root = json_pack("{s:s, s:s?, s:b, s:o}", "graph", g->name, "data", g->data,
				 "units", g->units, "stages",
				 n_stages(g) ? json_integer(n_stages(g)) : json_null());
	struct totals t = sum_up(g, -1);

	orr_json_update(&root, totals_json(&t, orr_graph_is_study(g)));
	if (g->profiled.hardware)
		orr_json_set(&root, "profiled", json_string(orr_profiled_text(&g->profiled)));
	for (int i = 0; i < g->n_encoders; i++) {
		t = sum_up(g, i);
		encoder =
			json_pack("{s:s, s:i}", "name", g->encoders[i], "operators", t.n_operators);
		orr_json_update(&encoder, totals_json(&t, orr_graph_is_study(g)));
		orr_json_append(&encoders, encoder);
	}
	for (int i = 0; i < g->n_operators; i++)
		orr_json_append(&operators, operator_json(g, &g->operators[i]));
	orr_json_set(&root, "encoders", encoders);
	orr_json_set(&root, "operators", operators);
	return orr_json_check(
		root, orr_text("%s: no JSON: no memory, or a name that is no UTF-8", g->name), err);
}
