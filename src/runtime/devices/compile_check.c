#include "compile.h"

#include <math.h>
#include <stdio.h>

#include "codelets/operator.h"
#include "compile_notes.h"
#include "orrery/graph.h"
#include "base/nearest.h"

int64_t orr_program_n_ids(const struct orr_operator *o, int i)
{
	return o->instance->op->n_ids ? o->instance->op->n_ids(o->instance, i) : 0;
}

/* What the file reader cannot refuse, because a graph that is only simulated may have it. */
int orr_program_check_operator(const struct orr_graph *g, int k, struct orr_error *err)
{
	const struct orr_operator *o = &g->operators[k];
	char line[16] = ""; /* none of what a reader adds by itself */

	if (o->gather && (orr_operator_is_study(o) || !o->instance->op->whole_minibatch))
		return orr_fail(err, ORR_E_INPUT,
				"%s:%d: %s gathers a minibatch, which simulate, compare and auto "
				"know of any operator, and train and profile of op=contrastive "
				"alone: others read their own microbatch; take gather= away",
				g->name, o->line, o->name);
	if (o->n_gang > 1)
		return orr_fail(err, ORR_E_INPUT,
				"%s:%d: %s is on %d workers at once, which simulate, compare and "
				"auto know, and train and profile do not: take gang= away",
				g->name, o->line, o->name, o->n_gang);
	if (o->recompute)
		return orr_fail(err, ORR_E_INPUT,
				"%s:%d: %s has recompute=true, which simulate, compare and plan "
				"know, and train and profile do not: take it away, or give "
				"[recompute] its stage",
				g->name, o->line, o->name);
	if (orr_operator_is_study(o))
		return orr_fail(
			err, ORR_E_INPUT,
			"%s:%d: %s has costs and nothing to compute; give it an op to train it",
			g->name, o->line, o->name);
	if (o->line > 0)
		(void)snprintf(line, sizeof(line), ":%d", o->line);
	if (o->instance->op->opaque)
		return orr_fail(err, ORR_E_INPUT,
				"%.150s%s: %s (%.80s) is opaque: it has costs and nothing to "
				"compute; write the graph as DOT and give it an op to train it",
				g->name, line, o->name, o->label ? o->label : "no label");
	if (o->width < 1 || o->width > ORR_MOST_FLOATS)
		return orr_fail(err, ORR_E_INPUT, "%s:%d: %s: width %lld; it must be 1 to %lld",
				g->name, o->line, o->name, (long long)o->width,
				(long long)ORR_MOST_FLOATS);
	for (int i = 0; i < o->n_inputs; i++) {
		const struct orr_operator *input = &g->operators[o->inputs[i]];

		if (o->gather && orr_operator_is_input(input))
			return orr_fail(err, ORR_E_INPUT,
					"%s:%d: %s gathers a minibatch from the stages before it, "
					"and %s is data: put an operator between them",
					g->name, o->line, o->name, input->name);
		if (orr_operator_is_loss(input))
			return orr_fail(err, ORR_E_INPUT,
					"%s:%d: %s reads the loss %s; losses are summed by "
					"themselves, end the graph there",
					g->name, o->line, o->name, input->name);
	}
	for (int i = 0; i < o->n_inputs; i++)
		if (orr_operator_is_loss(o) && orr_program_n_ids(o, i) &&
		    !orr_operator_is_input(&g->operators[o->inputs[i]]))
			return orr_fail(
				err, ORR_E_INPUT,
				"%s:%d: %s takes its classes from %s; they must come from an input",
				g->name, o->line, o->name, g->operators[o->inputs[i]].name);
	return 0;
}

/* The names of the data's tensors, cut off at the buffer's end. */
static const char *name_tensors(char text[128], const struct orr_dataset *data)
{
	int n = 0;

	*text = '\0';
	for (int i = 0; i < data->n_tensors && n < 64; i++)
		n += snprintf(text + n, 64, "%s%.50s", i ? ", " : "",
			      data->tensors[i].name ? data->tensors[i].name : "");
	return text;
}

