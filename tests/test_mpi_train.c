/* Trains a model under every built-in schedule that serves it, in one process or, started by
 * mpirun, across several; writes every schedule's parameters and losses to a file, so that two such
 * files can be compared byte by byte. Checks that what crossed between the ranks is what the jobs
 * imply, and that something crossed; where the batch is no multiple of the microbatches, their
 * samples differ and only what does not depend on them has the bytes implied, and everything of a
 * step is freed as soon as it has been read. With a rank for every worker, it is also what simulate
 * says of the workers. FROZEN: names of operators, with spaces around them; they must stay as they
 * are. -pairs: the model of a contrastive loss, whose stage gathers the minibatch.
 * Usage: test_mpi_train [-pairs] OUT WORKERS MICROBATCHES BATCH FROZEN [SCHEDULE...] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/open.h"
#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "orrery/machine.h"
#include "pipeline/partition.h"
#include "orrery/pipeline.h"
#include "orrery/timeline.h"
#include "derived_traffic.h"
#include "drawn_data.h"
#include "frozen.h"
#include "orrery/figures.h"
#include "simulate/simulate.h"
#include "schedule/versions.h"
#include "orrery/run.h"

#define N_ROWS 97
#define N_COLUMNS 24
#define MOST_RANKS 64

/* Two encoders, a skip over the trunk, a stage without parameters, two losses of different weight,
 * an edge without a gradient and data that is read at both ends. */
static const char model[] =
	"digraph model {\n"
	"  left [op=input columns=\"0:8\" stage=0]\n"
	"  l1 [op=linear features=12 stage=0]\n"
	"  l2 [op=relu stage=0]\n"
	"  right [op=input columns=\"8:16\" scale=0.5 stage=1]\n"
	"  r1 [op=linear features=10 stage=1]\n"
	"  r2 [op=gelu stage=1]\n"
	"  join [op=concat stage=2]\n"
	"  t1 [op=linear features=16 stage=2]\n"
	"  t2 [op=layernorm stage=2]\n"
	"  t3 [op=relu stage=3]\n"
	"  t4 [op=linear features=6 stage=4]\n"
	"  t5 [op=linear features=7 stage=5]\n"
	"  scores [op=linear features=5 stage=6]\n"
	"  class [op=input columns=\"20\" stage=6]\n"
	"  loss [op=softmax_cross_entropy stage=6]\n"
	"  guess [op=linear features=3 stage=7]\n"
	"  target [op=input columns=\"21:24\" stage=7]\n"
	"  error [op=mse weight=0.25 stage=7]\n"
	"  sum [op=concat stage=7]\n"
	"  left -> l1 -> l2 -> join -> t1 -> t2 -> t3 -> t4 -> t5 -> scores -> loss\n"
	"  right -> r1 -> r2 -> join\n"
	"  class -> loss\n"
	"  l2 -> sum -> guess -> error\n"
	"  t3 -> sum [gradient=false]\n"
	"  left -> sum\n"
	"  target -> error\n"
	"}\n";

static const char pairs[] = "digraph pairs {\n"
			    "  left [op=input columns=\"0:8\" stage=0]\n"
			    "  l1 [op=linear features=12 stage=0]\n"
			    "  l2 [op=relu stage=0]\n"
			    "  l3 [op=linear features=6 stage=1]\n"
			    "  right [op=input columns=\"8:16\" stage=2]\n"
			    "  r1 [op=linear features=6 stage=2]\n"
			    "  pairs [op=contrastive temperature=0.8 stage=3]\n"
			    "  guess [op=linear features=3 stage=3]\n"
			    "  target [op=input columns=\"21:24\" stage=3]\n"
			    "  error [op=mse weight=0.25 stage=3]\n"
			    "  left -> l1 -> l2 -> l3 -> pairs\n"
			    "  right -> r1 -> pairs\n"
			    "  r1 -> guess -> error\n"
			    "  target -> error\n"
			    "}\n";

