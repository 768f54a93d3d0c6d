/* A graph as DOT that reads back to the same graph. Operators stand in the order of their numbers,
 * so that reading numbers them alike; an encoder's subgraph is opened again for every run of its
 * operators, which is one subgraph to DOT. */
#include "orrery/graph.h"

#include <stdlib.h>

#include "codelets/operator.h"
#include "orrery/orrery.h"

/* What stands between quotes, so that it reads back to text. */
static void write_content(FILE *file, const char *text)
{
	for (; *text; text++) {
		if (*text == '\\' && text[1] == '\\') /* a pair's second escapes nothing */
			(void)fputc(*text++, file);
		else if (*text == '"' || (*text == '\\' && (text[1] == '"' || !text[1])))
			(void)fputc('\\', file);
		(void)fputc(*text, file);
	}
}

static void write_text(FILE *file, const char *text)
{
	(void)fputc('"', file);
	write_content(file, text);
	(void)fputc('"', file);
}

/* value / 10^decimals, exactly, without zeros at the end. */
static void write_decimal(FILE *file, int64_t value, int64_t power)
{
	int64_t rest = value % power;

	(void)fprintf(file, "%lld", (long long)(value / power));
	if (rest == 0)
		return;
	(void)fputc('.', file);
	while (rest > 0) {
		power /= 10;
		(void)fprintf(file, "%lld", (long long)(rest / power));
		rest %= power;
	}
}

/* In units, or in milliseconds. */
static void write_time(FILE *file, int64_t ns, bool units)
{
	(void)fputc('"', file);
	write_decimal(file, ns, units ? ORR_UNIT_NS : 1000000);
	(void)fputs(units ? "\"" : "ms\"", file);
}

static void write_duration(FILE *file, const char *name, int64_t ns, bool units)
{
	if (ns < 0)
		return;
	(void)fprintf(file, ", %s=", name);
	write_time(file, ns, units);
}

static void write_attribute(FILE *file, const char *name, const char *text)
{
	if (!text)
		return;
	(void)fprintf(file, ", %s=", name);
	write_text(file, text);
}

static void write_size(FILE *file, const char *name, int64_t bytes, bool study)
{
	if (bytes < 0 || (study && bytes == 0))
		return;
	(void)fprintf(file, ", %s=\"", name);
	if (bytes > 0 && bytes % 10000 == 0) {
		write_decimal(file, bytes, 1000000);
		(void)fputs("MB\"", file);
	} else {
		(void)fprintf(file, "%lld\"", (long long)bytes);
	}
}

void orr_operator_write_columns(const struct orr_operator *o, FILE *file)
{
	int64_t i = 0, k;

	while (i < o->width) {
		for (k = i + 1; k < o->width && o->columns[k] == o->columns[k - 1] + 1; k++)
			;
		(void)fprintf(file, "%s%lld:%lld", i ? "," : "", (long long)o->columns[i],
			      (long long)o->columns[k - 1] + 1);
		i = k;
	}
}

/* What its op alone may have, where it is not what it is anyway. */
static void write_own(FILE *file, const struct orr_operator *o)
{
	char value[ORR_VALUE];
	const char *name;
	bool usual;

	write_attribute(file, "tensor", o->tensor);
	if (o->columns) {
		(void)fputs(", columns=\"", file);
		orr_operator_write_columns(o, file);
		(void)fputc('"', file);
	}
	for (int i = 0; (name = orr_operator_attribute(o, i, value, &usual)); i++)
		if (!usual)
			(void)fprintf(file, ", %s=\"%s\"", name, value);
}

