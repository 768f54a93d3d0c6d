#include "progress.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "orrery/graph.h"
#include "base/arrays.h"
#include "base/json.h"
#include "base/quantity.h"
#include "base/utf8.h"
#include "orrery/run.h"
#include "orrery/timeline.h"
#include "output.h"
#include "report/compare.h"
#include "session.h"

#define BAR 40
#define SECOND_NS INT64_C(1000000000)
#define MOST_STEPS 1000000 /* whose seconds are kept for the median; later ones overwrite */

/* ---- any work, by the clock ---- */

static struct {
	const char *verb, *volatile doing;
	char which[100]; /* as it is shown; "": nothing */
	unsigned seconds;
	volatile sig_atomic_t told; /* another line has come since the last one here */
} ticking;

/* A handler of signals: of stdio snprintf alone, which takes neither memory nor locks for these. */
static void tell_time(int number)
{
	const char *doing = ticking.doing;
	char text[200];
	int kept = errno,
	    n = snprintf(text, sizeof(text) - 1, "%s: %u s%s%s%s", ticking.verb, ticking.seconds,
			 doing ? ", " : "", doing ? doing : "", doing ? ticking.which : "");

	text[n] = '\n';
	if (ticking.told || write(STDERR_FILENO, text, (size_t)n + 1) < 0)
		ticking.told = false;
	alarm(ticking.seconds); /* each time after twice as long */
	ticking.seconds *= 2;
	errno = kept;
	(void)number;
}

void progress_start(const char *verb)
{
	struct sigaction act = {.sa_handler = tell_time, .sa_flags = SA_RESTART | SA_ONSTACK};

	ticking.verb = verb;
	ticking.seconds = 2;
	if (!sigaction(SIGALRM, &act, NULL))
		alarm(2);
}

void progress_doing(const char *what, const char *which)
{
	ticking.doing = NULL;
	orr_utf8_print(ticking.which, sizeof(ticking.which), which ? which : "");
	ticking.doing = what;
}

/* ---- losses for the page ---- */

#define MOST_KEPT 8192

/* Without memory a step is missing. */
static void history_add(struct history *h, int64_t step, double loss)
{
	if (!h->wanted || step % h->every)
		return;
	json_array_append_new(h->losses, json_pack("{s:I, s:o}", "step", (json_int_t)step, "loss",
						   orr_json_number(loss)));
}

static void history_add_test(struct history *h, int64_t step, double loss)
{
	size_t n = json_array_size(h->losses);
	json_t *last = n ? json_array_get(h->losses, n - 1) : NULL;

	if (!h->wanted)
		return;
	if (!last || json_integer_value(json_object_get(last, "step")) != step) {
		last = json_pack("{s:I, s:n}", "step", (json_int_t)step, "loss");
		json_array_append_new(h->losses, last);
	}
	json_object_set_new(last, "test_loss", orr_json_number(loss));
}

/* ---- steps ---- */

int progress_init(struct progress *p, const struct orr_run *run, const struct orr_graph *graph,
		  int64_t n_steps, struct session *session, struct orr_error *err)
{
	int64_t room = n_steps < MOST_STEPS ? n_steps : MOST_STEPS, first = orr_run_step(run);
	bool silent = session->rank > 0;

	*p = (struct progress){.run = run,
			       .session = session,
			       .graph = orr_graph_whole(graph),
			       .n_steps = n_steps - first,
			       .first = first,
			       .terminal = !silent && isatty(STDERR_FILENO),
			       .silent = silent,
			       .history = {.losses = json_array(), .every = 1}};
	while (p->n_steps / p->history.every > MOST_KEPT)
		p->history.every *= 2;
	if (!(p->seconds = calloc((size_t)room, sizeof(*p->seconds))))
		return orr_no_memory(err, "train");
	return 0;
}

/* Where the file with the rows is, for a process after this one. */
static void note_losses(const char *path, const char *memory)
{
	const char *note = orr_text("%s/losses.new", memory);

	(void)unlink(note); /* of a process that was killed between these two */
	if (path && !symlink(path, note))
		(void)rename(note, orr_text("%s/losses", memory));
}