static const char *trained = model;
static FILE *out;
static int n_failed;
static const int n_steps = 6; /* of every training: every kind of message comes twice in a slot */

static void say(const char *message)
{
	fprintf(stderr, "FAILED: %s\n", message);
}

/* Any failure ends the test on every rank. */
static void check(int code, const char *name, const struct orr_error *err)
{
	char text[sizeof(err->msg) + 64];

	if (!code)
		return;
	snprintf(text, sizeof(text), "%s: %s", name, err->msg);
	orr_ranks_fail(1, text);
	say(text);
	exit(1);
}

static void write_out(const void *bytes, size_t size, size_t n)
{
	if (out && fwrite(bytes, size, n, out) != n)
		n_failed++;
}

/* Each step's timeline holds, and its loss is that of one process. */
static void visit(void *user, const struct orr_step *step)
{
	struct orr_error err = {""};
	const struct orr_run *run = user;

	write_out(&step->scores.loss, sizeof(step->scores.loss), 1);
	if (!orr_ranks_rank())
		check(orr_timeline_check(orr_run_timeline(run), &err), "timeline", &err);
}

#define KIND(kind) (1 << ORR_TRANSFER_##kind)
#define PARAMETERS (KIND(PARAMETER) | KIND(WEIGHT_GRADIENT))
#define ACTIVATIONS (KIND(ACTIVATION) | KIND(GRADIENT))
#define PER_SAMPLE (ACTIVATIONS | KIND(STASH))

/* What must cross, and nothing else, with a worker a rank and 4 of them. */
static const struct {
	const char *name;
	int kinds;
} crossing[] = {
	{"ddp", KIND(ALL_REDUCE)},
	{"fsdp", PARAMETERS},
	{"gpipe", ACTIVATIONS},
	{"lpp:G=2,R=2", ACTIVATIONS | KIND(ALL_REDUCE)},
	{"fslpp:G=2,R=2", ACTIVATIONS | PARAMETERS},
	{"1f1b", ACTIVATIONS},
	{"v-half", ACTIVATIONS},
};

/* On some rank: what is counted on every rank is compared with what is derived for it. */
static void check_kinds(const struct orr_traffic *traffic, int n_ranks, const char *name)
{
	int kinds = 0;

	for (int k = 0; k < n_ranks; k++)
		for (int i = 0; i < ORR_TRANSFER_KINDS; i++)
			kinds |= traffic[k].sent[i] && traffic[k].sent_bytes[i] ? 1 << i : 0;
	for (size_t i = 0; i < sizeof(crossing) / sizeof(*crossing); i++) {
		if (strcmp(crossing[i].name, name) != 0 || crossing[i].kinds == kinds)
			continue;
		n_failed++;
		fprintf(stderr, "FAILED: %s: kinds of traffic %x, not %x\n", name, (unsigned)kinds,
			(unsigned)crossing[i].kinds);
	}
}

/* What this rank has received is what simulate says of its only worker, but for zeros between
 * parameters, which are not in `derived`; without a backward no gradient. */
static void check_figures(const struct orr_jobs *jobs, const struct orr_traffic *counted,
			  const struct orr_traffic *derived, const char *name)
{
	struct orr_timeline *t = NULL;
	struct orr_figures *f = NULL;
	const struct orr_worker_figures *worker;
	const int64_t *bytes = counted->received_bytes;
	struct orr_error err = {""};
	int w = orr_ranks_rank();
	bool backward = false;

	check(orr_simulate(&t, jobs, &err) || orr_figures_create(&f, t, &err), name, &err);
	for (int i = jobs->first[w]; i < jobs->first[w + 1]; i++)
		backward = backward || orr_jobs_at(jobs, jobs->by_worker[i]).d != ORR_PASS_F;
	worker = &f->worker[w];
	if (bytes[ORR_TRANSFER_ACTIVATION] != n_steps * worker->recv_activation_bytes ||
	    bytes[ORR_TRANSFER_GRADIENT] != n_steps * worker->recv_gradient_bytes ||
	    bytes[ORR_TRANSFER_STASH] != n_steps * worker->recv_stash_bytes ||
	    derived->received_bytes[ORR_TRANSFER_PARAMETER] != worker->recv_parameter_bytes ||
	    (!backward && (bytes[ORR_TRANSFER_GRADIENT] || bytes[ORR_TRANSFER_STASH]))) {
		n_failed++;
		fprintf(stderr, "FAILED: %s, rank %d: other bytes than simulate says\n", name, w);
	}
	orr_figures_destroy(f);
	orr_timeline_destroy(t);
}

