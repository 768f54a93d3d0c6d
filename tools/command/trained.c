#include "trained.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "across.h"
#include "evaluations.h"
#include "report/diagram.h"
#include "orrery/figures.h"
#include "orrery/graph.h"
#include "report/html.h"
#include "orrery/jobs.h"
#include "base/json.h"
#include "orrery/pipeline.h"
#include "output.h"
#include "base/quantity.h"
#include "report/report.h"
#include "orrery/run.h"
#include "schedule/versions.h"
#include "orrery/timeline.h"
#include "orrery/try.h"

/* Where jobs are shorter, handing them out takes longer than computing them. */
#define SHORT_JOB_NS 100000

/* Of the two timelines. */
struct figures {
	const struct orr_figures *predicted; /* borrowed */
	struct orr_figures *measured;
	int64_t job_ns; /* median, measured */
};

static const char *name_of(const struct trained *r, const struct orr_loss *loss)
{
	return orr_graph_whole(r->jobs->pipeline->graph)->operators[loss->index].name;
}

/* "2", "1-3", "-". */
static const char *print_range(char *cell, size_t size, int64_t least, int64_t most)
{
	if (least < 0)
		(void)snprintf(cell, size, "-");
	else
		(void)snprintf(cell, size, least == most ? "%lld" : "%lld-%lld", (long long)least,
			       (long long)most);
	return cell;
}

static void print_versions(const struct trained *r)
{
	const struct orr_jobs *jobs = r->jobs;
	const struct orr_run_versions *stages = r->versions;
	char measured[48], expected[48];
	int64_t n_read = 0, n_wrong = 0;

	printf("\nversions, as the tasks have found them (and as they must be):\n"
	       "stage      staleness  versions held\n");
	for (int s = 0; s < jobs->pipeline->n_stages; s++) {
		int least, most;

		n_read += stages[s].n_read;
		n_wrong += stages[s].n_wrong;
		if (!stages[s].n_read)
			continue;
		orr_versions_steady(jobs->versions, s, &least, &most);
		print_range(measured, sizeof(measured), stages[s].least, stages[s].most);
		print_range(expected, sizeof(expected), least, most);
		printf("s%-6d %7s (%s)  %9d (%d)\n", s, measured, expected, stages[s].held,
		       jobs->versions->peak[s]);
	}
	printf("passes that read another version than they must: %lld of %lld\n",
	       (long long)n_wrong, (long long)n_read);
}