/* A training that ends may be started again, too. */
static int close_losses(struct progress *p, int code, struct orr_error *err)
{
	const char *path = p->losses.path, *memory = getenv(ORR_KEEP_FOLDER), *note;
	bool named = p->losses.file && p->losses.target;
	char *whole = NULL;

	code = output_close(&p->losses, code, err);
	if (!named || !memory)
		return code;
	note = orr_text("%s/losses", memory);
	if (!code)
		note_losses(whole = realpath(path, NULL), memory);
	else if (access(note, F_OK)) /* it was noted, and is removed */
		(void)unlink(note);
	free(whole);
	return code;
}

/* The file that another process has begun, or ended where it lies under its own name: the caller's;
 * NULL: there is none. */
static char *find_losses(const char *path, const char *memory)
{
	const char *note = orr_text("%s/losses", memory);
	char *before = realpath(note, NULL), name;

	return before || readlink(note, &name, 1) < 0 ? before : realpath(path, NULL);
}

/* The whole rows of that file. */
static void take_losses(struct progress *p, const char *path)
{
	FILE *old = path ? fopen(path, "re") : NULL;
	char *row = NULL;
	size_t room = 0;
	ssize_t n;

	for (bool first = true; old && (n = getline(&row, &room, old)) > 0; first = false) {
		if (first || row[n - 1] != '\n')
			continue;
		p->losses_failed |= fputs(row, p->losses.file) < 0;
		p->written = strtoll(row, NULL, 10);
	}
	if (old)
		(void)fclose(old);
	free(row);
}

/* A kill at any point leaves a file with the rows, and its name. */
static void hand_over_losses(struct progress *p, const char *before, const char *memory)
{
	take_losses(p, before);
	p->losses_failed |= fflush(p->losses.file) != 0;
	if (p->losses_failed)
		return;
	note_losses(p->losses.part, memory);
	if (before)
		(void)unlink(before);
}

int progress_write(struct progress *p, const char *path, const char *memory, bool again,
		   struct orr_error *err)
{
	const struct orr_graph *g = p->graph;
	char *before;
	int n = 0;

	for (int k = 0; k < g->n_operators; k++)
		n += orr_operator_is_loss(&g->operators[k]);
	if (!path || p->silent)
		return 0;
	before = memory && again ? find_losses(path, memory) : NULL;
	if (output_open(&p->losses, path, err)) { /* it could be, before */
		free(before);
		return ORR_E_IO;
	}
	p->losses_failed = fputs("step,samples,loss", p->losses.file) < 0;
	for (int k = 0; k < g->n_operators && n > 1; k++)
		if (orr_operator_is_loss(&g->operators[k])) {
			(void)fputc(',', p->losses.file);
			orr_csv_write_text(p->losses.file, g->operators[k].name);
		}
	if (p->norms)
		(void)fputs(",norm", p->losses.file);
	if (p->evaluates)
		(void)fputs(",test_loss,test_accuracy", p->losses.file);
	p->losses_failed = fputc('\n', p->losses.file) < 0 || p->losses_failed;
	if (memory)
		hand_over_losses(p, before, memory);
	free(before);
	return 0;
}

static void draw_bar(int64_t done, int64_t all)
{
	int filled = (int)(done * BAR / all);

	fprintf(stderr, "\r[%.*s%*s] ", filled, "########################################",
		BAR - filled, "");
}

static void keep(struct progress *p, const struct orr_step *step)
{
	int64_t place = p->n_done % PROGRESS_KEPT;

	/* without a flush, there is none before the first round has ended */
	if (orr_run_timeline(p->run) &&
	    !orr_timeline_copy(&p->kept[place], orr_run_timeline(p->run), NULL))
		p->kept_seconds[place] = step->seconds;
}

/* scores NULL: there are none of its step. */
static void end_row(struct progress *p, const struct orr_scores *scores)
{
	if (!p->open_row)
		return;
	if (p->evaluates && scores)
		(void)fprintf(p->losses.file, ",%.9g,", scores->loss);
	if (p->evaluates && scores && !isnan(scores->accuracy))
		(void)fprintf(p->losses.file, "%.9g", scores->accuracy);
	if (p->evaluates && !scores)
		(void)fputs(",,", p->losses.file);
	if (fputc('\n', p->losses.file) < 0 || ferror(p->losses.file))
		p->losses_failed = true;
	p->open_row = 0;
}

