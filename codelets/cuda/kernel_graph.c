/* The kernels of a task as one graph of CUDA's, which is launched by one call. A task that comes
 * back with the same key, addresses and all, starts the same kernels: the first time they are
 * started one by one, which also makes what is made once (the products' algorithms); the second
 * time they are recorded; from then on the graph is launched. What is recorded does not run, and a
 * record that fails is forgotten: everything is then started one by one, for good.
 *
 * Kernels are recorded from a stream of our own that waits for no other: while StarPU's were
 * recorded, no thread could use the default stream. */
#include "private.h"

#include <stdlib.h>
#include <string.h>

#define ORR_GRAPHS 512 /* of a worker */
#define WINDOW 8       /* places where a key may be */
/* So many are recorded at most: where addresses change all the time, it is not worth it. */
#define MOST_RECORDS (4 * ORR_GRAPHS)

struct entry {
	int64_t used; /* when, last; 0: never */
	cudaGraphExec_t graph;
	struct orr_key key;
};

struct orr_graphs {
	cudaStream_t recorder;
	int64_t now;
	int n_records;
	bool fails; /* a record did: there are no others */
	struct entry entries[ORR_GRAPHS];
};

struct orr_graphs *orr_cuda_graphs_create(void)
{
	struct orr_graphs *graphs = calloc(1, sizeof(*graphs));

	if (graphs && cudaStreamCreateWithFlags(&graphs->recorder, cudaStreamNonBlocking)) {
		free(graphs);
		return NULL;
	}
	return graphs;
}

void orr_cuda_graphs_destroy(struct orr_graphs *graphs)
{
	if (!graphs)
		return;
	for (int i = 0; i < ORR_GRAPHS; i++)
		if (graphs->entries[i].graph)
			cudaGraphExecDestroy(graphs->entries[i].graph);
	cudaStreamDestroy(graphs->recorder);
	free(graphs);
}

static size_t hash_of(const struct orr_key *key)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (int i = 0; i < key->n; i++) {
		hash = (hash ^ key->words[i]) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 32;
	}
	return (size_t)hash;
}

/* The key's entry, or one in place of that which was not used for longest. NULL: none is made any
 * more. */
static struct entry *look_up(struct orr_device *d, const struct orr_key *key)
{
	struct orr_graphs *graphs = d->cuda->graphs;
	size_t first = hash_of(key);
	struct entry *oldest = NULL;

	for (size_t i = 0; i < WINDOW; i++) {
		struct entry *e = &graphs->entries[(first + i) % ORR_GRAPHS];

		if (e->used && e->key.n == key->n &&
		    !memcmp(e->key.words, key->words, (size_t)key->n * sizeof(*key->words)))
			return e;
		if (!oldest || e->used < oldest->used)
			oldest = e;
	}
	if (graphs->n_records >= MOST_RECORDS)
		return NULL;
	if (oldest->graph) { /* it may be running */
		orr_cuda_ok(d, cudaStreamSynchronize(d->cuda->stream), "end of a graph");
		cudaGraphExecDestroy(oldest->graph);
	}
	*oldest = (struct entry){.key = *key};
	return oldest;
}

/* What start() starts; NULL: it cannot be recorded, and nothing has run. */
static cudaGraphExec_t record(struct orr_device *d, void (*start)(struct orr_device *d, void *task),
			      void *task)
{
	struct orr_graphs *graphs = d->cuda->graphs;
	cudaStream_t stream = d->cuda->stream;
	cudaGraphExec_t ready = NULL;
	cudaGraph_t graph = NULL;

	if (cudaStreamBeginCapture(graphs->recorder, cudaStreamCaptureModeThreadLocal))
		return NULL;
	d->cuda->stream = graphs->recorder;
	start(d, task);
	d->cuda->stream = stream;
	if (cudaStreamEndCapture(graphs->recorder, &graph) || d->failure ||
	    cudaGraphInstantiateWithFlags(&ready, graph, 0))
		ready = NULL;
	if (graph)
		cudaGraphDestroy(graph);
	return ready;
}

/* Of the second task with its key. */
static void make(struct orr_device *d, struct entry *e,
		 void (*start)(struct orr_device *d, void *task), void *task)
{
	struct orr_graphs *graphs = d->cuda->graphs;

	e->graph = record(d, start, task);
	graphs->n_records++;
	if (e->graph)
		return;
	graphs->fails = true;
	(void)cudaGetLastError();
	if (!d->lost)
		d->failure = NULL; /* what is wrong with a kernel shows again */
}

void orr_cuda_replay(struct orr_device *d, const struct orr_key *key,
		     void (*start)(struct orr_device *d, void *task), void *task)
{
	struct orr_graphs *graphs = d->cuda->graphs;
	struct entry *e = NULL;

	if (!graphs->fails && key->n <= ORR_KEY_WORDS && !d->failure)
		e = look_up(d, key);
	if (e && e->used && !e->graph && graphs->n_records < MOST_RECORDS)
		make(d, e, start, task);
	if (e)
		e->used = ++graphs->now;
	if (e && e->graph)
		orr_cuda_ok(d, cudaGraphLaunch(e->graph, d->cuda->stream), "graph");
	else if (!d->failure)
		start(d, task);
}
