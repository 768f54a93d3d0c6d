#include "training.h"

#include <math.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/quantity.h"
#include "base/sort.h"
#include "diagram.h"
#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "orrery/pipeline.h"
#include "orrery/timeline.h"
#include "orrery/try.h"
#include "report.h"
#include "schedule/versions.h"

/* Where jobs are shorter, handing them out takes longer than computing them. */
#define SHORT_JOB_NS 100000

static int find_median_job(int64_t *median_ns, const struct orr_timeline *t, struct orr_error *err)
{
	size_t n = (size_t)t->jobs->n_jobs;
	int64_t *ns = calloc(n, sizeof(*ns));

	if (!ns)
		return orr_fail(err, ORR_E_NOMEM, "no memory for the times of %zu jobs", n);
	for (size_t j = 0; j < n; j++)
		ns[j] = t->end_ns[j] - t->start_ns[j];
	qsort(ns, n, sizeof(*ns), orr_compare_numbers);
	*median_ns = ns[n / 2];
	free(ns);
	return 0;
}

int orr_training_init(struct orr_training *r, struct orr_error *err)
{
	int code;

	if (!r->measured)
		return 0;
	if ((code = orr_timeline_check(r->measured, err)) ||
	    (code = orr_figures_create(&r->figures, r->measured, err)))
		return code;
	return find_median_job(&r->job_ns, r->measured, err);
}

void orr_training_fini(struct orr_training *r)
{
	orr_figures_destroy(r->figures);
	free(r->ranks);
	free(r->places);
	free(r->versions);
}

static const char *name_of(const struct orr_training *r, const struct orr_loss *loss)
{
	return orr_graph_whole(r->jobs->pipeline->graph)->operators[loss->index].name;
}

/* ---- text ---- */

/* "2", "1-3", "-". */
static const char *range_text(int64_t least, int64_t most)
{
	return least < 0       ? "-"
	       : least == most ? orr_text("%lld", (long long)least)
			       : orr_text("%lld-%lld", (long long)least, (long long)most);
}

static void write_versions(FILE *file, const struct orr_training *r)
{
	const struct orr_versions *expected = r->jobs->versions;
	int64_t n_read = 0, n_wrong = 0;

	if (!r->versions)
		return;
	fprintf(file, "\nversions, as the tasks have found them (and as they must be):\n"
		      "stage      staleness  versions held\n");
	for (int s = 0; s < r->jobs->pipeline->n_stages; s++) {
		const struct orr_run_versions *v = &r->versions[s];

		n_read += v->n_read;
		n_wrong += v->n_wrong;
		if (!v->n_read)
			continue;
		fprintf(file, "s%-6d %7s (%s)  %9d (%d)\n", s, range_text(v->least, v->most),
			range_text(expected->least[s], expected->most[s]), v->held,
			expected->peak[s]);
	}
	fprintf(file, "passes that read another version than they must: %lld of %lld\n",
		(long long)n_wrong, (long long)n_read);
}

static void write_share(FILE *file, const char *format, double share)
{
	if (!isnan(share))
		fprintf(file, format, 100 * share);
}

static void write_losses(FILE *file, const struct orr_training *r)
{
	fprintf(file, "Test loss %.4g", r->scores.loss);
	write_share(file, ", test accuracy %.2f%%", r->scores.accuracy);
	write_share(file, ", %.2f%% of the choices of experts dropped", r->scores.dropped);
	fprintf(file, "\n");
	if (r->best.step && r->best_folder)
		fprintf(file, "The lowest, %.4g, was after step %lld: %s\n", r->best.loss,
			(long long)r->best.step, r->best_folder);
	for (int l = 0; l < r->scores.n_losses && r->scores.n_losses > 1; l++) {
		const struct orr_loss *loss = &r->scores.losses[l];

		fprintf(file, "  %s: loss %.4g, weight %g", name_of(r, loss), loss->loss,
			loss->weight);
		write_share(file, ", accuracy %.2f%%", loss->accuracy);
		write_share(file, ", dropped %.2f%%", loss->dropped);
		fprintf(file, "\n");
	}
}

/* The server of worker w, with all of its workers; nothing where an earlier worker had it. */
static void write_place(FILE *file, const struct orr_training *r, int w)
{
	const struct orr_mapping *all = r->places, *p = &all[w];

	for (int i = 0; i < w; i++)
		if (all[i].rank == p->rank && all[i].id == p->id)
			return;
	fprintf(file, "%s", p->name);
	if (r->n_ranks > 1)
		fprintf(file, " of rank %d", p->rank);
	if (p->bus[0])
		fprintf(file, ", PCI %s", p->bus);
	if (p->core >= 0)
		fprintf(file, ", %score %d", p->device >= 0 ? "driven by " : "", p->core);
	if (p->numa >= 0)
		fprintf(file, ", NUMA node %d", p->numa);
	fprintf(file, ": worker %d", w);
	for (int i = w + 1; i < r->jobs->pipeline->n_workers; i++)
		if (all[i].rank == p->rank && all[i].id == p->id)
			fprintf(file, ", %d", i);
	fprintf(file, "\n");
}

