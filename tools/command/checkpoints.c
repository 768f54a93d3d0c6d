#include "checkpoints.h"

#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arrays.h"
#include "base/quantity.h"
#include "command.h"
#include "keep/keep.h"
#include "session.h"
#include "progress.h"
#include "orrery/run.h"
#include "runtime/peers/spread.h"

static void report_damaged(const char *line)
{
	char text[640];

	(void)snprintf(text, sizeof(text), "%s; the one before it is tried", line);
	command_say(text);
}

/* Where there is no other checkpoint: is the best one of a training that has ended early? */
static int check_best(const struct checkpoints_options *o, struct orr_error *err)
{
	const char *best = checkpoints_best(o);
	int64_t newest;
	int code = orr_checkpoint_prepare(best, &newest, err);

	if (code || newest < 0)
		return code;
	return orr_fail(err, ORR_E_INPUT,
			"%s: has the best of another training, of step %lld: give --checkpoint "
			"%.120s --resume to go on from it, or another folder",
			best, (long long)newest, best);
}

/* Where copies go, a folder of the launcher; NULL: there is none, or no copies. */
static const char *memory_of(const struct checkpoints_options *o)
{
	return o->copy_every ? getenv(ORR_KEEP_FOLDER) : NULL;
}

/* Of two sets on this host: of its ranks, and of those of the host before. */
static int64_t bytes_here(const struct orr_hosts *hosts, const int64_t *n_floats)
{
	int64_t n = 0;

	for (int k = 0; k < hosts->n_ranks; k++)
		n += (hosts->host_of[k] == hosts->own) * n_floats[k] +
		     (hosts->n > 1 && (hosts->host_of[k] + 1) % hosts->n == hosts->own) *
			     n_floats[k];
	return __builtin_mul_overflow(n, 2 * (int64_t)sizeof(float), &n) ? INT64_MAX : n;
}

int checkpoints_check_copies(struct session *s, int64_t n_floats)
{
	int64_t *all;
	struct orr_error why;
	char name[80] = "";
	int code;

	if (!s->hosts.n)
		return 0;
	all = calloc((size_t)s->n_ranks, sizeof(*all));
	if (!(code = session_agree(s, all ? 0 : orr_no_memory(&s->err, "copies"))) &&
	    !(code = session_gather(s, all, &n_floats, 1))) {
		(void)gethostname(name, sizeof(name) - 1);
		if ((code = orr_keep_check(s->hosts.folder, bytes_here(&s->hosts, all), &why)))
			(void)orr_fail(&s->err, code, "%s%s%.380s", s->hosts.n > 1 ? name : "",
				       s->hosts.n > 1 ? ": " : "", why.msg);
		code = session_agree(s, code);
	}
	free(all);
	return code;
}

/* Is there a folder for copies on every host, and which hosts are there? */
static int find_hosts(const struct checkpoints_options *o, struct session *s)
{
	int code = 0;

	if (!o->copy_every)
		return 0;
	if (!memory_of(o))
		code = orr_fail(
			&s->err, ORR_E_INPUT,
			"--copy-every: nothing keeps copies: put `orrery supervise --` before "
			"this command, or leave the option out");
	if (!code)
		code = orr_keep_join(&s->err);
	if ((code = session_agree(s, code)))
		return code;
	return orr_hosts_find(&s->hosts, memory_of(o), &s->err);
}

/* A folder, and up to which step a checkpoint there is looked for. */
struct place {
	const char *folder; /* NULL: none */
	int64_t last;
};
enum { MEMORY, DISK, N_PLACES };

/* The newest step of all places, of two alike the copy; or -1. All ranks come to the same. */
static int look(int64_t *step, int64_t *at, const struct place places[N_PLACES], struct session *s)
{
	const struct place *disk = &places[DISK];
	int64_t copied;
	int code = 0;

	*step = -1;
	*at = DISK;
	if (!s->rank && disk->folder)
		code = orr_checkpoint_find(disk->folder, disk->last, step, report_damaged, &s->err);
	if ((code = session_agree(s, code)) || (code = session_max(s, step)) ||
	    !places[MEMORY].folder ||
	    (code = orr_spread_newest(&copied, &s->hosts, places[MEMORY].last, &s->err)))
		return code;
	if (copied >= *step) {
		*step = copied;
		*at = MEMORY;
	}
	return 0;
}