void progress_settle(struct progress *p)
{
	end_row(p, NULL);
}

static void begin_row(struct progress *p, int64_t step, int64_t samples)
{
	end_row(p, NULL);
	p->open_row = step;
	(void)fprintf(p->losses.file, "%lld,%lld,", (long long)step, (long long)samples);
}

static void write_losses(struct progress *p, const struct orr_step *step)
{
	const struct orr_scores *scores = &step->scores;

	begin_row(p, step->step + 1, step->samples);
	(void)fprintf(p->losses.file, "%.9g", scores->loss);
	for (int l = 0; l < scores->n_losses && scores->n_losses > 1; l++)
		(void)fprintf(p->losses.file, ",%.9g", scores->losses[l].loss);
	if (p->norms)
		(void)fprintf(p->losses.file, ",%.9g", step->norm);
	if (!p->evaluates)
		end_row(p, NULL);
}

static void print_each(const struct progress *p, const struct orr_scores *scores)
{
	const struct orr_operator *operators = p->graph->operators;

	for (int l = 0; l < scores->n_losses && scores->n_losses > 1; l++)
		fprintf(stderr, "%s%s %.4g%s", l ? ", " : " (",
			operators[scores->losses[l].index].name, scores->losses[l].loss,
			l + 1 < scores->n_losses ? "" : ")");
}

void progress_visit(void *progress, const struct orr_step *step)
{
	struct progress *p = progress;
	int64_t tenth = p->n_steps / 10, done, all = p->first + p->n_steps;

	session_step(p->session, step->step + 1);
	if (p->silent)
		return;
	if (p->n_steps - p->n_done <= PROGRESS_KEPT)
		keep(p, step);
	if (p->losses.file && !step->skipped && step->step >= p->written)
		write_losses(p, step);
	if (!step->skipped)
		history_add(&p->history, step->step + 1, step->scores.loss);
	p->seconds[p->n_done % MOST_STEPS] = step->seconds;
	if (!step->skipped)
		p->loss = p->n_seen++ ? 0.9 * p->loss + 0.1 * step->scores.loss : step->scores.loss;
	done = p->first + ++p->n_done;
	ticking.told = true;
	if (p->terminal && (p->n_done % 10 == 0 || p->n_done == p->n_steps)) {
		draw_bar(done, all);
		fprintf(stderr, "step %lld of %lld, loss %.4g ", (long long)done, (long long)all,
			p->loss);
	} else if (!p->terminal && (tenth == 0 || p->n_done % tenth == 0)) {
		fprintf(stderr, "step %lld of %lld: loss %.4g", (long long)done, (long long)all,
			step->scores.loss);
		print_each(p, &step->scores);
		if (!isnan(step->scores.accuracy))
			fprintf(stderr, ", accuracy %.1f%%", 100 * step->scores.accuracy);
		if (!isnan(step->scores.dropped))
			fprintf(stderr, ", dropped %.1f%%", 100 * step->scores.dropped);
		fprintf(stderr, step->skipped ? ", left out\n" : "\n");
	}
}

void progress_evaluated(struct progress *p, int64_t step, int64_t samples,
			const struct orr_scores *scores, bool best)
{
	if (p->silent)
		return;
	history_add_test(&p->history, step, scores->loss);
	if (p->losses.file && p->open_row != step &&
	    step > p->written) { /* it was left out, and has no row yet */
		begin_row(p, step, samples);
		for (int k = 0; k < scores->n_losses && scores->n_losses > 1; k++)
			(void)fputc(',', p->losses.file);
		if (p->norms)
			(void)fputc(',', p->losses.file);
	}
	if (p->losses.file)
		end_row(p, scores);
	fprintf(stderr, "%sstep %lld of %lld: test loss %.4g", p->terminal ? "\n" : "",
		(long long)step, (long long)p->first + p->n_steps, scores->loss);
	if (!isnan(scores->accuracy))
		fprintf(stderr, ", test accuracy %.2f%%", 100 * scores->accuracy);
	if (!isnan(scores->dropped))
		fprintf(stderr, ", dropped %.2f%%", 100 * scores->dropped);
	fprintf(stderr, best ? ", the best so far\n" : "\n");
}

