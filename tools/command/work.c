#include "work.h"

#include <string.h>

#include "base/quantity.h"
#include "command.h"
#include "orrery/figures.h"
#include "orrery/jobs.h"
#include "plugin.h"
#include "progress.h"

int work_choose(struct orr_opened *x, const struct options *o, struct orr_error *err)
{
	int code;

	if ((code = plugin_try(&o->open, o->timeout_s, err)) ||
	    (code = orr_open_schedule(x, &o->open, err)))
		return code;
	plugin_loaded(&x->choice);
	return 0;
}

int work_open(struct orr_opened *x, const struct options *o, struct orr_error *err)
{
	int code = work_choose(x, o, err);

	return code || (code = orr_open_graph(x, err)) ? code : orr_open_pipeline(x, err);
}

int work_place(struct orr_opened *x, struct orr_error *err)
{
	int code;

	x->settled.observer = progress_search(x->pipeline->units); /* the schedule may search */
	progress_doing("placing jobs under ", x->choice.schedule.name);
	code = orr_open_jobs(x, err);
	progress_search_end();
	progress_doing(NULL, NULL);
	return code;
}

static int check_units(const char *option, bool units, const struct orr_opened *x,
		       struct orr_error *err)
{
	if (units == x->pipeline->units)
		return 0;
	return orr_fail(err, ORR_E_INPUT, "%s: %s", option,
			units ? "it has no units, and the costs are times: say 3h"
			      : "the costs are units, so its times are plain numbers");
}

int work_check_failures(const struct options *o, const struct orr_opened *x, struct orr_error *err)
{
	const char *option = o->failures.mtbf_ns ? "--mtbf" : "--lose";
	const struct orr_try *tried = &x->tried;
	int last = x->settled.machine.n_workers - 1, code;

	if (!o->failures.mtbf_ns && !o->outage.every)
		return 0;
	if (tried->jobs && tried->jobs->async)
		return orr_fail(err, ORR_E_INPUT,
				"%s: schedule %s never flushes, and a copy is written between "
				"two steps: take one that flushes",
				option, tried->jobs->schedule);
	if (tried->figures && !tried->figures->makespan_ns)
		return orr_fail(err, ORR_E_INPUT, "%s: a step takes no time: give --costs", option);
	if (o->failures.mtbf_ns && (code = check_units("--mtbf", o->failures.units, x, err)))
		return code;
	if (!o->outage.every)
		return 0;
	if (o->outage.w > last)
		return orr_fail(err, ORR_E_INPUT, "--lose: there is no worker %lld: give 0 to %d",
				(long long)o->outage.w, last);
	if (o->outage.for_ns && !last)
		return orr_fail(err, ORR_E_INPUT,
				"--lose: for=, and no other worker is there: leave it out");
	if (o->outage.for_ns && x->settled.machine.cluster && o->outage.w != last)
		return orr_fail(err, ORR_E_INPUT,
				"--lose: for= keeps the first workers of --machine: lose the last, "
				"%d, or leave for= out",
				last);
	return check_units("--lose", o->outage.units, x, err);
}

int work_cut_fewer(struct orr_pipeline **out, const struct orr_opened *x, int n_stages,
		   struct orr_error *err)
{
	struct orr_opened fewer = *x;

	fewer.settled.machine.n_workers--;
	return orr_opened_cut(out, &fewer, n_stages, err);
}

void work_tell_profiled(const struct orr_graph *g, enum orr_hardware hardware,
			enum orr_precision precision)
{
	struct orr_profiled wanted = orr_profiled_of(hardware, precision);
	const char *name = orr_profiled_text(&wanted);

	if (!g->profiled.hardware ||
	    (g->profiled.hardware == wanted.hardware && g->profiled.precision == wanted.precision))
		return;
	command_say(orr_text("%s: its costs were profiled for %s, and not for %s: profile it again "
			     "with --device %.*s --precision %s",
			     g->name, orr_profiled_text(&g->profiled), name,
			     (int)strcspn(name, ","), name, orr_precision_name(wanted.precision)));
}