/* The newest that is whole, of which every rank reads a part; or none. places: of the first rank,
 * and the memory of each host. */
static int open_newest(struct orr_checkpoint **out, int64_t *at, struct place places[N_PLACES],
		       struct session *s)
{
	struct orr_error why;
	int64_t step, wrong, own, seen;
	int code;

	for (*out = NULL;; orr_checkpoint_close(*out), *out = NULL) {
		if ((code = look(&step, at, places, s)) || step < 0)
			return code;
		if (*at == MEMORY) {
			code = orr_spread_open(out, &s->hosts, step, command_say, &why);
			if (!code)
				return 0;
			if (code != ORR_E_INPUT && code != ORR_E_IO)
				return orr_fail(&s->err, code, "%s", why.msg);
			if (!s->rank)
				report_damaged(why.msg);
			places[MEMORY].last = step - 1;
			continue;
		}
		code = orr_checkpoint_open(out, places[*at].folder, step, s->rank, s->n_ranks,
					   &why);
		wrong = own = code ? s->n_ranks - s->rank : 0;
		/* the folder may come later, and memory does not */
		if (code && (orr_checkpoint_find(places[*at].folder, step, &seen, NULL, NULL) ||
			     seen != step))
			(void)session_check(
				s, orr_fail(&s->err, ORR_E_RUNTIME,
					    "%s: step %lld is there for the first rank and not for "
					    "rank %d: all ranks read the same folder",
					    places[*at].folder, (long long)step, s->rank));
		if (code == ORR_E_NOMEM)
			(void)session_check(s, orr_no_memory(&s->err, places[*at].folder));
		if ((code = session_max(s, &wrong)) || !wrong)
			return code;
		if (wrong == own) /* the first of those who found it */
			report_damaged(why.msg);
		places[*at].last = step - 1;
	}
}

/* On one process. */
static int prepare(const struct checkpoints_options *o, const struct session *s,
		   struct orr_error *err)
{
	int64_t newest;
	int code;

	if (o->resume && !s->n_starts && /* a folder that is missing is not made */
	    (code = orr_checkpoint_find(o->folder, INT64_MAX, &newest, NULL, err)))
		return code;
	if (!o->folder)
		return 0;
	if ((code = orr_checkpoint_lock(o->folder, err)) ||
	    (code = orr_checkpoint_prepare(o->folder, &newest, err)) || s->n_starts)
		return code;
	if (newest >= 0 && !o->resume)
		return orr_fail(err, ORR_E_INPUT,
				"%s: has checkpoints, up to step %lld: give --resume to go on from "
				"them, or another folder",
				o->folder, (long long)newest);
	return newest >= 0 || !o->best ? 0 : check_best(o, err);
}

/* at: the place of *out. */
static int open_first(struct orr_checkpoint **out, int64_t *at, const struct checkpoints_options *o,
		      struct session *s)
{
	struct place places[] = {{s->n_starts ? memory_of(o) : NULL, INT64_MAX},
				 {s->n_starts || o->resume ? o->folder : NULL, INT64_MAX}};
	int code = s->rank ? 0 : prepare(o, s, &s->err);

	if ((code = session_agree(s, code)) || (code = open_newest(out, at, places, s)))
		return code;
	if (s->n_starts && s->hosts.n) /* no host has room for others than the next two */
		orr_spread_keep(&s->hosts, *out ? orr_checkpoint_step(*out) : -1);
	if (!s->n_starts && o->resume && !*out)
		return orr_fail(&s->err, ORR_E_INPUT,
				"%s: no checkpoint there is whole: train anew in another folder, "
				"or start without --resume",
				o->folder);
	return 0;
}

/* The best so far, if there is one. */
static int open_best(struct orr_checkpoint **out, const struct checkpoints_options *o,
		     struct session *s)
{
	const char *best = checkpoints_best(o);
	struct place places[] = {{NULL, 0}, {best, INT64_MAX}};
	int64_t newest = -1, at;
	int code = s->rank ? 0 : orr_checkpoint_prepare(best, &newest, &s->err);