/* Of each rank and kind: what was counted is n_steps times what the jobs imply. */
static void check_traffic(const struct orr_jobs *jobs, struct orr_run *run, const char *name,
			  bool divides)
{
	struct orr_traffic derived[MOST_RANKS], counted;
	int *rank_of = calloc((size_t)jobs->pipeline->n_workers, sizeof(*rank_of));
	int n_ranks = orr_ranks_count(), k = orr_ranks_rank();
	struct orr_error err = {""};

	check(!rank_of || n_ranks > MOST_RANKS, name, &err);
	check(orr_ranks_of_workers(rank_of, jobs->pipeline->n_workers, n_ranks, NULL, &err), name,
	      &err);
	derive_traffic(derived, jobs, rank_of, n_ranks, false);
	orr_run_traffic(run, &counted);
	if (n_ranks == 4 && jobs->pipeline->n_workers == 4 && !jobs->pipeline->stages[1].frozen)
		check_kinds(derived, n_ranks, name);
	if (divides && n_ranks == jobs->pipeline->n_workers && !jobs->versions)
		check_figures(jobs, &counted, &derived[k], name);
	derive_traffic(derived, jobs, rank_of, n_ranks, true);
	for (int i = 0; i < ORR_TRANSFER_KINDS; i++) {
		const struct orr_traffic *d = &derived[k];

		if (counted.sent[i] == n_steps * d->sent[i] &&
		    counted.received[i] == n_steps * d->received[i] &&
		    ((!divides && PER_SAMPLE & 1 << i) ||
		     (counted.sent_bytes[i] == n_steps * d->sent_bytes[i] &&
		      counted.received_bytes[i] == n_steps * d->received_bytes[i])))
			continue;
		n_failed++;
		fprintf(stderr,
			"FAILED: %s, rank %d of %d, %s: sent %lld and %lld bytes, received %lld "
			"and "
			"%lld bytes; derived %d times %lld, %lld, %lld, %lld\n",
			name, k, n_ranks, orr_transfer_name((enum orr_transfer_kind)i),
			(long long)counted.sent[i], (long long)counted.sent_bytes[i],
			(long long)counted.received[i], (long long)counted.received_bytes[i],
			n_steps, (long long)d->sent[i], (long long)d->sent_bytes[i],
			(long long)d->received[i], (long long)d->received_bytes[i]);
	}
	free(rank_of);
}

