/* orrery train: file -> graph -> pipeline -> jobs -> run -> report, with the simulator's prediction
 * beside; on every rank that mpirun has started. */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "orrery/jobs.h"
#include "command.h"
#include "hardware.h"
#include "keep/keep.h"
#include "checkpoints.h"
#include "export.h"
#include "options.h"
#include "orrery/graph.h"
#include "orrery/figures.h"
#include "orrery/run.h"
#include "simulate/footprint.h"
#include "orrery/timeline.h"
#include "base/arrays.h"
#include "base/input_file.h"
#include "base/quantity.h"
#include "base/utf8.h"
#include "progress.h"
#include "report/html.h"
#include "report/training.h"
#include "session.h"
#include "work.h"

struct training {
	struct session session;
	struct options options;
	struct orr_opened opened;
	struct orr_dataset *data;
	struct orr_checkpoint *checkpoint; /* to go on from; NULL: there is none */
	struct orr_checkpoint *best;       /* the best before that; NULL: there is none */
	struct orr_run *run;
	struct progress progress;
	struct evaluations evaluations;
	struct orr_training result;
	struct checkpoints_end end;
	int64_t steps;   /* of all of the training */
	double old_rate; /* the learning rate of the checkpoint */
	int n_devices;
};

/* ---- what options mean together ---- */

/* What can be said before any file is read. */
static int check_options(struct options *a, struct orr_error *err)
{
	int code;

	if (a->train.has_final_rate && a->run.decay == ORR_DECAY_NONE)
		return orr_fail(err, ORR_E_INPUT,
				"--final-rate: the learning rate stays: say how it falls, with "
				"--decay cosine or linear");
	a->run.timeout_s = a->timeout_s;
	if ((code = output_protect(a->train.init, err)) ||
	    (a->train.init && /* before a run begins, which takes seconds */
	     (code = orr_input_open(NULL, NULL, a->train.init, "a file of safetensors", err))) ||
	    (code = output_check_file("--loss", a->train.losses, err)) ||
	    (code = output_check_file("--save-weights", a->train.weights, err)) ||
	    (code = output_check(&a->output, err)) || (code = output_protect(a->train.data, err)))
		return code;
	return output_protect_checkpoints(a->keep.folder, err);
}

/* 0: no list of numbers; refused later, where their number is known. */
static int sum_of(const char *list)
{
	int64_t sum = 0, n;

	while (list)
		if (orr_count_next(&n, &list, ',', 1, 1 << 20, "", NULL) || (sum += n) > 1 << 20)
			return 0;
	return (int)sum;
}

/* Workers where nothing says it: as --ranks-workers says, or one a rank of the first start; alone,
 * one a stream of each device, or one a core. */
static int default_workers(struct options *a, const struct session *session)
{
	int n = sum_of(a->run.ranks_workers);

	if (!n && session->n_first == 1)
		return hardware_workers(&a->run, &a->train.workers);
	if (n && session->n_ranks < session->n_first)
		a->run.ranks_workers = NULL; /* a list of more ranks than there are: evenly */
	a->train.workers = n ? "as --ranks-workers says" : "one a rank";
	return n ? n : session->n_first;
}

/* Fill in options from a plan or the schedule's file, and check those that depend on them. */
static int settle_options(struct options *a, struct orr_opened *x, struct orr_error *err)
{
	enum orr_optimizer optimizer = x->settled.numerics.optimizer;
	bool plain = optimizer == ORR_OPTIMIZER_MOMENTUM || optimizer == ORR_OPTIMIZER_SGD;

	a->run.batch = x->settled.batch;
	a->run.optimizer = optimizer;
	a->run.precision = x->settled.numerics.precision;
	if (!a->train.has_lr)
		a->run.learning_rate = plain ? 0.1 : 0.002;
	x->pipeline->prefetch = a->run.prefetch;
	if (a->train.has_momentum && optimizer != ORR_OPTIMIZER_MOMENTUM)
		return orr_fail(
			err, ORR_E_INPUT,
			"--momentum: %s has none: leave it out, or take --optimizer momentum",
			orr_optimizer_name(optimizer));
	if (x->tried.jobs->async && a->run.clip > 0)
		return orr_fail(
			err, ORR_E_INPUT,
			"--clip: schedule %s never flushes, so the gradients of a step are never "
			"all there before its first update: leave it out, or take a schedule that "
			"flushes",
			x->tried.jobs->schedule);
	if (x->tried.jobs->async && a->run.on_nan == ORR_ON_NAN_SKIP)
		return orr_fail(
			err, ORR_E_INPUT,
			"--on-nan skip: schedule %s never flushes, so stages are never at one step "
			"which all could leave out: take stop, or a schedule that flushes",
			x->tried.jobs->schedule);
	return 0;
}

