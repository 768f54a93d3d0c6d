/* orrery simulate: file -> graph -> pipeline -> jobs -> timeline -> report. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "options.h"
#include "simulate/noise.h"
#include "report/diagram.h"
#include "export.h"
#include "orrery/figures.h"
#include "orrery/graph.h"
#include "report/html.h"
#include "base/input_file.h"
#include "base/json.h"
#include "simulate/measured.h"
#include "output.h"
#include "orrery/pipeline.h"
#include "pipeline/numbering.h"
#include "progress.h"
#include "base/quantity.h"
#include "report/report.h"
#include "orrery/timeline.h"
#include "report/untested.h"
#include "schedule/gathers.h"
#include "work.h"

/* Of a step that ran elsewhere; none without --measured. */
struct measured {
	struct orr_timeline *timeline;
	struct orr_figures *figures;
};

static bool was_cut(const struct orr_opened *x)
{
	return !x->plan && !x->choice.plan && !orr_graph_has_pins(x->graph) &&
	       x->pipeline->n_stages < orr_graph_n_computed(x->graph);
}

/* A cut follows one order of the operators, so a small branch may be all that a worker has. */
static void print_uneven(const struct orr_opened *x, const struct orr_figures *f)
{
	int64_t sum = 0;
	int least = 0;

	for (int w = 0; w < f->n_workers; w++) {
		sum += f->worker[w].busy_ns;
		least = f->worker[w].busy_ns < f->worker[least].busy_ns ? w : least;
	}
	sum /= f->n_workers;
	if (f->worker[least].busy_ns < sum / 2 && was_cut(x))
		printf("\nuneven: worker %d is busy for %s, and the mean is %s: `orrery plan` "
		       "balances stages better\n",
		       least, orr_duration_text(f->worker[least].busy_ns, x->pipeline->units),
		       orr_duration_text(sum, x->pipeline->units));
}

/* A schedule that deals out stages in another way than the plan keeps its own workers. */
static void print_moved(const struct orr_opened *x)
{
	const struct orr_jobs *jobs = x->tried.jobs;

	/* of a graph that was split a home is a group's, and of replicas one of the first */
	for (int j = 0; x->home && !jobs->groups && x->settled.replicas < 2 && j < jobs->n_jobs;
	     j++) {
		struct orr_job job = orr_jobs_at(jobs, j);
		int planned = x->home[j / jobs->n_passes];

		if (jobs->compute[j] == planned)
			continue;
		printf("\nplaced: by %s, not as planned: %d%c%d is on worker %d, and the plan has "
		       "it on %d\n",
		       jobs->schedule, job.s, orr_pass_letter(job.d), job.b, jobs->compute[j],
		       planned);
		return;
	}
}

/* A simulated microbatch is as large as train's first ones. */
static void print_samples(const struct orr_opened *x)
{
	int batch = x->settled.batch, m = x->settled.n_microbatches;

	if (!orr_graph_is_study(x->graph) && batch % m)
		printf("\nsamples: %d in %d microbatches: train gives %d of them %d, the others "
		       "%d; here all have %d\n",
		       batch, m, batch % m, batch / m + 1, batch / m, batch / m + 1);
}

/* Of a model that could be trained under another schedule. */
static void print_untrained(const struct orr_opened *x)
{
	struct orr_error err;

	if (!orr_graph_is_study(x->graph) && orr_gathers_check_trained(x->tried.jobs, &err))
		printf("\nnot trained: %s\n", err.msg);
}

static int follow_outage(struct orr_recovery *r, const struct options *a,
			 const struct orr_opened *x, struct orr_error *err)
{
	struct orr_pipeline *fewer = NULL;
	struct orr_error why;
	int64_t fewer_ns = 0;
	int code = 0;

	if (!a->outage.every)
		return 0;
	if (a->outage.for_ns && !(code = work_cut_fewer(&fewer, x, x->settled.n_stages, &why)))
		code = orr_outage_step(&fewer_ns, fewer, &x->choice.schedule, x->settled.order,
				       &why);
	orr_pipeline_destroy(fewer);
	if (code)
		return orr_fail(err, code, "--lose: leave for= out, since on %d workers: %s",
				x->settled.machine.n_workers - 1, why.msg);
	return orr_outage_follow(r, &a->outage, x->tried.figures->makespan_ns, fewer_ns, err);
}

static json_t *report_json(const struct options *a, const struct orr_opened *x,
			   const struct orr_noise *noise, const struct orr_noisy *noisy,
			   const struct orr_recovery *recovery, const struct measured *measured,
			   struct orr_error *err)
{
	struct orr_untested untested = orr_untested_find(x->tried.jobs);
	json_t *json = orr_report_json(x->tried.timeline, x->tried.figures, err), *own;