	if ((code = session_agree(s, code)) || (code = session_max(s, &newest)) || newest < 0 ||
	    !(o->resume || s->n_starts))
		return code;
	if ((code = open_newest(out, &at, places, s)) || *out)
		return code;
	return orr_fail(&s->err, ORR_E_INPUT,
			"%s: no checkpoint there is whole: move that folder away, and --resume "
			"keeps the best from here on",
			best);
}

const char *checkpoints_best(const struct checkpoints_options *o)
{
	static char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/best", o->folder);
	return path;
}

static void tell_start(const struct orr_checkpoint *first, const struct orr_checkpoint *best,
		       int64_t at, const struct session *s)
{
	session_say(s,
		    first || best ? "goes on from step %lld, %s"
				  : "no state is kept: starts from the beginning",
		    first || best ? (long long)orr_checkpoint_step(first ? first : best) : 0LL,
		    !first         ? "the best checkpoint on disk"
		    : at == MEMORY ? "the newest copy in memory"
				   : "the newest checkpoint on disk");
}

int checkpoints_open(struct orr_checkpoint **out, struct orr_checkpoint **best,
		     const struct checkpoints_options *o, struct session *s)
{
	int64_t at;
	int code;

	if (!o->folder && !o->copy_every)
		return 0;
	/* a limit on the size of files is to be an error of write() as a full disk is */
	signal(SIGXFSZ, SIG_IGN);
	if (!(code = find_hosts(o, s)))
		code = open_first(out, &at, o, s);
	if (!code && o->best)
		code = open_best(best, o, s);
	if (!code && s->n_starts)
		tell_start(*out, *best, at, s);
	return code;
}

/* ---- signals ---- */

static const int signals[] = {SIGINT, SIGTERM};
enum { N_SIGNALS = sizeof(signals) / sizeof(*signals) };

static struct orr_run *running;
static volatile sig_atomic_t asked; /* the signal that asked to stop; 0: none */
static const char *notice;          /* the message for it; NULL: it came to another rank */

/* A second signal has its default effect. */
static void ask_to_stop(int number)
{
	ssize_t n;

	if (asked) {
		signal(number, SIG_DFL);
		raise(number);
		return;
	}
	asked = number;
	orr_run_stop(running);
	if (notice) {
		n = write(STDERR_FILENO, notice, strlen(notice));
		(void)n;
	}
}

/* What is ignored, as under nohup, stays so. */
static void catch_signals(struct orr_run *run, const struct progress *progress,
			  struct sigaction *old)
{
	static const char text[] =
		"\nstopping after the steps under way; a second signal ends at once\n";
	struct sigaction mine = {.sa_handler = ask_to_stop, .sa_flags = SA_RESTART | SA_ONSTACK};

	running = run;
	notice = progress->silent ? NULL : progress->terminal ? text : text + 1;
	for (int i = 0; i < N_SIGNALS; i++)
		if (!sigaction(signals[i], NULL, &old[i]) && old[i].sa_handler != SIG_IGN)
			sigaction(signals[i], &mine, NULL);
}

/* handled: the signal of one of the ranks, or 0. */
static void release_signals(const struct sigaction *old, int handled)
{
	for (int i = 0; i < N_SIGNALS; i++)
		sigaction(signals[i], &old[i], NULL);
	if (asked && !handled) /* too late to stop a step */
		raise(asked);
}

static void tell_stop(const struct checkpoints_options *o, const struct checkpoints_end *r,
		      int64_t step, int64_t end, const struct session *s)
{
	/* a folder's name may be longer than an orr_text() */
	session_say(s, "%s: stopped after step %lld of %lld; %s%s",
		    s->signal == SIGINT ? "SIGINT" : "SIGTERM", (long long)step, (long long)end,
		    !o->folder   ? "without --checkpoint nothing is kept"
		    : r->unsaved ? "no checkpoint of it: "
				 : o->folder,
		    !o->folder   ? ""
		    : r->unsaved ? r->why.msg
				 : " has a checkpoint of it: --resume goes on from there");
}

/* ---- evaluations ---- */

void evaluations_init(struct evaluations *e, const struct evaluations_options *o,
		      int64_t epoch_samples, int step_samples, const char *best_folder)
{
	*e = (struct evaluations){.step_samples = step_samples,
				  .every = o->every * (o->epochs ? epoch_samples : step_samples),
				  .best_folder = best_folder,
				  .best = {.loss = INFINITY, .accuracy = NAN}};
}