static int fail_tensor(const struct orr_graph *g, const struct orr_operator *o,
		       const struct orr_dataset *data, struct orr_error *err)
{
	struct orr_nearest near = orr_nearest_to(o->tensor ? o->tensor : "");
	char names[128];

	if (!o->tensor)
		return orr_fail(err, ORR_E_INPUT,
				"%s:%d: node %s: the data has several tensors: say which one, "
				"tensor=\"%.60s\"",
				g->name, o->line, o->name, data->tensors[0].name);
	if (data->n_tensors == 0 || !data->tensors[0].name)
		return orr_fail(
			err, ORR_E_INPUT,
			"%s:%d: node %s: takes the tensor '%.60s', and the data has columns "
			"without a name: take tensor= away, or name a .safetensors file ([data])",
			g->name, o->line, o->name, o->tensor);
	for (int i = 0; i < data->n_tensors; i++)
		orr_nearest_try(&near, data->tensors[i].name, NULL);
	return orr_fail(err, ORR_E_INPUT,
			"%s:%d: node %s: takes the tensor '%.60s'%s, and the data has %s: correct "
			"tensor=, or name other data ([data])",
			g->name, o->line, o->name, o->tensor, orr_nearest_hint(&near),
			name_tensors(names, data));
}

static int check_columns(const struct orr_graph *g, const struct orr_operator *o,
			 const struct orr_dataset *data, struct orr_error *err)
{
	struct orr_data_tensor tensor;

	if (!orr_dataset_find(&tensor, data, o->tensor))
		return fail_tensor(g, o, data, err);
	for (int64_t i = 0; i < o->width; i++)
		if (o->columns[i] < 0 || o->columns[i] >= tensor.n_columns)
			return orr_fail(
				err, ORR_E_INPUT,
				"%s:%d: node %s: takes column %lld, and %s%.60s has columns 0 to "
				"%lld: correct columns=, or name other data ([data])",
				g->name, o->line, o->name, (long long)o->columns[i],
				tensor.name ? "the tensor " : "the data",
				tensor.name ? tensor.name : "", (long long)tensor.n_columns - 1);
	return 0;
}

/* Has this rank all columns of an input? It keeps those that its stages read. */
static bool has_columns(const struct orr_operator *input, const struct orr_dataset *data)
{
	struct orr_data_tensor tensor;

	if (!orr_dataset_find(&tensor, data, input->tensor))
		return false;
	for (int64_t i = 0; i < input->width; i++)
		if (orr_data_tensor_index(&tensor, input->columns[i]) < 0)
			return false;
	return true;
}

/* Columns of the data that `reader` reads as numbers below n: input `at`, of classes, or of what
 * else there are n of. */
static int check_numbers(const struct orr_graph *g, const struct orr_operator *reader, int at,
			 int64_t n, const struct orr_dataset *data, struct orr_error *err)
{
	const struct orr_operator *input = &g->operators[reader->inputs[at]];
	const struct orr_op *op = reader->instance->op;
	float row[64], factor = (float)orr_operator_factor(input);

	if (!has_columns(input, data))
		return 0; /* the rank that has it looks */
	for (int64_t i = 0; i < data->n_rows * input->width; i++) {
		int64_t r = i / input->width, k = i % input->width, left = input->width - k;
		float number;

		if (k % 64 == 0 && orr_dataset_gather(data, input->tensor, input->columns + k,
						      left < 64 ? left : 64, &r, 1, row, err))
			return ORR_E_INPUT;
		number = factor * row[k % 64]; /* as the program computes it */
		if (!(number >= 0.0f && number < (float)n && number == floorf(number)) &&
		    !(op->is_none && op->is_none(reader->instance, at, (double)number)))
			return orr_fail(err, ORR_E_INPUT,
					"row %lld of the data (from 0) has %s %g in %s; %s (%s:%d) "
					"needs whole numbers from 0 to %lld%s%s%s",
					(long long)r,
					orr_operator_is_loss(reader) ? "class" : "the number",
					(double)number, input->name, reader->name, g->name,
					reader->line, (long long)n - 1, op->none ? ", or " : "",
					op->none ? op->none : "", op->none ? " for none" : "");
	}
	return 0;
}

static int check_ids(const struct orr_graph *g, const struct orr_operator *o,
		     const struct orr_dataset *data, struct orr_error *err)
{
	int code = 0;

	for (int i = 0; i < o->n_inputs && !code; i++) {
		int64_t n = orr_program_n_ids(o, i);

		if (n && orr_operator_is_input(&g->operators[o->inputs[i]]))
			code = check_numbers(g, o, i, n, data, err);
	}
	return code;
}

int orr_program_check_data(const struct orr_graph *g, const struct orr_dataset *data,
			   struct orr_error *err)
{
	int code = 0;

	/* what is wrong with the graph first: the data may be right for the one that was meant */
	for (int k = 0; k < g->n_operators && !code; k++)
		code = orr_program_check_operator(g, k, err);
	for (int k = 0; k < g->n_operators && !code; k++)
		if (orr_operator_is_input(&g->operators[k]))
			code = check_columns(g, &g->operators[k], data, err);
	for (int k = 0; k < g->n_operators && !code; k++)
		code = check_ids(g, &g->operators[k], data, err);
	return code;
}