/* ---- the work ---- */

/* A schedule's own bound holds for the costs that it was given: check it by those, and forget it,
 * since costs are measured anew. */
static int check_bound(struct orr_opened *x, struct orr_error *err)
{
	int code = x->tried.jobs->bound_ns ? orr_try_run(&x->tried, err) : 0;

	x->tried.jobs->bound_ns = 0;
	return code;
}

/* With one owner for each stage, any number of workers comes to the same bits. */
static bool has_single_owners(const struct orr_opened *x)
{
	bool single = !orr_opened_table(x) && !x->cluster && !x->tried.jobs->async;

	for (int s = 0; s < x->pipeline->n_stages && single; s++)
		single = orr_jobs_ring_size(x->tried.jobs, s) == 1;
	return single;
}

static int open_on(struct training *t, int n_workers, struct orr_error *err)
{
	int code;

	orr_opened_fini(&t->opened);
	t->options.open.machine.n_workers = n_workers;
	code = work_open(&t->opened, &t->options, err);
	return code ? code : work_place(&t->opened, err);
}

/* On fewer ranks than it began with, as many workers fewer where that changes no bit: workers that
 * share a rank take turns. */
static int open_fitting(struct training *t, struct orr_error *err)
{
	const struct session *s = &t->session;
	bool evenly = !t->options.run.ranks_workers;
	int code, w;

	t->options.open.default_workers = default_workers(&t->options, s);
	code = open_on(t, t->options.open.machine.n_workers, err);
	if (code || s->n_ranks == s->n_first || !evenly || !has_single_owners(&t->opened))
		return code;
	w = t->opened.pipeline->n_workers;
	if (w % s->n_first ||
	    (!open_on(t, w / s->n_first * s->n_ranks, NULL) && has_single_owners(&t->opened)))
		return 0;
	return open_on(t, w, err);
}

static int open_work(struct training *t, struct orr_error *err)
{
	struct options *o = &t->options;
	bool given = o->open.machine.n_workers > 0 || o->open.machine_file;
	int code;

	if ((code = check_options(o, err)) || (code = open_fitting(t, err)) ||
	    (code = export_check_jobs(o->output.csv, o->output.strict_csv, t->opened.tried.jobs,
				      err)) ||
	    (code = settle_options(o, &t->opened, err)) ||
	    (code = hardware_find(&o->run, &t->n_devices, err)))
		return code;
	if (given || orr_opened_table(&t->opened))
		o->train.workers = NULL;
	if (t->session.n_ranks < t->session.n_first)
		session_say(&t->session, "%s on %s: the same bits as on %d%s",
			    orr_count_text(t->opened.pipeline->n_workers, "worker"),
			    orr_count_text(t->session.n_ranks, "rank"), t->session.n_first,
			    t->n_devices ? ", if all devices are alike" : "");
	if (!t->session.rank)
		work_tell_profiled(t->opened.graph,
				   t->n_devices ? ORR_HARDWARE_CUDA : ORR_HARDWARE_CPU,
				   o->run.precision);
	return check_bound(&t->opened, err);
}

/* The steps, which the learning rate goes by. */
static int settle_steps(struct training *t, struct orr_error *err)
{
	struct options *o = &t->options;
	int samples = orr_run_step_samples(t->opened.tried.jobs, &o->run);
	int64_t all = (o->train.epochs ? o->train.epochs : 10) * t->data->n_train;

	t->steps = o->train.steps >= 0 ? o->train.steps : (all + samples - 1) / samples;
	evaluations_init(&t->evaluations, &o->evaluate, t->data->n_train, samples,
			 o->keep.best ? checkpoints_best(&o->keep) : NULL);
	if (!t->steps)
		o->run.decay = ORR_DECAY_NONE;
	if (o->run.decay == ORR_DECAY_NONE)
		return 0;
	o->run.decay_steps = t->steps;
	if (o->run.warmup < t->steps)
		return 0;
	return orr_fail(err, ORR_E_INPUT,
			"--warmup %lld: there are %lld steps, and none is left for --decay: take a "
			"shorter warm-up, or more steps",
			(long long)o->run.warmup, (long long)t->steps);
}