	if (!json)
		return NULL;
	orr_untested_json(&json, &untested);
	if (noise) {
		own = orr_noise_json(noise);
		orr_json_update(&own, orr_noisy_json(noisy));
		orr_json_set(&json, "noise", own);
	}
	if (a->failures.mtbf_ns)
		orr_json_set(&json, "failures",
			     orr_failures_json(&a->failures, x->tried.figures->makespan_ns));
	if (a->outage.every)
		orr_json_set(&json, "outage", orr_outage_json(recovery, x->tried.timeline));
	if (measured->timeline)
		orr_json_set(&json, "measured",
			     orr_report_json(measured->timeline, measured->figures, err));
	return orr_json_check(json, "simulate: no memory for the report", err);
}

static int print_timeline(const struct orr_timeline *t, const struct orr_figures *f,
			  struct orr_error *err)
{
	int code = orr_diagram_text(stdout, t, output_columns(), output_wants_colour(), err);

	if (code)
		return code;
	printf("\n");
	return orr_report_write(stdout, t, f, OUTPUT_DEFINED_BY, err);
}

static int print_measured(const struct measured *m, const struct orr_figures *simulated,
			  struct orr_error *err)
{
	printf("\nMeasured: %s, %.2f times the simulated makespan.\n",
	       orr_duration_text(m->figures->makespan_ns, false),
	       (double)m->figures->makespan_ns / (double)simulated->makespan_ns);
	return print_timeline(m->timeline, m->figures, err);
}

/* *report: the JSON object, where an output has it. */
static int print(json_t **report, const struct options *a, const struct orr_opened *x,
		 const struct orr_recovery *recovery, const struct measured *measured,
		 struct orr_error *err)
{
	const struct orr_timeline *t = x->tried.timeline;
	const struct orr_figures *f = x->tried.figures;
	const struct orr_noise *noise = options_noise(a);
	struct orr_untested untested = orr_untested_find(t->jobs);
	struct orr_noisy noisy;
	int code;

	progress_doing(noise ? "drawing noise" : "writing the report", NULL);
	if (noise && (code = orr_noise_run(&noisy, t->jobs, noise, err)))
		return code;
	if ((a->output.json || a->output.html || a->output.figures) &&
	    !(*report = report_json(a, x, noise, &noisy, recovery, measured, err)))
		return ORR_E_NOMEM;
	if (a->output.json)
		return output_json(json_incref(*report), err);
	code = print_timeline(t, f, err);
	if (!code && noise)
		orr_noise_write(stdout, noise, &noisy, x->pipeline->units);
	if (!code && a->failures.mtbf_ns)
		orr_failures_write(stdout, &a->failures, f->makespan_ns);
	if (!code && a->outage.every)
		orr_outage_write(stdout, recovery, t);
	if (!code) {
		print_uneven(x, f);
		print_samples(x);
		print_moved(x);
		print_untrained(x);
	}
	if (!code && measured->timeline)
		code = print_measured(measured, f, err);
	if (!code && untested.n)
		printf("\n%s\n", orr_untested_text(&untested));
	return code;
}

static int write_plan(const struct options *a, const struct orr_opened *x, struct orr_error *err)
{
	bool embed = x->settled.given.costs || orr_opened_is_embedded(x) ||
		     (!x->plan && !x->choice.plan &&
		      strcmp(x->graph->name, x->settled.source)); /* no path as JSON has it */
	json_t *json;
	int code;

	if (!a->out)
		return 0;
	if (x->tried.jobs->groups)
		return orr_fail(err, ORR_E_INPUT,
				"-o %s: the graph is split among workers, of which a plan that "
				"simulate writes says nothing: take --csv, and --split again to "
				"read it",
				a->out);
	if (!(json = orr_replay_json(x->tried.timeline, x->tried.figures, x->settled.batch,
				     orr_open_samples(&x->settled), embed, err)))
		return ORR_E_NOMEM;
	code = output_write_json(a->out, json, err);
	json_decref(json);
	return code;
}

struct files {
	json_t *json;
	const char *data; /* of the model, which no simulation reads */
};

/* One that a plan only names may not be there. */
static void add_file(void *user, const char *path)
{
	struct files *files = user;
	char *text = NULL;

	if (files->data && !strcmp(path, files->data))
		return;
	if (!orr_input_read(&text, NULL, path, "", NULL))
		orr_json_set(&files->json, path, json_string(text));
	free(text);
}

/* A command line for the page that --html writes, which runs it again (struct orr_page); the
 * caller's. NULL: the page shows no more than it is given: it is not wanted, the build has no
 * engine, the engine has not what was used (a plug-in, a measured step), or there was no memory. */