static void write_hardware(FILE *file, const struct orr_training *r)
{
	for (int w = 0; w < r->jobs->pipeline->n_workers; w++)
		write_place(file, r, w);
	for (int i = 0; i < r->n_moved; i++)
		fprintf(file, "%s%s from %s to %s%s",
			i ? ", " : "Moved: ", orr_size_text(r->moved[i].bytes), r->moved[i].from,
			r->moved[i].to, i + 1 == r->n_moved ? "\n" : "");
}

static void write_ranks(FILE *file, const struct orr_training *r)
{
	int64_t messages = 0, bytes = 0, n_steps = r->steps - r->first;
	const struct orr_training_rank *rank = r->ranks;

	for (int i = 0; i < r->n_ranks; i++)
		for (int k = 0; k < ORR_TRANSFER_KINDS; k++) {
			messages += rank[i].measured.traffic.sent[k];
			bytes += rank[i].measured.traffic.sent_bytes[k];
		}
	fprintf(file, "%d ranks: %lld messages with %s a step between them\n", r->n_ranks,
		(long long)(messages / n_steps), orr_size_text(bytes / n_steps));
	fprintf(file, "Memory of each rank at its peak:");
	for (int i = 0; i < r->n_ranks; i++)
		fprintf(file, "%s %s (predicted %s)", i ? "," : "",
			orr_size_text(rank[i].measured.peak_bytes),
			orr_size_text(rank[i].predicted_bytes));
	fprintf(file, "\n");
}

static int write_timelines(FILE *file, const struct orr_training *r, int columns, bool colour,
			   struct orr_error *err)
{
	int code;

	fprintf(file, "Predicted: %s for a step, from each stage's times in the measured one.\n",
		orr_duration_text(r->predicted->figures->makespan_ns, false));
	if ((code = orr_diagram_text(file, r->predicted->timeline, columns, colour, err)))
		return code;
	fprintf(file, "\nMeasured: %s for an ordinary %s of the last ones, on %s.\n",
		orr_duration_text(r->figures->makespan_ns, false),
		r->versions ? "round, among those before and after it," : "step", r->engine);
	if (r->job_ns < SHORT_JOB_NS)
		fprintf(file,
			"Jobs last %s (median), less than what lies between them: this bubble is "
			"the engine's, and says\nnothing about larger models. The predicted one is "
			"the schedule's.\n",
			orr_duration_text(r->job_ns, false));
	if ((code = orr_diagram_text(file, r->measured, columns, colour, err)))
		return code;
	fprintf(file, "\n");
	return orr_report_write(file, r->measured, r->figures, r->defined_by, err);
}

static void write_copies(FILE *file, const struct orr_training_copies *c)
{
	fprintf(file,
		"Copies in memory: %lld of %s, each whole %s after its step; training waited %s "
		"for "
		"each, between steps\n",
		(long long)c->n, orr_size_text(c->n_bytes / c->n),
		orr_duration_text(c->ns / c->n, false),
		orr_duration_text(c->waited_ns / c->n, false));
}

int orr_training_write(FILE *file, const struct orr_training *r, int columns, bool colour,
		       struct orr_error *err)
{
	int code = r->measured ? write_timelines(file, r, columns, colour, err) : 0;

	if (code)
		return code;
	write_versions(file, r);
	if (r->measured)
		fprintf(file, "\n%s of %d samples, median %s a step, %.0f samples/s\n",
			orr_count_text(r->steps, "step"), r->step_samples,
			orr_duration_text((int64_t)(1e9 * r->step_seconds), false),
			r->step_samples / r->step_seconds);
	if (r->measured && r->copies.n)
		write_copies(file, &r->copies);
	if (r->measured && r->skipped)
		fprintf(file,
			"The updates of %lld of them were left out: losses or gradients were not "
			"finite\n",
			(long long)r->skipped);
	write_losses(file, r);
	if (!r->measured)
		return 0;
	write_hardware(file, r);
	if (r->n_ranks > 1)
		write_ranks(file, r);
	return 0;
}

/* ---- JSON ---- */

static json_t *versions_json(const struct orr_training *r)
{
	json_t *list = json_array();

	for (int s = 0; s < r->jobs->pipeline->n_stages; s++) {
		const struct orr_run_versions *v = &r->versions[s];
		/* a pipeline that never filled up, and a stage without parameters, have no
		 * staleness */
		json_t *least = v->least < 0 ? json_null() : json_integer(v->least);
		json_t *most = v->least < 0 ? json_null() : json_integer(v->most);

		orr_json_append(&list, json_pack("{s:o, s:o, s:i, s:I, s:I}", "staleness_least",
						 least, "staleness_most", most, "versions_held",
						 v->held, "passes", (json_int_t)v->n_read,
						 "passes_wrong", (json_int_t)v->n_wrong));
	}
	return list;
}

static json_t *evaluation_json(const struct orr_evaluation *e)
{
	return json_pack("{s:I,s:o,s:o}", "step", (json_int_t)e->step, "loss",
			 orr_json_number(e->loss), "accuracy", orr_json_number(e->accuracy));
}

