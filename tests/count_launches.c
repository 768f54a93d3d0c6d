/* What a step starts on a CUDA device: kernels, products and copies, counted on the emulated one,
 * which runs none of them here. A block (layer norm, linear, gelu) alone, and all stages of graphs,
 * one microbatch of each: forward, backward in one task, update by Adam.
 *
 *   count_launches GRAPH:STAGES:SAMPLES ... [--kernels]
 *
 * With --kernels, each kernel by its name, too. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulated.h"
#include "orrery/graph.h"
#include "orrery/machine.h"
#include "pipeline/partition.h"
#include "orrery/pipeline.h"
#include "../codelets/cuda/stream.h"
#include "../codelets/program.h"
#include "runtime/devices/compile.h"

#define MOST_EDGES 64
#define MiB 1048576.0

static void refuse(const char *what)
{
	(void)fprintf(stderr, "count_launches: %s\n", what);
	exit(1);
}

static float *floats(int64_t n)
{
	void *p = NULL;

	if (cudaMalloc(&p, (size_t)(n + 1) * sizeof(float)))
		refuse("no addresses for memory that is not used");
	return p;
}

enum pass { ROUND, FORWARD, BACKWARD, UPDATE, N_PASSES };
static const char *const names[] = {"round", "forward", "backward", "update"};

struct figures {
	struct emulated_counts of[N_PASSES];
	int tasks; /* forward and backward, which become a launch each where they come back */
	int64_t stash, edges, gradients; /* floats */
};

static void add(struct emulated_counts *to, const struct emulated_counts *more)
{
	to->launches += more->launches;
	to->products += more->products;
	to->copies += more->copies;
	to->sets += more->sets;
	to->copied_bytes += more->copied_bytes;
	to->set_bytes += more->set_bytes;
	to->product_bytes += more->product_bytes;
}

static void tell_kernel(const char *name, int64_t n, void *pass)
{
	printf("    %-9s %5lld  %.120s\n", (const char *)pass, (long long)n, name);
}

static void end(struct figures *f, enum pass pass, bool kernels)
{
	struct emulated_counts seen = emulated_counts();

	if (kernels)
		emulated_each_kernel(tell_kernel, (void *)(uintptr_t)names[pass]);
	add(&f->of[pass], &seen);
	f->tasks += (pass == FORWARD || pass == BACKWARD) &&
		    seen.launches + seen.products + seen.copies + seen.sets > 0;
	emulated_reset_counts();
}

/* ---- a stage ---- */

struct buffers {
	float *parameters, *gradient, *state, *data, *stash, *scratch, *rounded;
	float *in[MOST_EDGES], *out[MOST_EDGES], *from[MOST_EDGES], *to[MOST_EDGES];
	struct orr_metrics *metrics;
	int64_t *wild;
};

/* Memory that is never touched, and that nobody frees: this program ends soon. */
static void make(struct buffers *b, struct figures *f, const struct orr_program *p,
		 struct orr_device *d, int64_t n)
{
	size_t rounded = orr_program_rounded_bytes(p, d);
	int64_t columns = 0;

	*b = (struct buffers){.parameters = floats(p->n_parameters),
			      .gradient = floats(p->n_trained),
			      .state = floats(2 * p->n_trained),
			      .stash = floats(orr_program_stash_floats(p, n, false)),
			      .scratch = floats(orr_program_scratch_floats(p, n)),
			      .rounded = rounded ? floats((int64_t)rounded / 4 + 1) : NULL};
	if (orr_program_gathers(p) || p->n_in > MOST_EDGES || p->n_out > MOST_EDGES ||
	    cudaMallocHost((void **)&b->metrics, 4096) ||
	    cudaMallocHost((void **)&b->wild, sizeof(*b->wild)))
		refuse("a stage that is not for this program");
	for (int i = 0; i < p->n_inputs; i++)
		columns += p->inputs[i].width;
	b->data = floats(n * columns);
	for (int e = 0; e < p->n_in; e++) {
		b->in[e] = floats(n * p->in[e].columns);
		b->to[e] = floats(n * p->in[e].gradients);
		f->edges += n * p->in[e].columns;
		f->gradients += n * p->in[e].gradients;
	}
	for (int e = 0; e < p->n_out; e++) {
		b->out[e] = floats(n * p->out[e].columns);
		b->from[e] = floats(n * p->out[e].gradients);
	}
	f->stash += orr_program_stash_floats(p, n, false);
	d->workspace = floats((int64_t)(orr_program_workspace_bytes(p, d, n) / sizeof(float)));
	d->rounded = b->rounded;
}

