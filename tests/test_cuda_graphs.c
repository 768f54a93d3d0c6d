/* Codelets on the emulated device, as a worker of StarPU's calls them, whose few calls are here:
 * tasks that come back are launched as graphs, and what they compute has the same bits. */
#include <check.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "emulated.h"
#include "orrery/graph.h"
#include "orrery/machine.h"
#include "pipeline/partition.h"
#include "orrery/pipeline.h"
#include "runtime/devices/compile.h"
#include "suite.h"
#include "../codelets/codelets.h"
#include "../codelets/cuda/stream.h"
#include "../codelets/workspace.h"

#define N 4      /* samples of a microbatch */
#define M 2      /* microbatches */
#define S 2      /* stages, with an edge between them */
#define MOST 400 /* floats of any tensor */

/* ---- StarPU, as far as codelets ask: one worker, which is a device ---- */

static cudaStream_t stream;

int starpu_worker_get_id(void)
{
	return 0;
}

unsigned starpu_worker_get_memory_node(unsigned worker)
{
	return worker + 1;
}

enum starpu_worker_archtype starpu_worker_get_type(int worker)
{
	(void)worker;
	return STARPU_CPU_WORKER; /* this thread is the worker's */
}

enum starpu_node_kind starpu_node_get_kind(unsigned node)
{
	(void)node;
	return STARPU_CUDA_RAM;
}

uintptr_t starpu_malloc_on_node_flags(unsigned node, size_t size, int flags)
{
	void *p = NULL;

	(void)node, (void)flags;
	return cudaMalloc(&p, size) ? 0 : (uintptr_t)p;
}

void starpu_free_on_node(unsigned node, uintptr_t at, size_t size)
{
	(void)node, (void)size;
	ck_assert_int_eq(cudaFree((void *)at), cudaSuccess);
}

void starpu_execute_on_specific_workers(void (*f)(void *), void *argument, unsigned n,
					unsigned *workers, const char *name)
{
	(void)n, (void)workers, (void)name;
	f(argument);
}

void *orr_worker_stream(void)
{
	return stream;
}

/* ---- a model that is trained ---- */

#define MODEL(before, after) \
	"digraph { x [op=input, columns=\"0:6\", stage=0]; a [op=linear, features=8, stage=0]; " \
	"n [op=layernorm, stage=0]; g [op=gelu, stage=0]; x -> a -> n -> g; " before \
	"b [op=linear, features=7, stage=1]; r [op=relu, stage=1]; " \
	"c [op=linear, features=3, stage=1]; y [op=input, columns=\"6:9\", stage=1]; " \
	"l [op=mse, stage=1]; b -> r -> c -> l; y -> l; " after "}"
static const char plain[] = MODEL("", "g -> b; ");
static const char drops[] = MODEL("d [op=dropout, rate=0.25, stage=1]; ", "g -> d -> b; ");

/* What changes from test to test. */
struct way {
	const char *model;
	enum orr_precision precision;
	bool plainly;   /* without graphs */
	bool split;     /* B and W apart */
	bool recompute; /* F keeps its inputs */
	bool shared;    /* one stash and one pair of edges for both microbatches */
	int n_sets;     /* of them, taken in turns of three steps */
};

struct tensors {
	float *stash[S][M], *left[S][M], *edge[M], *gradient[M];
};

struct worker {
	const struct way *way;
	struct orr_graph *graph;
	struct orr_pipeline *pipeline;
	struct orr_program *programs[S];
	struct orr_codelet_common *common;
	struct orr_kernels kernels;
	float *data[S][M], *parameters[S], *sum[S], *state[S];
	struct tensors sets[2];
	struct orr_metrics *metrics; /* [M] */
	int step;
};

static float *on_device(uint64_t seed)
{
	float *p = NULL, values[MOST];

	ck_assert_int_eq(cudaMalloc((void **)&p, sizeof(values)), cudaSuccess);
	for (int i = 0; i < MOST; i++) {
		seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
		values[i] = (float)(seed >> 40) * 0x1p-23f - 1.0f;
	}
	ck_assert_int_eq(cudaMemcpy(p, values, sizeof(values), cudaMemcpyHostToDevice),
			 cudaSuccess);
	return p;
}