static json_t *versions_json(const struct trained *r)
{
	const struct orr_jobs *jobs = r->jobs;
	json_t *list = json_array();

	for (int s = 0; s < jobs->pipeline->n_stages; s++) {
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

static json_t *losses_json(const struct trained *r)
{
	json_t *losses = json_array();

	for (int l = 0; l < r->scores.n_losses; l++) {
		const struct orr_loss *loss = &r->scores.losses[l];

		orr_json_append(&losses, json_pack("{s:s,s:f,s:o,s:o,s:o}", "name",
						   name_of(r, loss), "weight", loss->weight, "loss",
						   orr_json_number(loss->loss), "accuracy",
						   orr_json_number(loss->accuracy), "dropped",
						   orr_json_number(loss->dropped)));
	}
	return losses;
}

/* Several losses, evaluations during training and the best of them, where there are any. */
static void set_losses(json_t **json, const struct trained *r)
{
	const struct evaluations *e = r->evaluations;

	if (r->scores.n_losses > 1)
		orr_json_set(json, "losses", losses_json(r));
	if (e->every)
		orr_json_set(json, "evaluations", evaluations_json(e));
	if (e->best.step)
		orr_json_set(json, "best", evaluation_json(&e->best));
}

static void set_versions(json_t **json, const struct trained *r)
{
	if (r->versions)
		orr_json_set(json, "measured_versions", versions_json(r));
}

/* NULL: err says why. */
static json_t *report_json(const struct trained *r, const struct figures *f, struct orr_error *err)
{
	json_t *json = orr_report_json(r->measured, f->measured, err), *own;

	if (!json)
		return NULL;
	/* no operator that classifies, no accuracy: null */
	own = json_pack("{s:I,s:o,s:o,s:I,s:f,s:f,s:f,s:f}", "steps", (json_int_t)r->steps, "loss",
			orr_json_number(r->scores.loss), "accuracy",
			orr_json_number(r->scores.accuracy), "skipped_steps",
			(json_int_t)r->skipped, "step_seconds", r->step_seconds,
			"samples_per_second", r->step_samples / r->step_seconds, "job_seconds",
			(double)f->job_ns / 1e9, "predicted_makespan",
			(double)f->predicted->makespan_ns / 1e9);
	orr_json_keep(&json, json_object_update_new(json, own));
	set_losses(&json, r);
	if (r->n_ranks > 1)
		orr_json_set(&json, "traffic", across_json(r->ranks, r->n_ranks));
	set_versions(&json, r);
	orr_json_set(&json, "mapping", hardware_mapping_json(&r->hardware));
	orr_json_set(&json, "moved", hardware_moved_json(&r->hardware));
	if (!json)
		(void)orr_fail(err, ORR_E_NOMEM, "no memory for the report");
	return json;
}

static void print_loss(const struct trained *r)
{
	printf("Test loss %.4g", r->scores.loss);
	if (!isnan(r->scores.accuracy))
		printf(", test accuracy %.2f%%", 100 * r->scores.accuracy);
	if (!isnan(r->scores.dropped))
		printf(", %.2f%% of the choices of experts dropped", 100 * r->scores.dropped);
	printf("\n");
	if (r->evaluations->best.step && r->evaluations->best_folder)
		printf("The lowest, %.4g, was after step %lld: %s\n", r->evaluations->best.loss,
		       (long long)r->evaluations->best.step, r->evaluations->best_folder);
	for (int l = 0; l < r->scores.n_losses && r->scores.n_losses > 1; l++) {
		const struct orr_loss *loss = &r->scores.losses[l];

		printf("  %s: loss %.4g, weight %g", name_of(r, loss), loss->loss, loss->weight);
		if (!isnan(loss->accuracy))
			printf(", accuracy %.2f%%", 100 * loss->accuracy);
		if (!isnan(loss->dropped))
			printf(", dropped %.2f%%", 100 * loss->dropped);
		printf("\n");
	}
}

/* Where they are not those that simulate takes. */
static void print_workers(const struct trained *r)
{
	const struct orr_pipeline *p = r->jobs->pipeline;

	if (r->workers && p->n_workers != p->n_stages)
		printf("%d worker%s, %s; simulate takes one a stage, %d, unless --workers says "
		       "otherwise.\n",
		       p->n_workers, p->n_workers == 1 ? "" : "s", r->workers, p->n_stages);
}

static int print_text(const struct trained *r, const struct figures *f, struct orr_error *err)
{
	int columns = output_columns(), code;
	bool colour = output_wants_colour();

	print_workers(r);
	printf("Predicted: %s for a step, from each stage's times in the measured one.\n",
	       orr_duration_text(f->predicted->makespan_ns, false));
	if ((code = orr_diagram_text(stdout, r->predicted->timeline, columns, colour, err)))
		return code;
	printf("\nMeasured: %s for an ordinary %s of the last ones, on %s.\n",
	       orr_duration_text(f->measured->makespan_ns, false),
	       r->versions ? "round, among those before and after it," : "step", orr_run_version());
	if (f->job_ns < SHORT_JOB_NS)
		printf("Jobs last %s (median), less than what lies between them: this bubble is "
		       "the engine's, and says\nnothing about larger models. The predicted one is "
		       "the schedule's.\n",
		       orr_duration_text(f->job_ns, false));
	if ((code = orr_diagram_text(stdout, r->measured, columns, colour, err)))
		return code;
	printf("\n");
	if ((code = output_report(r->measured, f->measured, err)))
		return code;
	if (r->versions)
		print_versions(r);
	printf("\n%lld step%s of %d samples, median %s a step, %.0f samples/s\n",
	       (long long)r->steps, r->steps == 1 ? "" : "s", r->step_samples,
	       orr_duration_text((int64_t)(1e9 * r->step_seconds), false),
	       r->step_samples / r->step_seconds);
	if (r->skipped)
		printf("The updates of %lld of them were left out: losses or gradients were not "
		       "finite\n",
		       (long long)r->skipped);
	print_loss(r);
	hardware_print(&r->hardware, r->n_ranks > 1);
	if (r->n_ranks > 1)
		across_print(r->ranks, r->n_ranks, r->steps - r->first);
	if (r->output->trace)
		printf("Chrome trace: %s (open it at https://ui.perfetto.dev)\n", r->output->trace);
	return 0;
}

static json_t *short_json(const struct trained *r, int64_t step, struct orr_error *err)
{
	json_t *json = json_pack("{s:I,s:I,s:o,s:o}", "steps", (json_int_t)step, "skipped_steps",
				 (json_int_t)r->skipped, "loss", orr_json_number(r->scores.loss),
				 "accuracy", orr_json_number(r->scores.accuracy));

	set_losses(&json, r);
	if (step > r->first) {
		orr_json_set(&json, "step_seconds", json_real(r->step_seconds));
		orr_json_set(&json, "samples_per_second",
			     json_real(r->step_samples / r->step_seconds));
	}
	set_versions(&json, r);
	if (!json)
		(void)orr_fail(err, ORR_E_NOMEM, "no memory for the report");
	return json;
}

#define N_TIMELINES 2
static const char *const names[N_TIMELINES] = {"predicted", "measured"};

static int write_page(const struct trained *r, json_t *report,
		      const struct orr_timeline *const *timelines, int n, struct orr_error *err)
{
	const struct orr_page page = {.command = "train",
				      .report = report,
				      .timelines = timelines,
				      .names = names,
				      .n_timelines = n,
				      .losses = r->losses};

	return output_html(r->output, &page, err);
}

static void print_short(const struct trained *r, int64_t step)
{
	if (step == r->first)
		printf(step ? "Nothing to train: the checkpoint is of step %lld.\n"
			    : "Nothing to train: %lld steps.\n",
		       (long long)step);
	else
		printf("Trained to step %lld. No round of -m %d microbatches was whole, so there "
		       "is no timeline (--steps, --every).\n",
		       (long long)step, r->jobs->pipeline->n_microbatches);
	if (r->versions)
		print_versions(r);
	print_loss(r);
}

int trained_print_short(const struct trained *r, struct orr_error *err)
{
	const struct output_options *o = r->output;
	int64_t step = r->steps > r->first ? r->steps : r->first;
	json_t *json = NULL;
	int code = 0;

	if ((o->json || o->html) && !(json = short_json(r, step, err)))
		return ORR_E_NOMEM;
	if (o->svg || o->trace || o->csv)
		fprintf(stderr, "orrery: no whole %s ran, so there is no timeline to write\n",
			r->jobs->async ? "round of -m microbatches" : "step");
	if (o->json)
		code = output_json(json_incref(json), err);
	else
		print_short(r, step);
	if (!code)
		code = write_page(r, json, NULL, 0, err);
	json_decref(json);
	return code;
}

static int by_duration(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int find_median_job(int64_t *median_ns, const struct orr_timeline *t, struct orr_error *err)
{
	size_t n = (size_t)t->jobs->n_jobs;
	int64_t *ns = calloc(n, sizeof(*ns));

	if (!ns)
		return orr_fail(err, ORR_E_NOMEM, "no memory for the times of %zu jobs", n);
	for (size_t j = 0; j < n; j++)
		ns[j] = t->end_ns[j] - t->start_ns[j];
	qsort(ns, n, sizeof(*ns), by_duration);
	*median_ns = ns[n / 2];
	free(ns);
	return 0;
}

int trained_print(const struct trained *r, struct orr_error *err)
{
	const struct orr_timeline *const timelines[N_TIMELINES] = {r->predicted->timeline,
								   r->measured};
	const struct output_options *o = r->output;
	struct figures f = {.predicted = r->predicted->figures};
	json_t *json = NULL;
	int code;

	if ((code = orr_timeline_check(r->measured, err)) ||
	    (code = orr_figures_create(&f.measured, r->measured, err)) ||
	    (code = find_median_job(&f.job_ns, r->measured, err)))
		goto out;
	if ((o->json || o->html) && !(json = report_json(r, &f, err))) {
		code = ORR_E_NOMEM;
		goto out;
	}
	if ((code = o->json ? output_json(json_incref(json), err) : print_text(r, &f, err)) ||
	    (code = output_timelines(o, timelines, names, N_TIMELINES, err)))
		goto out;
	code = write_page(r, json, timelines, N_TIMELINES, err);
out:
	json_decref(json);
	orr_figures_destroy(f.measured);
	return code;
}

void trained_fini(struct trained *r)
{
	free(r->ranks);
	free(r->versions);
	hardware_fini(&r->hardware);
}
