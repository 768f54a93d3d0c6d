#include "handles.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LARGE_BYTES ((size_t)4 << 20)

/* What is to be given back. */
struct orr_given {
	struct orr_given *before;
	starpu_data_handle_t handle; /* NULL: none */
	uintptr_t at;                /* of a block on a node */
	void *pinned;                /* or of this memory */
	size_t bytes;
	unsigned node;
};

/* NULL: something has failed. */
static struct orr_given *note(struct orr_handles *all)
{
	struct orr_fault *fault = all->fault;
	struct orr_given *x =
		fault->code ? NULL : orr_arrays_add(all->arrays, 1, sizeof(struct orr_given));

	if (!x && !fault->code)
		fault->code = orr_no_memory(&fault->err, "run");
	if (!x)
		return NULL;
	x->before = all->last;
	return all->last = x;
}

/* Floats that are one element to StarPU, which counts elements in 32 bits. */
static int64_t together_of(int64_t n)
{
	return n < UINT32_MAX ? 1 : 1024;
}

static void register_floats(const struct orr_handles *all, struct orr_given *x, int node, int64_t n)
{
	struct orr_fault *fault = all->fault;
	int64_t together = together_of(n);

	if (n / together < UINT32_MAX)
		starpu_vector_data_register(&x->handle, node, x->at,
					    n ? (uint32_t)((n + together - 1) / together) : 1,
					    (size_t)together * sizeof(float));
	else
		fault->code =
			orr_fail(&fault->err, ORR_E_UNSUPPORTED,
				 "a stage has a tensor of %lld floats, more than StarPU takes in "
				 "one piece; cut it or take more microbatches",
				 (long long)n);
}

void orr_handles_floats(struct orr_handles *all, starpu_data_handle_t *handle, int64_t n)
{
	struct orr_given *x = note(all);

	if (!x)
		return;
	register_floats(all, x, -1, n);
	*handle = x->handle;
}

void orr_handles_void(struct orr_handles *all, starpu_data_handle_t *handle)
{
	struct orr_given *x = note(all);

	if (!x)
		return;
	starpu_void_data_register(&x->handle);
	*handle = x->handle;
}

/* Of main memory that is not touched yet, which transparent huge pages make faster to fault in and
 * spare TLB misses. */
static void ask_for_large_pages(uintptr_t at, size_t bytes)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (at + page - 1) / page * page;

	if (bytes >= LARGE_BYTES)
		(void)madvise((void *)first, (at + bytes - first) / page * page, MADV_HUGEPAGE);
}

void orr_handles_block(struct orr_handles *all, starpu_data_handle_t *handle, int64_t n,
		       unsigned node, int s, int w)
{
	struct orr_fault *fault = all->fault;
	struct orr_given *x = note(all);
	int64_t together = together_of(n);

	if (!x)
		return;
	/* an optimizer may keep nothing, and that, too, is a tensor */
	x->bytes = (size_t)(n ? (n + together - 1) / together * together : 1) * sizeof(float);
	x->node = node;
	x->at = starpu_malloc_on_node(node, x->bytes);
	if (!x->at) {
		fault->code = orr_fail(&fault->err, ORR_E_NOMEM,
				       "run: no memory for %lld floats of stage %d on worker %d",
				       (long long)n, s, w);
		return;
	}
	if (starpu_node_get_kind(node) == STARPU_CPU_RAM)
		ask_for_large_pages(x->at, x->bytes);
	register_floats(all, x, (int)node, n);
	*handle = x->handle;
}

void *orr_handles_pinned(struct orr_handles *all, size_t n, size_t size)
{
	struct orr_fault *fault = all->fault;
	struct orr_given *x = note(all);

	if (!x)
		return NULL;
	x->bytes = n * size;
	if (starpu_malloc_flags(&x->pinned, x->bytes, STARPU_MALLOC_PINNED)) {
		x->pinned = NULL;
		fault->code = orr_no_memory(&fault->err, "run");
		return NULL;
	}
	return memset(x->pinned, 0, x->bytes);
}

void orr_handles_fini(struct orr_handles *all)
{
	for (struct orr_given *x = all->last; x; x = x->before) {
		if (x->handle) /* its content is not wanted any more */
			starpu_data_unregister_no_coherency(x->handle);
		if (x->at)
			starpu_free_on_node(x->node, x->at, x->bytes);
		if (x->pinned)
			starpu_free_flags(x->pinned, x->bytes, STARPU_MALLOC_PINNED);
	}
	all->last = NULL;
}