/* The first step after this one, and up to `end`, which is evaluated; `end` where none is. */
static int64_t next_evaluation(const struct evaluations *e, int64_t step, int64_t end)
{
	int64_t samples, next;

	if (!e->every)
		return end;
	samples = (step * e->step_samples / e->every + 1) * e->every;
	next = (samples + e->step_samples - 1) / e->step_samples;
	return next < end ? next : end;
}

static bool is_due(const struct evaluations *e, int64_t step, int64_t end)
{
	return e->every && step && next_evaluation(e, step - 1, end) == step;
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
static void keep_best(const struct evaluations *e, struct orr_run *run, const struct session *s)
{
	struct orr_error why;

	if (e->best_folder && orr_run_save(run, e->best_folder, 1, &why))
		session_say(s,
			    "no checkpoint of the best model, of step %lld: %s; training goes on",
			    (long long)e->best.step, why.msg);
}

/* Evaluate the run, tell it, and keep a checkpoint of it where it is the best. */
static int take_evaluation(struct evaluations *e, struct orr_run *run, struct progress *progress,
			   struct session *s)
{
	struct orr_evaluation found, *longer;
	struct orr_scores scores;
	int code;

	if ((code = evaluate(&found, run, &scores, &s->err)))
		return code;
	if (!(longer = realloc(e->list, (size_t)(e->n + 1) * sizeof(*longer))))
		return orr_fail(&s->err, ORR_E_NOMEM, "no memory for %d evaluations", e->n + 1);
	e->list = longer;
	e->list[e->n++] = found;
	progress_evaluated(progress, found.step, found.step * e->step_samples, &scores,
			   found.loss < e->best.loss);
	if (found.loss < e->best.loss) { /* on every rank alike */
		e->best = found;
		keep_best(e, run, s);
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

/* ---- training ---- */

/* The cure, and the checkpoints that are left. */
static void explain_divergence(const struct checkpoints_options *o, const struct orr_run *run,
			       int64_t saved, struct orr_error *err)
{
	int n_skipped = orr_run_skipped_last(run);
	int64_t good = orr_run_step(run) - (n_skipped ? n_skipped : 1); /* the last step that was */
	const char *left = !o->folder ? "" : "; there is no checkpoint yet";
	const struct orr_error why = *err;

	if (o->folder && saved > 0)
		left = orr_text(
			"; the last checkpoint is of step %lld%s", (long long)saved,
			saved < good ? ": --resume with a lower --lr goes on from there"
				     : ", which leads here with any --lr: remove it, and --resume "
				       "with a lower --lr goes on from the one before");
	(void)orr_fail(err, 0, "%s: lower --lr, or scale the inputs (scale= in the graph)%s",
		       why.msg, left);
}

/* The first step after this one, and up to `end`, that is a multiple of `every`; 0: none is. */
static int64_t next_multiple(int64_t step, int64_t every, int64_t end)
{
	int64_t next = every ? step + every - step % every : end;

	return next < end ? next : end;
}

/* Train to where a checkpoint, a copy or an evaluation is due. */
static int train_to_stop(struct checkpoints_end *r, const struct checkpoints_options *o,
			 struct orr_run *run, int64_t end, struct progress *progress,
			 struct evaluations *e, struct session *s)
{
	int64_t step = orr_run_step(run),
		checkpoint = next_multiple(step, o->folder ? o->every : 0, end), stop;
	int n_skipped, code;

	stop = next_multiple(step, o->copy_every, next_evaluation(e, step, checkpoint));
	stop = r->due ? step + 1 : stop;
	code = orr_run_train(run, stop - step, progress_visit, progress, &s->err);
	n_skipped = orr_run_skipped_last(run);
	step = orr_run_step(run);
	r->due = o->folder && (r->due || step == checkpoint || orr_run_stopped(run));
	if (!code && (orr_run_stopped(run) || step == end) && n_skipped &&
	    n_skipped == step - progress->first)
		return orr_fail(&s->err, ORR_E_DIVERGED,
				"training diverged: the updates of all steps, %d, were left out, "
				"since losses or gradients were not finite",
				n_skipped);
	return code;
}

/* Parameters with which the last step was left out may be no good: a checkpoint of them is put off
 * to the first step that is not, but for the end of training; and without an update there is none.
 */
static int save(struct checkpoints_end *r, const struct checkpoints_options *o, struct orr_run *run,
		int64_t end, const struct progress *progress, struct session *s)
{
	int64_t step = orr_run_step(run);
	bool at_end = orr_run_stopped(run) || step == end;

	if (!r->due || (orr_run_skipped_last(run) && !at_end))
		return 0;
	r->due = false;
	if (!(r->unsaved = orr_run_save(run, o->folder, o->keep, &r->why)))
		r->saved = step;
	if (r->unsaved == ORR_E_DIVERGED) {
		s->err = r->why;
		return r->unsaved;
	}
	if (r->unsaved && !at_end) {
		if (progress->terminal)
			fputc('\n', stderr);
		session_say(s, "no checkpoint of step %lld: %s; training goes on", (long long)step,
			    r->why.msg);
	}
	return 0;
}

/* A copy that cannot be made leaves the one before. */
static void end_copy(struct orr_training_copies *all, struct orr_run *run, const struct session *s)
{
	int64_t start = orr_ns_now(CLOCK_MONOTONIC);
	struct orr_copy_made copied;
	struct orr_error why;

	if (orr_run_copied(run, &copied, &why)) {
		session_say(s, "no copy of step %lld: %s; training goes on", (long long)copied.step,
			    why.msg);
		return;
	}
	all->n += copied.step > 0;
	all->n_bytes += copied.n_bytes;
	all->ns += copied.ns;
	all->waited_ns += orr_ns_now(CLOCK_MONOTONIC) - start;
}

static void copy(const struct checkpoints_options *o, struct orr_run *run,
		 struct progress *progress, struct orr_training_copies *all, struct session *s)
{
	const char *memory = memory_of(o);
	int64_t step = orr_run_step(run), start;
	struct orr_error why;

	if (!memory || step % o->copy_every || orr_run_skipped_last(run) || orr_run_stopped(run))
		return;
	/* how long one takes, which updates wait for, is not known yet, or no more */
	if (!all->n || o->copy_every > SESSION_RECENT)
		session_beat(s, ORR_BEAT_LONG, step);
	progress_settle(progress); /* before there is a copy that goes on behind its rows */
	end_copy(all, run, s);
	start = orr_ns_now(CLOCK_MONOTONIC);
	if (orr_run_copy(run, memory, &why))
		session_say(s, "no copy of step %lld: %s; training goes on", (long long)step,
			    why.msg);
	all->waited_ns += orr_ns_now(CLOCK_MONOTONIC) - start;
}

int checkpoints_train(const struct checkpoints_options *o, struct orr_run *run, int64_t end,
		      struct progress *progress, struct evaluations *e, struct checkpoints_end *r,
		      struct session *s)
{
	struct sigaction old[N_SIGNALS];
	int64_t number;
	int code = 0;

	*r = (struct checkpoints_end){.saved = orr_run_step(run)};
	catch_signals(run, progress, old);
	session_beat(s, ORR_BEAT_BEGIN, orr_run_step(run));
	while (!code && !orr_run_stopped(run) && orr_run_step(run) < end) {
		if ((code = train_to_stop(r, o, run, end, progress, e, s)))
			break;
		if (is_due(e, orr_run_step(run), end) || r->due)
			session_beat(s, ORR_BEAT_LONG, orr_run_step(run));
		if (!orr_run_stopped(run) && is_due(e, orr_run_step(run), end))
			code = take_evaluation(e, run, progress, s);
		if (!code && orr_run_step(run) < end)
			copy(o, run, progress, &r->copies, s);
		if (!code)
			code = save(r, o, run, end, progress, s);
	}
	/* the last copy, weights, the test rows and the report follow */
	session_beat(s, ORR_BEAT_LONG, orr_run_step(run));
	if (!code)
		end_copy(&r->copies, run, s);
	number = asked;
	if (code == ORR_E_DIVERGED)
		explain_divergence(o, run, r->saved, &s->err);
	else if (!code && !(code = session_max(s, &number)))
		s->signal = (int)number;
	release_signals(old, s->signal);
	if (!code && s->signal)
		tell_stop(o, r, orr_run_step(run), end, s);
	return code;
}
