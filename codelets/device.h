#pragma once
/* What a program computes on: a CPU core, or a stream of a CUDA device. A table of kernels tells
 * them apart, and nothing else does: program.c and codelets.c are the same for both. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels.h"
#include "optimizer.h"
#include "orrery/orrery.h"

struct orr_kernels;

/* Which samples are computed next, for what depends on them: random numbers, statistics. */
struct orr_microbatch {
	uint64_t seed;   /* of the run */
	int64_t sample;  /* the number of the first sample, counted from the first step on */
	int64_t first;   /* its number in the minibatch */
	bool evaluation; /* nothing is drawn, and statistics are the running ones */
	/* what operators read of a whole minibatch, by orr_program_gather, and its samples; NULL:
	 * it is a minibatch of its own */
	float *gathered;
	int64_t n_minibatch;
};

/* What tells a task from others: as long as all of these are the same, so is what it starts. */
#define ORR_KEY_WORDS 64
struct orr_key {
	int n; /* above ORR_KEY_WORDS: more than are kept */
	uint64_t words[ORR_KEY_WORDS];
};

static inline void orr_key_add(struct orr_key *key, uint64_t word)
{
	if (key->n < ORR_KEY_WORDS)
		key->words[key->n] = word;
	key->n++;
}

/* One at a time may use it. On a CUDA device all pointers that kernels are given, metrics apart,
 * are to its memory, kernels return before they have run, and run in the order of the calls. */
struct orr_device {
	const struct orr_kernels *kernels;
	enum orr_precision precision;
	/* orr_program_workspace_bytes of the largest program, aligned to 256; borrowed */
	void *workspace;
	/* (optional) the rounded copy, by orr_program_round, of the parameters used next; borrowed
	 */
	const void *rounded;
	struct orr_microbatch microbatch;
	/* what is computed next has bfloat16 where comments below say activations; else floats */
	bool halves;
	/* ... but for x and dx of a norm, which are floats */
	bool floats;
	const char
		*failure; /* why the first kernel that could not be started was not; NULL: none */
	bool lost; /* kernels failed as they ran: no call of CUDA works in this process any more */
	struct orr_cuda *cuda; /* (private to codelets/cuda) */
};

/* A CPU core; a CUDA device is made by cuda/stream.h. */
struct orr_device orr_device_cpu(enum orr_precision precision);

/* A matrix to bfloat16, in rows of orr_rounded_columns(columns), zero behind the columns. */
#define ORR_MOST_ROUNDINGS 32 /* at once */
struct orr_rounding {
	const float *from;
	void *to;
	int64_t rows, columns;
};

/* The tables of a device: NAME, of struct orr_KIND_kernels; a core's are orr_NAME_cpu. */
#define ORR_KERNEL_TABLES(X) \
	X(elements, element) \
	X(linear, linear) \
	X(norms, norm) \
	X(column_norms, column_norm) \
	X(images, image) \
	X(losses, loss) \
	X(contrastive, contrastive) /* contrastive.h */ \
	X(rows, row)                /* sequence.h, as the next three */ \
	X(sequence, sequence) \
	X(attention, attention) \
	X(experts, expert) \
	X(optimizer, optimizer)
#define ORR_TABLE(NAME, KIND) \
	extern const struct orr_##KIND##_kernels orr_##NAME##_cpu, orr_##NAME##_cuda;
ORR_KERNEL_TABLES(ORR_TABLE)
#undef ORR_TABLE

struct orr_kernels {
	/* It takes activations in bfloat16: x, y, dy and dx of linear, attention, map, layernorm,
	 * copy and sum, whose rows are then multiples of 8. A loss's, of any rows, it always does.
	 */
	bool halves;
	int64_t unfolded; /* floats of images that a convolution unfolds at a time */
	/* Memory for any of these on n samples and the widths in and out (equal but for linear). */
	size_t (*workspace_bytes)(enum orr_precision precision, int64_t n, int64_t in, int64_t out);
	/* (optional) Before a task's kernels: what others' calls to CUDA left is forgotten, and the
	 * failure of kernels that ran since is noted. */
	void (*begin)(struct orr_device *d);
	/* (optional) Do what start(d, task) does, which starts kernels and nothing else, and may be
	 * called twice: at once, where a task with this key was done before. */
	void (*replay)(struct orr_device *d, const struct orr_key *key,
		       void (*start)(struct orr_device *d, void *task), void *task);

#define ORR_TABLE(NAME, KIND) const struct orr_##KIND##_kernels *NAME;
	ORR_KERNEL_TABLES(ORR_TABLE)
#undef ORR_TABLE

	/* For what runs apart from StarPU. Memory that the kernels reach, aligned to 256; NULL:
	 * there is none. put: floats from main memory to it. */
	void *(*allocate)(size_t bytes);
	void (*release)(void *at); /* NULL is fine */
	void (*put)(struct orr_device *d, int64_t count, const float *from, float *to);
	/* (optional) Until all that was started has run, and any failure of it is known; NULL: that
	 * is so when a kernel returns. */
	void (*wait)(struct orr_device *d);
};
extern const struct orr_kernels orr_kernels_cpu;

/* The row length of a rounded matrix, in bfloat16, padding included: each row starts where the
 * fastest products want it, at a multiple of 16 bytes. */
ORR_ELEMENT int64_t orr_rounded_columns(int64_t columns)
{
	return (columns + 7) / 8 * 8;
}