/* Several losses, evaluations during training and the best of them, where there are any. */
static void set_losses(json_t **json, const struct orr_training *r)
{
	json_t *losses = json_array(), *evaluations = json_array();

	for (const struct orr_loss *l = r->scores.losses; l < r->scores.losses + r->scores.n_losses;
	     l++)
		orr_json_append(&losses,
				json_pack("{s:s,s:f,s:o,s:o,s:o}", "name", name_of(r, l), "weight",
					  l->weight, "loss", orr_json_number(l->loss), "accuracy",
					  orr_json_number(l->accuracy), "dropped",
					  orr_json_number(l->dropped)));
	for (int i = 0; i < r->n_evaluations; i++)
		orr_json_append(&evaluations, evaluation_json(&r->evaluations[i]));
	if (r->scores.n_losses > 1)
		orr_json_set(json, "losses", json_incref(losses));
	if (r->n_evaluations >= 0)
		orr_json_set(json, "evaluations", json_incref(evaluations));
	json_decref(losses);
	json_decref(evaluations);
	if (r->best.step)
		orr_json_set(json, "best", evaluation_json(&r->best));
}

/* {"activation": {"messages": 1, "bytes": 2}, ...}; kinds that never crossed are left out. */
static json_t *direction_json(const int64_t *messages, const int64_t *bytes)
{
	json_t *json = json_object();

	for (int k = 0; k < ORR_TRANSFER_KINDS; k++)
		if (messages[k])
			orr_json_set(&json, orr_transfer_name((enum orr_transfer_kind)k),
				     json_pack("{s:I,s:I}", "messages", (json_int_t)messages[k],
					       "bytes", (json_int_t)bytes[k]));
	return json;
}

static json_t *ranks_json(const struct orr_training *r)
{
	json_t *all = json_array();

	for (int k = 0; k < r->n_ranks; k++) {
		const struct orr_rank_numbers *m = &r->ranks[k].measured;
		const struct orr_traffic *t = &m->traffic;

		orr_json_append(&all,
				json_pack("{s:i,s:o,s:o,s:I,s:I,s:I}", "rank", k, "sent",
					  direction_json(t->sent, t->sent_bytes), "received",
					  direction_json(t->received, t->received_bytes),
					  "data_bytes", (json_int_t)m->data_bytes, "peak_bytes",
					  (json_int_t)m->peak_bytes, "predicted_peak_bytes",
					  (json_int_t)r->ranks[k].predicted_bytes));
	}
	return all;
}

static json_t *place_json(const struct orr_mapping *p)
{
	json_t *json = json_pack("{s:i,s:i,s:s}", "worker", p->w, "rank", p->rank, "on", p->name);

	if (p->core >= 0)
		orr_json_set(&json, "core", json_integer(p->core));
	if (p->numa >= 0)
		orr_json_set(&json, "numa", json_integer(p->numa));
	if (p->device >= 0)
		orr_json_set(&json, "device", json_integer(p->device));
	if (p->bus[0])
		orr_json_set(&json, "pci", json_string(p->bus));
	return json;
}

static void set_hardware(json_t **json, const struct orr_training *r)
{
	json_t *mapping = json_array(), *moved = json_array();

	for (int w = 0; w < r->jobs->pipeline->n_workers; w++)
		orr_json_append(&mapping, place_json(&r->places[w]));
	for (const struct orr_moved *m = r->moved; m < r->moved + r->n_moved; m++)
		orr_json_append(&moved, json_pack("{s:s,s:s,s:I,s:I}", "from", m->from, "to", m->to,
						  "bytes", (json_int_t)m->bytes, "transfers",
						  (json_int_t)m->n));
	orr_json_set(json, "mapping", mapping);
	orr_json_set(json, "moved", moved);
}

json_t *orr_training_json(const struct orr_training *r, struct orr_error *err)
{
	json_t *json = r->measured ? orr_report_json(r->measured, r->figures, err) : json_object();

	if (r->measured && !json)
		return NULL;
	orr_json_update(&json, json_pack("{s:I, s:o, s:o, s:I}", "steps", (json_int_t)r->steps,
					 "loss", orr_json_number(r->scores.loss), "accuracy",
					 orr_json_number(r->scores.accuracy), "skipped_steps",
					 (json_int_t)r->skipped));
	if (r->steps > r->first)
		orr_json_update(&json,
				json_pack("{s:f, s:f}", "step_seconds", r->step_seconds,
					  "samples_per_second", r->step_samples / r->step_seconds));
	if (r->measured)
		orr_json_update(&json,
				json_pack("{s:o, s:o}", "job_seconds", orr_json_time(r->job_ns),
					  "predicted_makespan",
					  orr_json_time(r->predicted->figures->makespan_ns)));
	set_losses(&json, r);
	if (r->measured && r->n_ranks > 1)
		orr_json_set(&json, "traffic", ranks_json(r));
	if (r->versions)
		orr_json_set(&json, "measured_versions", versions_json(r));
	if (r->measured)
		set_hardware(&json, r);
	return orr_json_check(json, "no memory for the report", err);
}