int progress_end(struct progress *p, struct orr_error *err)
{
	int code = 0;

	if (p->losses.file)
		end_row(p, NULL);
	if (p->terminal)
		fprintf(stderr, "\n");
	if (p->losses_failed)
		code = orr_fail(err, ORR_E_IO,
				"--loss: the file could not be written: is there room?");
	return close_losses(p, code, err);
}

double progress_median(const struct progress *p)
{
	int64_t kept = p->n_done < MOST_STEPS ? p->n_done : MOST_STEPS, skip = kept / 10;

	return output_median(p->seconds + skip, kept - skip);
}

const struct orr_timeline *progress_timeline(const struct progress *p)
{
	for (int i = 0; i < PROGRESS_KEPT; i++) {
		int n_kept = 0, n_before = 0;

		for (int k = 0; k < PROGRESS_KEPT; k++) {
			double more = p->kept_seconds[k] - p->kept_seconds[i];

			n_kept += p->kept[k] != NULL;
			n_before += p->kept[k] && (more < 0 || (more == 0 && k < i));
		}
		if (p->kept[i] && n_before == n_kept / 2)
			return p->kept[i];
	}
	return NULL;
}

void progress_fini(struct progress *p)
{
	for (int i = 0; i < PROGRESS_KEPT; i++)
		orr_timeline_destroy(p->kept[i]);
	free(p->seconds);
	p->seconds = NULL;
	json_decref(p->history.losses);
	p->history.losses = NULL;
	/* the losses of a training that failed tell why */
	(void)close_losses(p, p->losses_failed || (!p->n_done && !p->written) ? ORR_E_IO : 0, NULL);
}

/* ---- work that is no step ---- */

/* A line that is written again and again: on a terminal in its place. */
struct line {
	int64_t next_ns; /* not before */
	bool open;       /* it has not ended */
};

static bool is_due(struct line *line, bool terminal)
{
	if (orr_ns_now(CLOCK_MONOTONIC) < line->next_ns)
		return false;
	line->next_ns = orr_ns_now(CLOCK_MONOTONIC) + (terminal ? SECOND_NS / 10 : SECOND_NS);
	line->open = terminal;
	ticking.told = true;
	return true;
}

void progress_tell(const char *what, int64_t done, int64_t all)
{
	static struct line line;
	bool terminal = isatty(STDERR_FILENO);

	if (!done)
		line.next_ns = orr_ns_now(CLOCK_MONOTONIC) + SECOND_NS;
	if (done == all && line.open) {
		draw_bar(done, all);
		fprintf(stderr, "%s\n", what);
		line.open = false;
	}
	if (done == all || !is_due(&line, terminal))
		return;
	if (terminal)
		draw_bar(done, all);
	fprintf(stderr, terminal ? "%s " : "%s: %lld of %lld\n", what, (long long)done,
		(long long)all);
}

static struct line search;

static void show_search(void *units, int64_t best_ns, int64_t bound_ns)
{
	bool terminal = isatty(STDERR_FILENO), in_units = *(bool *)units;

	if (!is_due(&search, terminal))
		return;
	fprintf(stderr, "%ssearch: best so far %s, none below %s%s", terminal ? "\r" : "",
		orr_duration_text(best_ns, in_units), orr_duration_text(bound_ns, in_units),
		terminal ? "    " : "\n");
}

struct orr_observer progress_search(bool units)
{
	static bool in_units;

	in_units = units;
	search = (struct line){.next_ns = orr_ns_now(CLOCK_MONOTONIC) + SECOND_NS};
	return (struct orr_observer){show_search, &in_units};
}

void progress_search_end(void)
{
	if (search.open)
		fprintf(stderr, "\n");
	search.open = false;
}