static void make_tensors(struct worker *w)
{
	for (int k = 0; k < 2; k++)
		for (int b = 0; b < M; b++) {
			struct tensors *t = &w->sets[k];
			bool own = b == 0 || !w->way->shared;

			for (int s = 0; s < S; s++) {
				t->stash[s][b] = own ? on_device(1) : t->stash[s][0];
				t->left[s][b] = own ? on_device(2) : t->left[s][0];
			}
			t->edge[b] = own ? on_device(3) : t->edge[0];
			t->gradient[b] = own ? on_device(4) : t->gradient[0];
		}
	for (int s = 0; s < S; s++) {
		float values[MOST] = {0};

		for (int b = 0; b < M; b++)
			w->data[s][b] = on_device(10 + (uint64_t)(s * M + b));
		w->parameters[s] = on_device(5);
		w->sum[s] = on_device(6);
		w->state[s] = on_device(7);
		ck_assert(!cudaMemcpy(w->state[s], values, sizeof(values), cudaMemcpyHostToDevice));
		ck_assert_int_le(w->programs[s]->n_parameters * 2, MOST);
		orr_program_init(w->programs[s], 3, values);
		ck_assert(!cudaMemcpy(w->parameters[s], values, sizeof(values),
				      cudaMemcpyHostToDevice));
	}
	ck_assert(!cudaHostAlloc((void **)&w->metrics, M * sizeof(*w->metrics), 0));
}