/* ---- data ---- */

static struct {
	const char *path;
	char line[1024];
	off_t n_bytes;
	struct sigaction before;
} mapped;

/* A mapped file that was cut is not there any more. Any other cause comes again when this returns.
 */
static void tell_cut(int number)
{
	struct stat now;
	ssize_t n;

	if (!stat(mapped.path, &now) && now.st_size < mapped.n_bytes) {
		n = write(STDERR_FILENO, mapped.line, strlen(mapped.line));
		(void)n;
		_exit(1);
	}
	sigaction(number, &mapped.before, NULL);
}

static void watch_mapped(const char *path)
{
	struct sigaction mine = {.sa_handler = tell_cut};
	struct stat about;
	char shown[800];

	if (stat(path, &about))
		return;
	mapped.path = path;
	mapped.n_bytes = about.st_size;
	(void)snprintf(mapped.line, sizeof(mapped.line),
		       "orrery: %s: became shorter while it was read: training ends; put all of it "
		       "there, and --resume from the last checkpoint\n",
		       orr_utf8_print(shown, sizeof(shown), path));
	sigaction(SIGBUS, &mine, &mapped.before);
}

/* As much of the data as this rank reads. */
static int find_data(struct training *t, struct orr_error *err)
{
	const struct orr_graph *g = t->opened.graph;
	const char *given = t->options.train.data, *path = given ? given : g->data;
	struct orr_data_columns *columns;
	int n, code;

	if (orr_graph_is_study(g))
		return orr_fail(err, ORR_E_INPUT,
				"%s: has costs and nothing to compute: simulate it, or train a "
				"model whose nodes have an op",
				g->name);
	if (!path)
		return orr_fail(err, ORR_E_INPUT,
				"%s: names no data: give --data FILE, or write data=\"file.csv\" "
				"in the graph",
				g->name);
	if ((!given && (code = orr_graph_check_data(g, err))) ||
	    (code = orr_run_columns(&columns, &n, t->opened.tried.jobs, &t->options.run, err)))
		return code;
	watch_mapped(path);
	code = orr_dataset_read(&t->data, path, columns, n, err);
	free(columns);
	return code ? code : settle_steps(t, err);
}

/* Of a device: data beyond it moves to main memory. 0: no limit. */
static int64_t least_memory(const struct orr_pipeline *p)
{
	int64_t least = 0;

	for (int w = 0; w < p->n_workers; w++) {
		int64_t bytes = orr_machine_memory(&p->machine, w);

		least = bytes && (!least || bytes < least) ? bytes : least;
	}
	return least;
}

/* On CPU cores --memory holds for what the simulator counts, before anything is allocated. */
static int check_memory(struct training *t, struct orr_error *err)
{
	int code;

	t->options.run.memory_bytes = least_memory(t->opened.pipeline);
	/* costs are measured where the jobs run: the speeds of --machine have had their say */
	for (int w = 0; t->opened.cluster && w < t->opened.cluster->n_workers; w++)
		t->opened.cluster->workers[w].speed = 1;
	if (t->session.rank || t->n_devices)
		return 0;
	code = orr_try_run(&t->opened.tried, err);
	return code ? code : orr_opened_check_memory(&t->opened, err);
}

static int create(struct training *t, struct orr_error *err)
{
	t->options.run.loads = t->checkpoint;
	return orr_run_create(&t->run, t->opened.tried.jobs, t->data, &t->options.run, err);
}

#define FLOAT_NS 80 /* to read or write it, on a disk of 50 MB/s */

