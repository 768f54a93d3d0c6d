#pragma once
/* Arguments of the codelets beside their buffers: a worker's own memory, data shared by all tasks
 * of a run, and a task's argument. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <starpu.h>
#include "device.h"
#include "optimizer.h"
#include "program.h"

struct orr_kept; /* workspace.c */
struct orr_nccl;

/* A StarPU worker's own: what it computes on, and memory that is large enough for every stage. See
 * workspace.h. */
struct orr_workspace {
	struct orr_device device;
	unsigned node;         /* where its memory is */
	bool borrows;          /* its device and the next are another's */
	struct orr_kept *kept; /* rounded weights of the stages that it computes */
	int n_kept;
	int n_own;        /* of them, each of one stage; the others of whichever was last */
	int64_t n_rounds; /* tasks that have asked for any of them */
	void *memory;     /* of its own, for what follows and the device's; NULL: that of another */
	size_t bytes;
	float *scratch;
	/* a whole stash, for recomputation and where it is not read; outputs of F run again */
	float *stash, *again;
	float *gathered;  /* what is read of a whole minibatch */
	const float **in; /* one per edge on one side of a stage */
	float **out;
};

/* What all tasks of a run share. */
struct orr_codelet_common {
	atomic_bool cancelled;         /* return at once: the run is being drained */
	_Atomic(const char *) failure; /* why a kernel could not be started; then cancelled, too */
	/* (optional) A device is lost, for this reason: StarPU's next call to CUDA ends the
	 * process. In the worker's thread, once. */
	void (*lost)(const char *failure);
	struct orr_workspace workspaces[STARPU_NMAXWORKERS];
	uint64_t seed; /* of what is drawn in a pass */
	int delay_us;  /* (tests) sleep so long at most, drawn from seed, step and job */
	uint64_t delay_seed;
};

/* task->cl_arg */
struct orr_codelet_arg {
	struct orr_codelet_common *common;
	atomic_uchar *started; /* set to 1 at the start; NULL: not wanted */
	int64_t step;          /* from 0 */
	int64_t version;       /* as long as it, program and their place are the same, so are the
				  parameters */
	int job;               /* number, for the delay; -1: none */
	/* forward and backward */
	const struct orr_program *program;
	int64_t n;      /* samples */
	int64_t sample; /* the first of them, counted from the first step on */
	/* forward: the minibatch and the first of them in it; its own number among the microbatches
	 * that it has of each in-edge: 0 of 1 unless the stage gathers */
	int64_t n_minibatch, first;
	int microbatch, n_microbatches;
	bool has_parameters, has_data, has_stash, has_gradient;
	bool recompute; /* F keeps its inputs, the first job of the backward runs F again; false for
			   W after B, which has the whole stash */
	enum orr_part part;
	bool packed; /* B leaves W all that it reads in one piece: it has no stash of its own */
	float loss_scale;
	struct orr_metrics *metrics; /* of the microbatch, by loss, in memory that every device can
					write; NULL without a loss */
	/* backward and add: the first contribution overwrites the buffer */
	bool overwrite;
	/* reduce; cuda/collective.h. NULL: the owner is alone, on a CPU */
	struct orr_nccl *group;
	int member;
	bool gathers; /* all parameters, where each member has updated a part */
	/* update and check: becomes the first float of the gradient whose square is not finite, if
	 * there is one; in memory that every device can write. NULL: not wanted */
	int64_t *wild;
	int own; /* of update: which of several gradients is the owner's */
	/* add, update, reduce, check and norm */
	int64_t n_floats;
	int64_t offset;  /* of add: where in the partial gradient it starts; of update: where in the
			    gradient the sum of its part does */
	int64_t to;      /* of add: the same in the sum */
	int n_gradients; /* or the chunks that have floats */
	int n_chunks;    /* of a sum that is there, chunk by chunk; 0: a gradient per owner */
	bool sharded;    /* of reduce: of its part alone */
	/* of update; its part, where an owner has the optimizer's state of that alone, has the sum
	 * of its gradient if there are chunks */
	struct orr_rule rule;
	/* norm: the tensors in the gradient, and where the sums of their squares go, in memory that
	 * every device can write */
	const struct orr_extent *tensors;
	int n_tensors;
	double *squares;
};