static void start(struct worker *w, const struct way *way)
{
	struct orr_machine machine = orr_machine_default(S);
	struct orr_workspace *own;
	struct orr_error err = {""};
	char why[200];

	*w = (struct worker){.way = way};
	ck_assert_int_eq(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
	ck_assert_msg(!orr_graph_parse(&w->graph, "model.dot", way->model, &err), "%s", err.msg);
	ck_assert_msg(!orr_partition(&w->pipeline, w->graph, &machine, 0, N, &err), "%s", err.msg);
	for (int s = 0; s < S; s++)
		ck_assert_msg(!orr_program_create(&w->programs[s], w->pipeline, s, &err), "%s",
			      err.msg);
	ck_assert_ptr_nonnull(w->common = calloc(1, sizeof(*w->common)));
	w->common->seed = 11;
	own = &w->common->workspaces[0];
	ck_assert_msg(!orr_workspace_init(
			      own, 0, NULL,
			      &(struct orr_workspace_sizes){
				      .precision = way->precision,
				      .programs = (const struct orr_program *const *)w->programs,
				      .n_programs = S,
				      .most_samples = N,
				      .n_minibatch = N * M,
				      .scratch = 4 * MOST,
				      .stash = MOST,
				      .again = MOST,
				      .n_pointers = 4},
			      why, sizeof(why)),
		      "%s", why);
	for (int s = 0; s < S; s++)
		ck_assert_int_eq(orr_workspace_keep(own, w->programs[s]), 0);
	w->kernels = *own->device.kernels;
	if (way->plainly)
		w->kernels.replay = NULL;
	own->device.kernels = &w->kernels;
	make_tensors(w);
}

static void end(struct worker *w)
{
	cudaError_t code =
		w->common->workspaces[0].device.lost ? cudaErrorIllegalAddress : cudaSuccess;

	ck_assert_int_eq(cudaStreamSynchronize(stream), code);
	orr_workspace_fini(&w->common->workspaces[0], 0);
	free(w->common);
	for (int s = 0; s < S; s++)
		orr_program_destroy(w->programs[s]);
	orr_pipeline_destroy(w->pipeline);
	orr_graph_destroy(w->graph);
	ck_assert_int_eq(cudaStreamDestroy(stream), code);
}

/* As StarPU does, on the tensors up to the first that is NULL. */
static void call(enum orr_codelet codelet, struct orr_codelet_arg *arg, float *const *tensors)
{
	struct starpu_vector_interface vectors[8];
	void *buffers[8];
	int n = 0;

	for (; tensors[n]; n++) {
		vectors[n] = (struct starpu_vector_interface){.id = STARPU_VECTOR_INTERFACE_ID,
							      .ptr = (uintptr_t)tensors[n]};
		buffers[n] = &vectors[n];
	}
	orr_codelets[codelet].cuda_funcs[0](buffers, arg);
}

static struct orr_codelet_arg task(struct worker *w, int s, int b)
{
	return (struct orr_codelet_arg){.common = w->common,
					.step = w->step,
					.version = w->step,
					.job = -1,
					.program = w->programs[s],
					.n = N,
					.sample = (w->step * M + b) * N,
					.n_microbatches = 1,
					.has_parameters = true,
					.has_data = true,
					.has_stash = true,
					.has_gradient = true,
					.recompute = w->way->recompute,
					.part = ORR_PART_BOTH,
					.loss_scale = 1.0f / (N * M),
					.metrics = s == S - 1 ? &w->metrics[b] : NULL,
					.overwrite = b == 0};
}

static void forward(struct worker *w, struct tensors *t, int s, int b)
{
	struct orr_codelet_arg arg = task(w, s, b);
	float *const tensors[] = {w->parameters[s], w->data[s][b], t->edge[b], t->stash[s][b],
				  NULL};

	call(ORR_CODELET_FORWARD, &arg, tensors);
}

static void backward(struct worker *w, struct tensors *t, int s, int b)
{
	struct orr_codelet_arg arg = task(w, s, b);
	bool packed = w->way->recompute;
	float *stash = t->stash[s][b], *left = t->left[s][b];
	float *const both[] = {w->parameters[s], stash, t->gradient[b], w->sum[s], NULL};
	float *const input[] = {w->parameters[s], stash, left, t->gradient[b], NULL};
	float *const weight[] = {w->parameters[s], packed ? left : stash, packed ? w->sum[s] : left,
				 packed ? NULL : w->sum[s], NULL};

	if (!w->way->split) {
		call(ORR_CODELET_BACKWARD, &arg, both);
		return;
	}
	arg.part = ORR_PART_INPUT;
	arg.packed = packed;
	arg.has_gradient = false;
	call(ORR_CODELET_BACKWARD, &arg, input);
	arg.part = ORR_PART_WEIGHT;
	arg.has_gradient = true;
	arg.recompute = false;
	call(ORR_CODELET_BACKWARD, &arg, weight);
}

/* Its counts. */
static struct emulated_counts step(struct worker *w)
{
	struct tensors *t = &w->sets[w->step / 3 % w->way->n_sets];

	emulated_reset_counts();
	for (int b = 0; b < M; b++) {
		for (int s = 0; s < S; s++)
			forward(w, t, s, b);
		for (int s = S - 1; s >= 0; s--)
			backward(w, t, s, b);
	}
	for (int s = 0; s < S; s++) {
		struct orr_codelet_arg arg = task(w, s, 0);
		float *const tensors[] = {w->parameters[s], w->state[s], w->sum[s], NULL};

		arg.n_floats = w->programs[s]->n_trained;
		arg.n_gradients = 1;
		arg.rule = (struct orr_rule){.optimizer = ORR_OPTIMIZER_ADAM,
					     .learning_rate = 0.01,
					     .beta1 = 0.9,
					     .beta2 = 0.999,
					     .epsilon = 1e-8};
		call(ORR_CODELET_UPDATE, &arg, tensors);
	}
	w->step++;
	ck_assert_msg(!w->common->failure, "%s", w->common->failure);
	return emulated_counts();
}

/* Parameters and losses after n steps; both are the caller's. */
struct outcome {
	float parameters[S][MOST];
	double losses[M];
};

static void take(struct worker *w, struct outcome *o)
{
	ck_assert_int_eq(cudaStreamSynchronize(stream), cudaSuccess);
	for (int s = 0; s < S; s++)
		ck_assert(!cudaMemcpy(o->parameters[s], w->parameters[s], MOST * sizeof(float),
				      cudaMemcpyDeviceToHost));
	for (int b = 0; b < M; b++)
		o->losses[b] = w->metrics[b].loss;
}

static const struct way ways[] = {
	{plain, ORR_PRECISION_FP32, false, false, false, false, 1},
	{plain, ORR_PRECISION_FP32, false, false, false, true, 1},
	{plain, ORR_PRECISION_FP32, false, true, false, false, 1},
	{plain, ORR_PRECISION_FP32, false, true, true, false, 1},
	{plain, ORR_PRECISION_FP32, false, false, true, true, 1},
	{plain, ORR_PRECISION_BF16, false, false, false, false, 1},
	{plain, ORR_PRECISION_BF16, false, true, true, true, 1},
	{plain, ORR_PRECISION_FP32, false, false, false, false, 2},
	{drops, ORR_PRECISION_FP32, false, false, false, false, 1},
	{drops, ORR_PRECISION_BF16, false, true, true, false, 2},
};

#define STEPS 12

START_TEST(graphs_give_the_same_bits)
{
	struct outcome seen, right;
	struct way bare = ways[_i];
	int64_t graphs = 0;
	struct worker w;

	bare.plainly = true;
	start(&w, &bare);
	for (int k = 0; k < STEPS; k++)
		ck_assert_int_eq(step(&w).graphs, 0);
	take(&w, &right);
	ck_assert(right.losses[0] > 0 && right.losses[0] < 100);
	end(&w);
	start(&w, &ways[_i]);
	for (int k = 0; k < STEPS; k++)
		graphs += step(&w).graphs;
	ck_assert_int_gt(graphs, 0);
	take(&w, &seen);
	end(&w);
	ck_assert_mem_eq(&seen, &right, sizeof(seen));
}
END_TEST

/* The first step starts kernels, the second launches what it records, as do all after it. */
START_TEST(a_task_that_comes_back_is_one_launch)
{
	const struct way way = ways[0];
	int64_t jobs = 2 * S * M, kernels;
	struct emulated_counts c;
	struct worker w;

	start(&w, &way);
	c = step(&w);
	ck_assert_int_eq(c.graphs, 0);
	ck_assert_int_gt(c.products, jobs);
	kernels = c.launches;
	for (int k = 1; k < 5; k++) {
		c = step(&w);
		ck_assert_int_eq(c.graphs, jobs);
		ck_assert_int_eq(c.products, 0);
		ck_assert_int_eq(c.copies + c.sets, 0);
		ck_assert_int_eq(c.launches, S); /* the updates */
	}
	ck_assert_int_gt(kernels, 3 * jobs);
	end(&w);
}
END_TEST

START_TEST(other_addresses_are_another_graph)
{
	const struct way way = {plain, ORR_PRECISION_FP32, false, false, false, false, 2};
	static const bool launched[] = {false, true, true, false, true, true,
					true,  true, true, true,  true, true};
	int64_t jobs = 2 * S * M;
	struct worker w;

	start(&w, &way);
	for (int k = 0; k < STEPS; k++)
		ck_assert_int_eq(step(&w).graphs, launched[k] ? jobs : 0);
	end(&w);
}
END_TEST

/* The second stage drops other floats each time. */
START_TEST(what_is_drawn_is_never_recorded)
{
	const struct way way = {drops, ORR_PRECISION_FP32, false, false, false, false, 1};
	struct worker w;

	start(&w, &way);
	for (int k = 0; k < 4; k++)
		ck_assert_int_eq(step(&w).graphs, k ? 2 * M : 0);
	end(&w);
}
END_TEST

START_TEST(a_record_that_fails_leaves_single_launches)
{
	struct outcome seen, right;
	struct way bare = ways[0];
	struct worker w;

	bare.plainly = true;
	start(&w, &bare);
	for (int k = 0; k < 4; k++)
		(void)step(&w);
	take(&w, &right);
	end(&w);
	start(&w, &ways[0]);
	emulated_fail_capture(true);
	for (int k = 0; k < 4; k++) {
		ck_assert_int_eq(step(&w).graphs, 0);
		ck_assert_int_eq(cudaPeekAtLastError(), cudaSuccess);
		emulated_fail_capture(k < 2); /* none is tried again */
	}
	take(&w, &seen);
	end(&w);
	ck_assert_mem_eq(&seen, &right, sizeof(seen));
}
END_TEST

static void add_one(struct orr_device *d, void *tensors_)
{
	float **tensors = tensors_;

	d->kernels->elements->sum(d, 1, tensors[0], tensors[1], tensors[0]);
}

/* Where addresses change all the time. */
START_TEST(so_many_are_recorded_and_no_more)
{
	enum { KEYS = 2300, MOST_RECORDS = 2048 };
	float *tensors[2], one = 1, sum = 0;
	struct orr_device *d;
	struct worker w;

	start(&w, &ways[0]);
	d = &w.common->workspaces[0].device;
	tensors[0] = on_device(1);
	tensors[1] = on_device(2);
	ck_assert(!cudaMemcpy(tensors[1], &one, sizeof(one), cudaMemcpyHostToDevice));
	ck_assert(!cudaMemsetAsync(tensors[0], 0, sizeof(one), stream));
	emulated_reset_counts();
	for (uint64_t k = 0; k < 2 * KEYS; k++) {
		struct orr_key key = {2, {7, k / 2}};

		d->kernels->replay(d, &key, add_one, tensors);
	}
	ck_assert_int_eq(emulated_counts().graphs, MOST_RECORDS);
	ck_assert_int_eq(emulated_counts().launches, 2 * KEYS - MOST_RECORDS);
	d->kernels->replay(d, &(struct orr_key){2, {7, MOST_RECORDS - 1}}, add_one, tensors);
	ck_assert_int_eq(emulated_counts().graphs,
			 MOST_RECORDS + 1); /* those that are there stay */
	d->kernels->replay(d, &(struct orr_key){ORR_KEY_WORDS + 1, {0}}, add_one, tensors);
	ck_assert_int_eq(cudaStreamSynchronize(stream), cudaSuccess);
	ck_assert(!cudaMemcpy(&sum, tensors[0], sizeof(sum), cudaMemcpyDeviceToHost));
	ck_assert_int_eq((int)sum, 2 * KEYS + 2);
	end(&w);
}
END_TEST

static const char *told;

static void tell(const char *failure)
{
	told = failure;
}

START_TEST(a_device_that_is_lost_is_told_before_anything_else_is_started)
{
	struct worker w;

	start(&w, &ways[0]);
	w.common->lost = tell;
	(void)step(&w);
	ck_assert_int_eq(cudaStreamSynchronize(stream), cudaSuccess);
	emulated_fail_run(3);
	forward(&w, &w.sets[0], 0, 0);
	(void)cudaStreamSynchronize(stream);
	emulated_reset_counts();
	forward(&w, &w.sets[0], 1, 0);
	ck_assert_str_eq(told,
			 "CUDA, the start of a task, or a kernel before it: an illegal memory "
			 "access was encountered");
	ck_assert(atomic_load(&w.common->cancelled));
	ck_assert_int_eq(emulated_counts().launches + emulated_counts().graphs, 0);
	end(&w);
}
END_TEST

int main(void)
{
	const struct suite_test tests[] = {
		EACH(graphs_give_the_same_bits, N_OF(ways)),
		ONCE(a_task_that_comes_back_is_one_launch),
		ONCE(other_addresses_are_another_graph),
		ONCE(what_is_drawn_is_never_recorded),
		ONCE(a_record_that_fails_leaves_single_launches),
		ONCE(so_many_are_recorded_and_no_more),
		ONCE(a_device_that_is_lost_is_told_before_anything_else_is_started),
	};

	setenv("CK_FORK", "yes", 1); /* a device that is lost is lost to its process */
	return suite_run("cuda-graphs", tests, N_OF(tests));
}