/* Go on from the checkpoint, if there is one. What does not fit, fits on no rank. */
static int resume(struct training *t, struct orr_error *err)
{
	const struct options *o = &t->options;
	int samples = orr_run_step_samples(t->opened.tried.jobs, &o->run), code;
	/* to evaluate it, no learning rate is needed */
	double *rate = o->train.has_lr || !t->steps ? &t->old_rate : NULL;
	int64_t n_floats =
		orr_run_n_parameters(t->run) * (1 + orr_optimizer_floats(o->run.optimizer));
	char text[512] = "";

	t->session.moved_ns = n_floats * FLOAT_NS;
	session_beat(&t->session, ORR_BEAT_LONG, 0);
	if (t->session.hosts.n > 1)
		n_floats = orr_run_owned_floats(t->run);
	else if (t->session.rank)
		n_floats = 0;
	/* Those of the start before may lie there now; one that died before it had any has checked
	 * nothing. */
	if (t->session.n_starts && t->checkpoint)
		n_floats = 0;
	if ((code = checkpoints_check_copies(&t->session, n_floats)))
		return code;
	if (!t->session.rank)
		hardware_tell(&o->run);
	if (o->train.init && !t->checkpoint &&
	    (code = orr_run_begin(t->run, o->train.init, o->train.init_partly, text, sizeof(text),
				  err)))
		return code;
	if (*text)
		session_say(&t->session, "%s", text);
	t->old_rate = o->run.learning_rate;
	if (t->best && (code = evaluations_resume(&t->evaluations, t->run, t->best, rate, err)))
		return code;
	if (t->checkpoint && (code = orr_run_load(t->run, t->checkpoint, rate, err)))
		return code;
	orr_checkpoint_close(t->checkpoint); /* other hosts need not read for this one any more */
	t->checkpoint = NULL;
	t->result = (struct orr_training){
		.n_ranks = t->session.n_ranks,
		.step_samples = samples,
		.jobs = t->opened.tried.jobs,
		.predicted = &t->opened.tried,
		.first = orr_run_step(t->run),
		.engine = orr_run_version(),
		.defined_by = OUTPUT_DEFINED_BY,
	};
	t->result.steps = t->steps > t->result.first ? t->steps : t->result.first;
	return 0;
}

static int train(struct training *t, struct orr_error *err)
{
	const struct options *o = &t->options;
	int64_t first = t->result.first, end = t->result.steps;
	int code, ended;

	if (first >= end) /* the checkpoint has them all */
		return 0;
	if ((code = progress_init(&t->progress, t->run, t->opened.graph, end, &t->session, err)))
		return code;
	if (t->old_rate != o->run.learning_rate)
		session_say(&t->session,
			    "--lr %.15g from step %lld on; the checkpoint is of --lr %.15g",
			    o->run.learning_rate, (long long)first + 1, t->old_rate);
	t->progress.norms = o->run.clip > 0;
	t->progress.evaluates = t->evaluations.every > 0;
	t->progress.history.wanted = o->output.html && !t->session.rank;
	if ((code = progress_write(&t->progress, o->train.losses, getenv(ORR_KEEP_FOLDER),
				   t->session.n_starts > 0, err)))
		return code;
	code = checkpoints_train(&o->keep, t->run, end, &t->progress, &t->evaluations, &t->end,
				 &t->session);
	if (code && code != ORR_E_DIVERGED)
		return code;
	ended = progress_end(&t->progress, code ? NULL : err); /* losses are kept up to there */
	return code ? code : ended;
}

/* The stages' times are those that the jobs of the measured step had on average, while all workers
 * were busy: alone they share neither caches nor memory with others, and take less. */
static int predict(struct training *t, const struct orr_timeline *measured, struct orr_error *err)
{
	int code;

	if (t->session.rank || !measured)
		return 0;
	if ((code = orr_timeline_costs(measured, t->opened.pipeline, err)))
		return code;
	orr_jobs_renew(t->opened.tried.jobs);
	return orr_try_run(&t->opened.tried, err);
}

/* What every rank has sent, received and held, on every rank. */
static int gather_ranks(struct training *t)
{
	struct session *s = &t->session;
	struct orr_rank_numbers own = {.data_bytes = orr_dataset_bytes(t->data),
				       .peak_bytes = orr_run_peak_bytes(t->run)};
	const int n = (int)(sizeof(own) / sizeof(int64_t));
	struct orr_training_rank *ranks = calloc((size_t)s->n_ranks, sizeof(*ranks));
	int64_t *all = calloc((size_t)s->n_ranks, sizeof(own));
	int code;

	t->result.ranks = ranks;
	orr_run_traffic(t->run, &own.traffic);
	if (!ranks || !all)
		code = orr_no_memory(&s->err, "train");
	else
		code = session_gather(s, all, (const int64_t *)&own, n);
	for (int k = 0; k < s->n_ranks && !code; k++)
		memcpy(&ranks[k].measured, all + k * n, sizeof(own));
	free(all);
	return code;
}

