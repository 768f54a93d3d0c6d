#include "evaluations.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "orrery/run.h"
#include "progress.h"
#include "session.h"

void evaluations_init(struct evaluations *e, const struct evaluations_options *o,
		      int64_t epoch_samples, int step_samples, const char *best_folder)
{
	*e = (struct evaluations){.step_samples = step_samples,
				  .every = o->every * (o->epochs ? epoch_samples : step_samples),
				  .best_folder = best_folder,
				  .best = {.loss = INFINITY, .accuracy = NAN}};
}

void evaluations_fini(struct evaluations *e)
{
	free(e->list);
	e->list = NULL;
}

int64_t evaluations_next(const struct evaluations *e, int64_t step, int64_t end)
{
	int64_t samples, next;

	if (!e->every)
		return end;
	samples = (step * e->step_samples / e->every + 1) * e->every;
	next = (samples + e->step_samples - 1) / e->step_samples;
	return next < end ? next : end;
}

bool evaluations_is_due(const struct evaluations *e, int64_t step, int64_t end)
{
	return e->every && step && evaluations_next(e, step - 1, end) == step;
}

static int note(struct evaluations *e, const struct orr_evaluation *found, struct orr_error *err)
{
	if (e->n == e->room) {
		int room = 2 * e->room + 16;
		struct orr_evaluation *longer = realloc(e->list, (size_t)room * sizeof(*longer));

		if (!longer)
			return orr_fail(err, ORR_E_NOMEM, "no memory for %d evaluations", room);
		e->list = longer;
		e->room = room;
	}
	e->list[e->n++] = *found;
	return 0;
}

static int evaluate(struct orr_evaluation *found, struct orr_run *run, struct orr_scores *scores,
		    struct orr_error *err)
{
	int code = orr_run_evaluate(run, true, scores, err);

	if (!code)
		*found = (struct orr_evaluation){orr_run_step(run), scores->loss, scores->accuracy};
	return code;
}

/* A checkpoint that cannot be written leaves the one before, as those at regular steps do. */
static void keep(const struct evaluations *e, struct orr_run *run, const struct session *s)
{
	struct orr_error why;

	if (e->best_folder && orr_run_save(run, e->best_folder, 1, &why))
		session_say(s,
			    "no checkpoint of the best model, of step %lld: %s; training goes on",
			    (long long)e->best.step, why.msg);
}

int evaluations_take(struct evaluations *e, struct orr_run *run, struct progress *progress,
		     struct session *s)
{
	struct orr_scores scores;
	struct orr_evaluation found;
	int code;

	if ((code = evaluate(&found, run, &scores, &s->err)) || (code = note(e, &found, &s->err)))
		return code;
	progress_evaluated(progress, found.step, found.step * e->step_samples, &scores,
			   found.loss < e->best.loss);
	if (found.loss < e->best.loss) { /* on every rank alike */
		e->best = found;
		keep(e, run, s);
	}
	return 0;
}

int evaluations_resume(struct evaluations *e, struct orr_run *run, const struct orr_checkpoint *c,
		       double *rate, struct orr_error *err)
{
	struct orr_scores scores;
	int code = orr_run_load(run, c, rate, err);

	return code ? code : evaluate(&e->best, run, &scores, err);
}