static json_t *study_json(const struct options *o, const struct orr_opened *x)
{
	struct files files;
	json_t *study;

	if (!o->output.html || !orr_html_has_engine() || o->measured || x->choice.module)
		return NULL;
	study = json_object();
	files = (struct files){json_object(), x->graph->data};
	output_each_input(add_file, &files);
	orr_json_set(&study, "graph", json_string(o->open.source));
	orr_json_set(&study, "options", options_words());
	orr_json_set(&study, "files", files.json);
	return study;
}

static int write_timelines(const struct options *a, const struct orr_opened *x,
			   const struct orr_timeline *measured, const struct orr_recovery *recovery,
			   json_t *report, struct orr_error *err)
{
	const struct orr_timeline *const timelines[] = {x->tried.timeline, measured};
	const char *const names[] = {measured ? "predicted" : x->tried.jobs->schedule, "measured"};
	int n = measured ? 2 : 1;
	const struct orr_page page = {.command = "simulate",
				      .report = report,
				      .timelines = timelines,
				      .names = names,
				      .n_timelines = n,
				      .study = study_json(a, x)};
	int code = output_timelines(&a->output, timelines, names, n, recovery->of ? recovery : NULL,
				    err);

	if (!code)
		code = output_figures(&a->output, report, err);
	if (!code)
		code = output_html(&a->output, &page, err);
	json_decref(page.study);
	return code;
}

static const char about[] =
	"Simulate a schedule exactly: its timeline and figures.\v"
	"The figures, here and of train:\n"
	"  bubble        1 - time busy / (workers x makespan)\n"
	"  span bubble   1 - time busy of the busiest worker / longest time from a\n"
	"                worker's first start to its last end, which may be staggered\n"
	"  span          that longest time, with its bound, where a schedule seeks the\n"
	"                shortest one: auto:objective=span\n"
	"  lower bound   no order of these jobs on these workers is shorter, within the\n"
	"                schedule's limits where it says so; another placement may be\n"
	"  throughput    microbatches through a stage per worker in the time of one\n"
	"  idle          makespan - time busy, of a worker; --html says why\n"
	"  peak stash    most stage stashes that a worker held at once\n"
	"  not tested    what took no time or memory for want of sizes or links\n"
	"and of a schedule that never flushes:\n"
	"  start-up      until the input stages start their first backward\n"
	"  steady        what comes in between start-up and drain, without end\n"
	"  drain         from the end of the last forward at the input\n"
	"  staleness     updates between the version that F reads and the one that\n"
	"                its gradient is applied to, in the steady part\n"
	"  versions      most that a replica holds at once";

int cmd_simulate(int argc, char **argv)
{
	struct options a = options_read(VERB_SIMULATE, "GRAPH", about, argc, argv);
	struct measured measured = {0};
	struct orr_recovery recovery = {0};
	struct orr_opened x = {0};
	struct orr_error err = {""};
	json_t *report = NULL;
	int code;

	/* what says all of a schedule is of all workers, noise differs among them, and one is lost
	 */
	a.open.first_alone = !a.out && !a.output.csv && !a.output.trace && !a.measured &&
			     !a.jitter.given && !a.outage.every;
	if ((code = output_protect(a.measured, &err)) || /* what is read is kept, */
	    (code = output_check_file("-o", a.out, &err)) ||
	    (code = output_check(&a.output, &err)) || /* and what is written can be */
	    (code = work_choose(&x, &a, &err)) ||     /* text -> schedule, or plan */
	    (code = orr_open_graph(&x, &err)) ||      /* file -> graph */
	    (code = orr_open_pipeline(&x, &err)) ||   /* graph, machine -> pipeline */
	    (code = work_place(&x, &err)) ||          /* pipeline, schedule -> jobs */
	    (code = export_check_jobs(a.output.csv, a.output.strict_csv, x.tried.jobs, &err)) ||
	    (code = orr_try_run(&x.tried, &err)) || /* jobs -> timeline, figures */
	    (code = work_check_failures(&a, &x, &err)) ||
	    (code = orr_opened_check_memory(&x, &err)) ||
	    (code = follow_outage(&recovery, &a, &x, &err)) ||
	    (code = export_check_timeline(a.output.csv, a.output.strict_csv, x.tried.timeline,
					  &err)) ||
	    (a.measured &&
	     ((code = orr_measured_read(&measured.timeline, x.tried.jobs, a.measured, &err)) ||
	      (code = orr_figures_create(&measured.figures, measured.timeline, &err)))) ||
	    (code = print(&report, &a, &x, &recovery, &measured, &err)) ||
	    (code = write_plan(&a, &x, &err)))
		goto out;
	code = write_timelines(&a, &x, measured.timeline, &recovery, report, &err);
out:
	orr_figures_destroy(measured.figures);
	orr_timeline_destroy(measured.timeline);
	json_decref(report);
	orr_opened_fini(&x);
	return command_end(code, &err);
}