static void train(const struct orr_jobs *jobs, const struct orr_dataset *data, const char *name,
		  int batch, bool keep)
{
	struct orr_run_options options = orr_run_options_default();
	struct orr_error err = {""};
	struct orr_run *run = NULL;
	struct orr_scores scores;
	float *parameters, *drawn;
	size_t n;

	options.batch = batch;
	if (!keep)
		options.keep_bytes = 0;
	check(orr_run_create(&run, jobs, data, &options, &err), name, &err);
	n = (size_t)orr_run_n_parameters(run);
	parameters = calloc(n, sizeof(*parameters));
	drawn = calloc(n, sizeof(*drawn));
	check(!parameters || !drawn || orr_run_parameters(run, drawn, &err), name, &err);
	/* what is derived is of a round, of which an asynchronous step is a part */
	check(orr_run_train(run,
			    jobs->versions ? n_steps * jobs->pipeline->n_microbatches /
						     orr_versions_step(jobs->versions)
					   : n_steps,
			    visit, run, &err),
	      name, &err);
	check_traffic(jobs, run, name, batch % jobs->pipeline->n_microbatches == 0);
	check(orr_run_evaluate(run, true, &scores, &err), name, &err);
	write_out(&scores.loss, sizeof(scores.loss), 1);
	write_out(&scores.accuracy, sizeof(scores.accuracy), 1);
	for (int l = 0; l < scores.n_losses; l++)
		write_out(&scores.losses[l].loss, sizeof(double), 2); /* and its accuracy */
	check(orr_run_parameters(run, parameters, &err), name, &err);
	if (!orr_ranks_rank() && find_thawed(jobs->pipeline->graph, drawn, parameters)) {
		n_failed++;
		fprintf(stderr, "FAILED: %s: %s is frozen, and has changed\n", name,
			find_thawed(jobs->pipeline->graph, drawn, parameters));
	}
	write_out(parameters, sizeof(*parameters), n);
	free(parameters);
	free(drawn);
	orr_run_destroy(run);
}

/* False: the schedule does not serve these sizes. */
static bool train_under(const char *name, int n_workers, int n_microbatches, int batch,
			const char *frozen)
{
	struct orr_machine machine = orr_machine_default(n_workers);
	struct orr_graph *graph = NULL;
	struct orr_pipeline *pipeline = NULL;
	struct orr_choice choice;
	struct orr_jobs *jobs = NULL;
	struct orr_dataset data = {0};
	struct orr_error err = {""};
	int64_t samples = (batch + n_microbatches - 1) / n_microbatches;
	bool serves;

	check(orr_choice_init(&choice, name, &err), name, &err);
	check(orr_graph_parse(&graph, "model.dot", trained, &err), name, &err);
	check(freeze(graph, frozen, &err), name, &err);
	check(orr_partition(&pipeline, graph, &machine, 0, samples, &err), name, &err);
	check(orr_pipeline_set_step(pipeline, n_workers, n_microbatches, &err), name, &err);
	check(!draw_data(&data, N_ROWS, N_COLUMNS, 20, 5, 12345), name, &err);
	serves = !orr_jobs_create(&jobs, pipeline, &choice.schedule, &err);
	if (serves) {
		train(jobs, &data, name, batch, batch % n_microbatches == 0);
		if (!orr_ranks_rank())
			printf("%s\n", name);
	}
	orr_jobs_destroy(jobs);
	orr_pipeline_destroy(pipeline);
	orr_graph_destroy(graph);
	orr_choice_fini(&choice);
	free_data(&data);
	return serves;
}

int main(int argc, char **argv)
{
	struct orr_error err = {""};
	int n_trained = 0;

	if (argc > 1 && !strcmp(argv[1], "-pairs")) {
		trained = pairs;
		argv++, argc--;
	}
	if (argc < 6)
		return 2;
	check(orr_ranks_start(say, &err), "start", &err);
	out = orr_ranks_rank() ? NULL : fopen(argv[1], "wb");
	check(!out && !orr_ranks_rank(), argv[1], &err);
	if (argc > 6)
		for (int i = 6; i < argc; i++) {
			if (train_under(argv[i], atoi(argv[2]), atoi(argv[3]), atoi(argv[4]),
					argv[5]))
				n_trained++;
			else
				n_failed++,
					fprintf(stderr, "FAILED: %s does not serve these sizes\n",
						argv[i]);
		}
	else
		for (int i = 0; orr_schedules[i]; i++)
			n_trained += train_under(orr_schedules[i]->name, atoi(argv[2]),
						 atoi(argv[3]), atoi(argv[4]), argv[5]);
	if (out && fclose(out))
		n_failed++;
	orr_ranks_stop();
	return n_failed || !n_trained;
}
