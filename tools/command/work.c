#include "work.h"

#include <string.h>

#include "base/quantity.h"
#include "command.h"
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