static int predict_ranks(struct training *t, struct orr_error *err)
{
	const struct orr_timeline *predicted = t->result.predicted->timeline;
	int n_ranks = t->result.n_ranks, n_workers = t->opened.pipeline->n_workers, code;
	struct orr_footprint *footprint = calloc((size_t)n_ranks, sizeof(*footprint));
	int *rank_of = calloc((size_t)n_workers, sizeof(*rank_of));

	if (!footprint || !rank_of)
		code = orr_no_memory(err, "train");
	else if (!(code = orr_ranks_of_workers(rank_of, n_workers, n_ranks,
					       t->options.run.ranks_workers, err)))
		code = orr_footprint_predict(footprint, predicted, rank_of, n_ranks, err);
	for (int k = 0; k < n_ranks && !code; k++)
		t->result.ranks[k].predicted_bytes = footprint[k].all;
	free(footprint);
	free(rank_of);
	return code;
}

static int gather_parts(struct training *t, struct orr_error *err)
{
	struct orr_training *r = &t->result;
	const struct orr_pipeline *p = r->jobs->pipeline;
	bool async = r->jobs->async;
	int code;

	if ((async && !(r->versions = calloc((size_t)p->n_stages, sizeof(*r->versions)))) ||
	    !(r->places = calloc((size_t)p->n_workers, sizeof(*r->places))))
		return orr_no_memory(err, "train");
	r->n_moved = orr_run_moved(t->run, r->moved, sizeof(r->moved) / sizeof(*r->moved));
	code = async ? orr_run_versions(t->run, r->versions, err) : 0;
	return code ? code : orr_run_mapping(t->run, r->places, err);
}

static int gather(struct training *t, struct orr_error *err)
{
	struct orr_training *r = &t->result;
	int code;

	r->skipped = orr_run_skipped(t->run);
	r->step_seconds = t->session.rank ? 0 : progress_median(&t->progress);
	if (!(r->measured = progress_timeline(&t->progress)))
		r->measured = orr_run_timeline(t->run);
	if ((code = predict(t, r->measured, err)) || (code = gather_ranks(t)) ||
	    (code = gather_parts(t, err)))
		return code;
	return r->n_ranks == 1 || t->session.rank ? 0 : predict_ranks(t, err);
}

/* Gathered from all ranks by rank 0. */
static int save_weights(struct training *t, struct orr_error *err)
{
	const char *path = t->options.train.weights;
	struct output_stream s;
	float *parameters = NULL;
	int64_t n = orr_run_n_parameters(t->run);
	int code = 0;

	if (!path)
		return 0;
	if (!t->session.rank && !(parameters = malloc((size_t)(n + 1) * sizeof(*parameters))))
		code = orr_no_memory(err, path);
	if (!(code = session_agree(&t->session, code)) &&
	    !(code = orr_run_parameters(t->run, parameters, err)) && !t->session.rank &&
	    !(code = output_begin(&s, path, err)))
		code = output_end(&s, orr_weights_write(s.file, t->opened.graph, parameters, err),
				  err);
	free(parameters);
	return code;
}

/* What diverged is no model, and says so. */
static int check_loss(double loss, struct orr_error *err)
{
	if (isfinite(loss))
		return 0;
	return orr_fail(err, ORR_E_RUNTIME,
			"training diverged: the test loss is no finite number; lower --lr, or "
			"scale the inputs (scale= in the graph)");
}

static void print_heading(const struct training *t)
{
	const struct orr_training *r = &t->result;
	const struct orr_pipeline *p = r->jobs->pipeline;

	if (r->measured && t->options.train.workers && p->n_workers != p->n_stages * p->replicas)
		printf("%s, %s; simulate takes one a stage, %d, unless --workers says otherwise.\n",
		       orr_count_text(p->n_workers, "worker"), t->options.train.workers,
		       p->n_stages * p->replicas);
	else if (!r->measured && r->steps == r->first)
		printf(r->steps ? "Nothing to train: the checkpoint is of step %lld.\n"
				: "Nothing to train: %lld steps.\n",
		       (long long)r->steps);
	else if (!r->measured)
		printf("Trained to step %lld. No round of -m %d microbatches was whole, so there "
		       "is no timeline (--steps, --every).\n",
		       (long long)r->steps, p->n_microbatches);
}