static void start(const struct buffers *b, const struct orr_program *p, struct orr_device *d,
		  int64_t n, enum pass pass)
{
	const struct orr_rule rule = {.optimizer = ORR_OPTIMIZER_ADAM,
				      .learning_rate = 1e-3,
				      .beta1 = 0.9,
				      .beta2 = 0.999,
				      .epsilon = 1e-8};
	const float *const gradients[] = {b->gradient};
	int64_t n_trained = p->n_trained;

	switch (pass) {
	case ROUND:
		if (b->rounded)
			orr_program_round(p, d, b->parameters, b->rounded);
		break;
	case FORWARD:
		orr_program_forward(p, d, n, b->parameters, b->data, (const float *const *)b->in,
				    b->out, b->stash, b->scratch, b->metrics);
		break;
	case BACKWARD:
		orr_program_backward(p, d, ORR_PART_BOTH, n, 1.0f / (float)n, b->parameters,
				     b->stash, NULL, false, (const float *const *)b->from, b->to,
				     b->gradient, true, b->scratch);
		break;
	case UPDATE:
		if (!n_trained)
			break;
		d->kernels->elements->find_wild(d, n_trained, b->gradient, 0, b->wild);
		d->kernels->optimizer->step(d, &rule, 1, n_trained, b->parameters, b->state,
					    gradients, 1, false);
		break;
	case N_PASSES:
		break;
	}
}

/* The second time, when algorithms of products have been chosen. */
static void count_stage(struct figures *f, const struct orr_program *p, struct orr_device *d,
			int64_t n, bool kernels)
{
	struct buffers b;

	make(&b, f, p, d, n);
	for (int pass = 0; pass < N_PASSES; pass++)
		start(&b, p, d, n, (enum pass)pass);
	emulated_reset_counts();
	for (int pass = 0; pass < N_PASSES; pass++) {
		start(&b, p, d, n, (enum pass)pass);
		end(f, (enum pass)pass, kernels);
	}
}

/* ---- a graph ---- */

static void print(const struct figures *f)
{
	struct emulated_counts sum = {0};
	int64_t all, others;

	for (int i = 0; i < N_PASSES; i++) {
		const struct emulated_counts *c = &f->of[i];

		add(&sum, c);
		if (c->launches + c->products + c->copies + c->sets)
			printf("  %-8s %5lld launches + %4lld products, %3lld copies, %3lld sets; "
			       "products' operands %9.1f MiB\n",
			       names[i], (long long)c->launches, (long long)c->products,
			       (long long)c->copies, (long long)c->sets,
			       (double)c->product_bytes / MiB);
	}
	all = sum.launches + sum.products;
	others = f->of[ROUND].launches + f->of[UPDATE].launches;
	printf("  all      %5lld launches + %4lld products = %lld, %lld copies of %.1f MiB, "
	       "%lld sets of %.1f MiB; products' operands %.1f MiB\n",
	       (long long)sum.launches, (long long)sum.products, (long long)all,
	       (long long)sum.copies, (double)sum.copied_bytes / MiB, (long long)sum.sets,
	       (double)sum.set_bytes / MiB, (double)sum.product_bytes / MiB);
	printf("  as graphs: %d forward and backward tasks, %lld other launches = %lld\n", f->tasks,
	       (long long)others, (long long)others + f->tasks);
	printf("  stash %.1f MiB, edges %.1f MiB, their gradients %.1f MiB\n",
	       (double)f->stash * 4 / MiB, (double)f->edges * 4 / MiB,
	       (double)f->gradients * 4 / MiB);
}