static void write_operator(FILE *file, const struct orr_graph *g, const struct orr_operator *o)
{
	bool study = orr_operator_is_study(o);

	write_text(file, o->name);
	/* forward is written in any case: it makes a study operator one */
	if (study) {
		(void)fputs(" [forward=", file);
		write_time(file, o->forward_ns, g->units);
	} else {
		(void)fprintf(file, " [op=%s", orr_operator_op(o));
		write_duration(file, "forward", o->forward_ns, g->units);
	}
	if (orr_operator_is_loss(o)) { /* it has no weight gradient */
		write_duration(file, "backward",
			       o->backward_ns + (o->weight_ns > 0 ? o->weight_ns : 0), g->units);
	} else {
		write_duration(file, "backward", o->backward_ns, g->units);
		write_duration(file, "weight", o->weight_ns, g->units);
	}
	write_duration(file, "update", o->update_ns, g->units);
	write_size(file, "activation", o->activation_bytes, study);
	write_size(file, "stash", o->stash_bytes, study);
	write_size(file, "parameters", o->parameter_bytes, study);
	write_own(file, o);
	if (o->frozen)
		(void)fputs(", frozen=true", file);
	if (o->recompute)
		(void)fputs(", recompute=true", file);
	write_attribute(file, "share", o->share);
	if (o->gather && !(o->instance && o->instance->op->whole_minibatch))
		(void)fputs(", gather=minibatch", file);
	if (o->n_gang && !o->gang)
		(void)fprintf(file, ", gang=%d", o->n_gang);
	for (int i = 0, k = 0; o->gang && i < o->n_gang; i = k) {
		for (k = i + 1; k < o->n_gang && o->gang[k] == o->gang[k - 1] + 1;)
			k++;
		(void)fprintf(file, "%s%d:%d%s", i ? "," : ", gang=\"", o->gang[i],
			      o->gang[k - 1] + 1, k < o->n_gang ? "" : "\"");
	}
	write_attribute(file, "with", o->with);
	if (o->split)
		(void)fprintf(file, ", split=\"%d%s\"", o->split, o->split_copied ? ":copied" : "");
	if (o->length_exponent != 1)
		(void)fprintf(file, ", length_exponent=\"%.17g\"", o->length_exponent);
	if (o->stage >= 0)
		(void)fprintf(file, ", stage=%d", o->stage);
	write_attribute(file, "label", o->label);
	(void)fputs("];\n", file);
}

/* Two encoders may differ in no more than what `cluster_` hides, so a subgraph's name is cluster_
 * and its encoder's. */
static void write_operators(FILE *file, const struct orr_graph *g)
{
	int open = -1;

	for (int i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];

		if (open >= 0 && o->encoder != open)
			(void)fputs("\t}\n", file);
		if (o->encoder >= 0 && o->encoder != open) {
			(void)fputs("\tsubgraph \"cluster_", file);
			write_content(file, g->encoders[o->encoder]);
			(void)fputs("\" {\n\t\tlabel=", file);
			write_text(file, g->encoders[o->encoder]);
			(void)fputs(";\n", file);
		}
		open = o->encoder;
		(void)fputs(open >= 0 ? "\t\t" : "\t", file);
		write_operator(file, g, o);
	}
	if (open >= 0)
		(void)fputs("\t}\n", file);
}

static void write_edge(FILE *file, const struct orr_graph *g, const struct orr_operator *o, int k)
{
	const struct orr_read *read = o->reads ? &o->reads[k] : NULL;

	(void)fputc('\t', file);
	write_text(file, g->operators[o->inputs[k]].name);
	(void)fputs(" -> ", file);
	write_text(file, o->name);
	if (read && (read->bytes >= 0 || read->gradient_bytes >= 0 || read->detached)) {
		(void)fprintf(file, " [gradient=%s", read->detached ? "false" : "true");
		write_size(file, "bytes", read->bytes, false);
		write_size(file, "gradient_bytes", read->gradient_bytes, false);
		(void)fputc(']', file);
	}
	(void)fputs(";\n", file);
}

int orr_graph_write_dot(const struct orr_graph *g, FILE *file, struct orr_error *err)
{
	(void)fputs("digraph {\n\tnode [shape=box];\n", file);
	if (g->data) {
		/* The file may come to lie anywhere, so the data's place is written in full; but
		 * where a link leads that is not followed, is not said. */
		char *place = orr_graph_check_data(g, NULL) ? NULL : realpath(g->data, NULL);

		(void)fputs("\tdata=", file);
		write_text(file, place ? place : g->data);
		(void)fputs(";\n", file);
		free(place);
	}
	if (g->overhead_ns > 0) {
		(void)fputs("\toverhead=", file);
		write_time(file, g->overhead_ns, g->units);
		(void)fputs(";\n", file);
	}
	if (g->samples > 0)
		(void)fprintf(file, "\tsamples=%lld;\n", (long long)g->samples);
	if (g->profiled.hardware)
		(void)fprintf(file, "\tprofiled=\"%s\";\n", orr_profiled_text(&g->profiled));
	write_operators(file, g);
	for (int i = 0; i < g->n_operators; i++)
		for (int k = 0; k < g->operators[i].n_inputs; k++)
			write_edge(file, g, &g->operators[i], k);
	(void)fputs("}\n", file);
	if (fflush(file) || ferror(file))
		return orr_fail(err, ORR_E_IO, "%s: its DOT could not be written: is there room?",
				g->name);
	return 0;
}