static int print(const struct training *t, struct orr_error *err)
{
	const char *trace = t->options.output.trace;
	int code;

	print_heading(t);
	code = orr_training_write(stdout, &t->result, output_columns(), output_wants_colour(), err);
	if (!code && t->result.measured && trace)
		printf("Chrome trace: %s (open it at https://ui.perfetto.dev)\n", trace);
	return code;
}

static int write_report(const struct training *t, struct orr_error *err)
{
	static const char *const names[] = {"predicted", "measured"};
	const struct output_options *o = &t->options.output;
	const struct orr_training *r = &t->result;
	const struct orr_timeline *const timelines[] = {r->predicted->timeline, r->measured};
	struct orr_page page = {.command = "train",
				.timelines = timelines,
				.names = names,
				.n_timelines = r->measured ? 2 : 0,
				.losses = t->progress.history.losses};
	int code;

	if ((o->json || o->html) && !(page.report = orr_training_json(r, err)))
		return ORR_E_NOMEM;
	if (!r->measured && (o->svg || o->trace || o->csv))
		fprintf(stderr, "orrery: no whole %s ran, so there is no timeline to write\n",
			r->jobs->async ? "round of -m microbatches" : "step");
	if (r->first == r->steps && t->options.train.losses)
		fprintf(stderr, "orrery: no step ran, so --loss %s is left as it is\n",
			t->options.train.losses);
	code = o->json ? output_json(json_incref(page.report), err) : print(t, err);
	if (!code && r->measured)
		code = output_timelines(o, timelines, names, page.n_timelines, NULL, err);
	if (!code)
		code = output_html(o, &page, err);
	json_decref(page.report);
	return code;
}

static int report(struct training *t, struct orr_error *err)
{
	const struct evaluations *e = &t->evaluations;
	struct orr_training *r = &t->result;
	int code;

	r->n_evaluations = e->every ? e->n : -1;
	r->evaluations = e->list;
	r->copies = t->end.copies;
	r->best = e->best;
	r->best_folder = e->best_folder;
	if ((code = orr_run_evaluate(t->run, true, &r->scores, err)) ||
	    (r->first < r->steps && (code = gather(t, err))) || t->session.rank ||
	    (code = check_loss(r->scores.loss, err)) || (code = orr_training_init(r, err)))
		return code;
	return write_report(t, err);
}

static void training_fini(struct training *t)
{
	orr_training_fini(&t->result);
	progress_fini(&t->progress);
	free(t->evaluations.list);
	orr_run_destroy(t->run);
	orr_checkpoint_close(t->checkpoint);
	orr_checkpoint_close(t->best);
	orr_dataset_destroy(t->data);
	orr_opened_fini(&t->opened);
}

int cmd_train(int argc, char **argv)
{
	struct training t = {
		.options = options_read(VERB_TRAIN, "GRAPH",
					"Train a model under a schedule, as StarPU tasks.", argc,
					argv)};
	struct session *s = &t.session;
	struct orr_error *err = &s->err;
	int code;

	if ((code = session_join(s)) || (code = session_agree(s, open_work(&t, err))) ||
	    (code = session_agree(s, find_data(&t, err))) ||
	    (code = checkpoints_open(&t.checkpoint, &t.best, &t.options.keep, s)) ||
	    (code = session_agree(s, check_memory(&t, err))) ||
	    (code = session_check(s, create(&t, err))) || (code = resume(&t, err)) ||
	    (code = session_check(s, train(&t, err))) || s->signal ||
	    (code = session_check(s, save_weights(&t, err))) ||
	    (code = session_check(s, report(&t, err))))
		goto out;
	if (t.end.unsaved)
		code = orr_fail(err, t.end.unsaved, "no checkpoint of the last step: %s",
				t.end.why.msg);
out:
	training_fini(&t);
	return session_end(s, code);
}