/* only: one stage of it; -1: all. */
static void count_graph(const char *title, struct orr_graph *g, int n_stages, int64_t n, int only,
			enum orr_precision precision, bool kernels)
{
	struct orr_machine machine = orr_machine_default(n_stages ? n_stages : 1);
	struct orr_error err = {""};
	struct orr_pipeline *p = NULL;
	struct figures f = {.stash = 0};
	struct orr_device device;
	cudaStream_t stream;
	char why[200];

	orr_graph_set_precision(g, precision);
	if (orr_partition(&p, g, &machine, n_stages, n, &err))
		refuse(err.msg);
	if (cudaStreamCreate(&stream) ||
	    orr_cuda_stream_init(&device, precision, stream, why, sizeof(why)))
		refuse("no device");
	printf("%s, %d stages, a microbatch of %lld, %s\n", title, only < 0 ? p->n_stages : 1,
	       (long long)n, precision == ORR_PRECISION_BF16 ? "bf16" : "fp32");
	for (int s = 0; s < p->n_stages; s++) {
		struct orr_program *program = NULL;

		if (only >= 0 && s != only)
			continue;
		if (orr_program_create(&program, p, s, &err))
			refuse(err.msg);
		count_stage(&f, program, &device, n, kernels);
		orr_program_destroy(program);
	}
	if (device.failure)
		refuse(device.failure);
	print(&f);
	orr_cuda_stream_fini(&device);
	(void)cudaStreamDestroy(stream);
	orr_pipeline_destroy(p);
}

static const char block[] =
	"digraph block { x [op=input, columns=\"0:64\", stage=0]; "
	"widen [op=linear, features=2048, stage=0]; norm [op=layernorm, stage=1]; "
	"fc [op=linear, features=2048, stage=1]; act [op=gelu, stage=1]; "
	"scores [op=linear, features=10, stage=2]; y [op=input, columns=64, stage=2]; "
	"loss [op=softmax_cross_entropy, stage=2]; x -> widen -> norm -> fc -> act -> scores; "
	"scores -> loss; y -> loss }";

static void count_file(char *argument, bool kernels)
{
	char *samples = strrchr(argument, ':'), *stages, *name;
	struct orr_graph *g = NULL;
	struct orr_error err = {""};

	if (samples)
		*samples++ = '\0';
	stages = strrchr(argument, ':');
	if (!samples || !stages)
		refuse("GRAPH:STAGES:SAMPLES is wanted");
	*stages++ = '\0';
	if (orr_graph_read(&g, argument, &err))
		refuse(err.msg);
	name = strrchr(argument, '/');
	for (int k = 0; k < 2; k++)
		count_graph(name ? name + 1 : argument, g, atoi(stages), atoll(samples), -1,
			    k ? ORR_PRECISION_BF16 : ORR_PRECISION_FP32, kernels);
	orr_graph_destroy(g);
}

int main(int argc, char **argv)
{
	bool kernels = argc > 1 && strcmp(argv[argc - 1], "--kernels") == 0;
	struct orr_graph *g = NULL;
	struct orr_error err = {""};

	emulated_count_only(true);
	if (orr_graph_parse(&g, "block.dot", block, &err))
		refuse(err.msg);
	for (int k = 0; k < 2; k++)
		count_graph("layernorm, linear of 2048, gelu", g, 0, 8192, 1,
			    k ? ORR_PRECISION_BF16 : ORR_PRECISION_FP32, kernels);
	orr_graph_destroy(g);
	for (int i = 1; i < argc - kernels; i++)
		count_file(argv[i], kernels);
	return 0;
}
