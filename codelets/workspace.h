#pragma once
/* What a StarPU worker has of its own, made before the first task and large enough for all of them.
 */
#include "arguments.h"

struct orr_workspace_sizes {
	enum orr_precision precision;
	const struct orr_program *const *programs; /* all that may run there */
	int n_programs;
	int64_t most_samples, n_minibatch;       /* in a block, and in all of them */
	int64_t scratch, stash, again, gathered; /* floats */
	int n_pointers;                          /* edges on one side of a stage, at most */
};

/* Of StarPU's worker `worker`, a CPU core or a CUDA device. Not 0: it could not be made, and why,
 * of size bytes, says in a few words what is missing. To be called by the thread that runs StarPU,
 * and in any case to be ended by orr_workspace_fini, before StarPU ends.
 * of: NULL; or, for work between steps, another one, whose device it has and the weights that that
 * keeps rounded: every one is rounded anew before it is used, and again after this has ended. It
 * works in the memory of that, as far as it has room.
 * Nothing uses `of` until then. */
int orr_workspace_init(struct orr_workspace *own, unsigned worker, const struct orr_workspace *of,
		       const struct orr_workspace_sizes *sizes, char *why, size_t size);
void orr_workspace_fini(struct orr_workspace *own, unsigned worker);

/* The worker computes a stage with this program: keep its weights rounded, where the precision has
 * any use for that. Without it they are rounded for each product. Not 0: no memory. */
int orr_workspace_keep(struct orr_workspace *own, const struct orr_program *program);
/* The same for n stages of which it reads copies of the parameters, for which n_blocks blocks are
 * enough: they hold the stages that were computed last. A stage that has a place of its own, since
 * other microbatches read its parameters there, needs none. Once, after orr_workspace_keep. */
int orr_workspace_share(struct orr_workspace *own, const struct orr_program *const *programs, int n,
			int n_blocks);

/* (codelets.c) The stream of the StarPU worker that calls it, a CUDA device: a cudaStream_t; NULL:
 * of a core. With CUDA (worker_cuda.c) or without (worker_none.c). */
void *orr_worker_stream(void);

/* (codelets.c) Before a task's products: round its parameters unless they still are. */
void orr_workspace_round(struct orr_workspace *own, const struct orr_codelet_arg *arg,
			 const float *parameters);
