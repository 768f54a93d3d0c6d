#include "orrery/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/hash.h"
#include "base/max.h"
#include "path.h"
#include "cost.h"

/* Ascending by the stage at the other end, then by number: the order in which edges are served. */
static void connect(struct orr_pipeline *p)
{
	int *next = p->numbers;

	for (int s = 0; s < p->n_stages; s++) {
		struct orr_stage *stage = &p->stages[s];

		stage->in = next;
		stage->out = next + stage->n_in;
		next += stage->n_in + stage->n_out;
		stage->n_in = stage->n_out = 0;
	}
	/* edges are sorted by (from, to): appending keeps both lists ascending */
	for (int e = 0; e < p->n_edges; e++) {
		struct orr_stage *from = &p->stages[p->edges[e].from],
				 *to = &p->stages[p->edges[e].to];

		to->input_bytes += p->edges[e].bytes;
		p->numbers[from->out - p->numbers + from->n_out++] = e;
		p->numbers[to->in - p->numbers + to->n_in++] = e;
	}
}

static void measure_depth(struct orr_pipeline *p)
{
	for (int s = 0; s < p->n_stages; s++) {
		int64_t above = 0;

		for (int i = 0; i < p->stages[s].n_in; i++)
			above = larger(above, p->stages[orr_stage_before(p, s, i)].n_gathers);
		p->stages[s].n_gathers = (int)above + p->stages[s].gather;
	}
	for (int s = p->n_stages - 1; s >= 0; s--) {
		int64_t below = 0;

		for (int i = 0; i < p->stages[s].n_out; i++)
			below = larger(below, p->stages[orr_stage_after(p, s, i)].depth);
		p->stages[s].depth = (int)below + 1;
		p->depth = (int)larger(p->depth, below + 1);
	}
}

/* Which stages have which gradients, from the sinks up and from the sources down. */
static int find_gradients(struct orr_pipeline *p, struct orr_error *err)
{
	for (int s = p->n_stages - 1; s >= 0; s--) {
		struct orr_stage *stage = &p->stages[s];
		bool reached = !stage->n_out || stage->has_loss; /* by a gradient */

		for (int i = 0; i < stage->n_out; i++) {
			struct orr_edge *edge = &p->edges[stage->out[i]];
			const struct orr_stage *to = &p->stages[edge->to];

			/* for now: does a gradient arrive at its other end? */
			edge->detached = edge->detached || !to->has_input_gradient;
			reached = reached || !edge->detached;
		}
		if (!reached && !stage->frozen)
			return orr_fail(err, ORR_E_INPUT,
					"stage %d is trained, and no gradient reaches it, since "
					"all that reads it says gradient=false: make it "
					"frozen=true, or let a gradient through",
					s);
		stage->has_input_gradient = reached;
	}
	for (int s = 0; s < p->n_stages; s++) {
		struct orr_stage *stage = &p->stages[s];
		bool above = !stage->n_in && !stage->frozen;

		for (int i = 0; i < stage->n_in; i++)
			above = above || !p->edges[stage->in[i]].detached;
		stage->has_input_gradient = stage->has_input_gradient && above;
		stage->has_weight_gradient = !stage->frozen;
		if (stage->frozen)
			stage->update_ns = 0;
		if (stage->frozen && !stage->has_input_gradient)
			stage->backward_ns = stage->weight_ns = stage->stash_bytes = 0;
		for (int i = 0; i < stage->n_out; i++) {
			struct orr_edge *edge = &p->edges[stage->out[i]];

			edge->detached = edge->detached ||
					 !(stage->has_input_gradient || stage->has_weight_gradient);
		}
	}
	for (int e = 0; e < p->n_edges; e++) {
		struct orr_edge *edge = &p->edges[e];

		if (edge->detached || edge->gradient_bytes == ORR_NO_BYTES)
			edge->gradient_bytes = 0;
		else if (!edge->gradient_bytes)
			edge->gradient_bytes = edge->bytes;
	}
	return 0;
}

/* Copies of the sets of workers, after the numbers of the edges, and the stages that others are
 * with: none of those is with another one itself. */
static int take_gangs(struct orr_pipeline *p, struct orr_error *err)
{
	int *next = p->numbers + 2 * p->n_edges;

	for (int s = 0; s < p->n_stages; s++) {
		struct orr_gang *gang = &p->stages[s].gang;
		int n = gang->workers ? gang->n : 0, other = gang->with;

		for (int i = 0; i < n; i++)
			for (int k = 0; k < i; k++)
				if (gang->workers[i] == gang->workers[k])
					return orr_fail(err, ORR_E_INPUT,
							"stage %d: gang= names worker %d twice: "
							"name each once",
							s, gang->workers[i]);
		if (n && other)
			return orr_fail(err, ORR_E_INPUT,
					"stage %d: gang= names its workers, and with= those of "
					"stage %d: give one of them",
					s, other - 1);
		if (n)
			gang->workers = memcpy(next, gang->workers, (size_t)n * sizeof(*next));
		next += n;
		for (int i = 0; other && p->stages[other - 1].gang.with; i++) {
			other = p->stages[other - 1].gang.with;
			if (i > p->n_stages || other == s + 1)
				return orr_fail(err, ORR_E_INPUT,
						"stage %d: with= comes round to itself: leave it "
						"out of one of the stages",
						s);
		}
		gang->with = other;
	}
	return 0;
}

static int check_edges(const struct orr_edge *edges, int n_edges, int n_stages,
		       struct orr_error *err)
{
	for (int e = 0; e < n_edges; e++)
		if (edges[e].from < 0 || edges[e].from >= edges[e].to || edges[e].to >= n_stages)
			return orr_fail(err, ORR_E_INPUT,
					"pipeline: edge from stage %d to stage %d: number the %d "
					"stages so that every edge goes to a larger one",
					edges[e].from, edges[e].to, n_stages);
	return 0;
}

int orr_pipeline_create(struct orr_pipeline **out, const struct orr_stage *stages, int n_stages,
			const struct orr_edge *edges, int n_edges, struct orr_error *err)
{
	struct orr_pipeline *p = NULL;
	size_t n_numbers = 2 * (size_t)n_edges + 1;
	int code;

	if (n_stages < 1)
		return orr_fail(err, ORR_E_INPUT,
				"pipeline: no stages; a model needs one at least");
	if ((code = check_edges(edges, n_edges, n_stages, err)))
		return code;
	for (int s = 0; s < n_stages; s++)
		n_numbers += stages[s].gang.workers ? (size_t)stages[s].gang.n : 0;
	p = calloc(1, sizeof(*p));
	if (!p || !(p->stages = calloc((size_t)n_stages, sizeof(*p->stages))) ||
	    !(p->edges = calloc((size_t)n_edges + 1, sizeof(*p->edges))) ||
	    !(p->numbers = calloc(n_numbers, sizeof(*p->numbers)))) {
		code = orr_no_memory(err, "pipeline");
		goto out;
	}
	p->n_stages = n_stages;
	p->n_edges = n_edges;
	p->prefetch = 2;
	p->machine = orr_machine_default(0);
	p->accumulate = 1;
	p->buckets = 1;
	p->replicas = p->alike = 1;
	memcpy(p->stages, stages, (size_t)n_stages * sizeof(*stages));
	if (n_edges)
		memcpy(p->edges, edges, (size_t)n_edges * sizeof(*edges));
	qsort(p->edges, (size_t)n_edges, sizeof(*p->edges), orr_ends_compare);
	for (int s = 0; s < n_stages; s++) {
		p->stages[s].n_in = p->stages[s].n_out = 0;
		p->stages[s].n_read = p->stages[s].n_sent = 0;
		p->has_weight = p->has_weight || p->stages[s].weight_ns > 0;
	}
	for (int e = 0; e < n_edges; e++) {
		p->stages[p->edges[e].from].n_out++;
		p->stages[p->edges[e].to].n_in++;
	}
	connect(p);
	measure_depth(p);
	if ((code = take_gangs(p, err)) || (code = find_gradients(p, err)))
		goto out;
	*out = p;
	p = NULL;
out:
	orr_pipeline_destroy(p);
	return code;
}

void orr_pipeline_free_microbatches(struct orr_microbatches *x)
{
	if (!x)
		return;
	free(x->costs);
	free(x);
}

void orr_pipeline_free_split(struct orr_split *split)
{
	if (!split)
		return;
	orr_pipeline_destroy(split->whole);
	free(split->stage);
	free(split->exchange_ns);
	free(split);
}

void orr_pipeline_destroy(struct orr_pipeline *p)
{
	if (!p)
		return;
	free(p->stages);
	free(p->edges);
	free(p->numbers);
	free(p->tied);
	free(p->outputs);
	free(p->stage_of);
	orr_pipeline_free_microbatches(p->microbatches);
	orr_pipeline_free_split(p->split);
	free(p);
}

static int check_gangs(const struct orr_pipeline *p, int n_workers, struct orr_error *err)
{
	for (int s = 0; s < p->n_stages; s++) {
		const struct orr_gang *gang = &p->stages[s].gang;
		int last = gang->n - 1;

		for (int i = 0; gang->workers && i < gang->n; i++)
			last = i && gang->workers[i] < last ? last : gang->workers[i];
		if (last >= n_workers)
			return orr_fail(err, ORR_E_INPUT,
					"stage %d: gang= needs %d workers, and there are %d: set "
					"[workers] %d, or change gang=",
					s, last + 1, n_workers, last + 1);
	}
	return 0;
}

int orr_pipeline_widest(const struct orr_pipeline *p)
{
	int widest = 1;

	for (int S = 0; p->split && S < p->split->whole->n_stages; S++)
		widest = (int)larger(widest, p->split->width[S]);
	return widest;
}

int orr_pipeline_wants(const struct orr_pipeline *p)
{
	int sum = 0;

	for (int S = 0; p->split && S < p->split->whole->n_stages; S++)
		sum += p->split->width[S];
	return p->split ? sum : p->n_stages;
}

/* The groups are set when a schedule is evaluated; until then as if all were as wide. */
static int set_groups(struct orr_pipeline *p, int n_workers, int n_microbatches,
		      struct orr_error *err)
{
	struct orr_pipeline *whole = p->split ? p->split->whole : NULL;
	int widest = orr_pipeline_widest(p);

	if (!whole)
		return 0;
	if (n_workers < widest)
		return orr_fail(err, ORR_E_INPUT,
				"%d worker%s, and a stage is split among %d: set [workers] %d or "
				"more, or split it less (split=)",
				n_workers, n_workers == 1 ? "" : "s", widest, widest);
	whole->n_workers = whole->machine.n_workers = n_workers / widest;
	whole->n_microbatches = n_microbatches;
	return 0;
}

int orr_pipeline_set_step(struct orr_pipeline *p, int n_workers, int n_microbatches,
			  struct orr_error *err)
{
	int code;

	if (n_workers < 1)
		return orr_fail(err, ORR_E_INPUT, "%d workers: give at least 1 ([workers])",
				n_workers);
	if (p->machine.cluster && n_workers > p->machine.cluster->n_workers)
		return orr_fail(err, ORR_E_INPUT,
				"%d workers, and the machine %s has %d: take fewer ([workers])",
				n_workers, p->machine.cluster->name, p->machine.cluster->n_workers);
	if (n_microbatches < 1)
		return orr_fail(err, ORR_E_INPUT,
				"%d microbatches: give at least 1 ([microbatches])",
				n_microbatches);
	if (p->microbatches && p->microbatches->n != n_microbatches)
		return orr_fail(err, ORR_E_INPUT,
				"%d microbatches, and %d have lengths or costs of their own: leave "
				"[microbatches] out, or give as many",
				n_microbatches, p->microbatches->n);
	/* jobs are numbered in an int: F, B and W of every stage and microbatch */
	if ((int64_t)p->n_stages * n_microbatches > INT32_MAX / ORR_N_PASSES)
		return orr_fail(err, ORR_E_INPUT,
				"%d stages x %d microbatches: at most %d jobs; take fewer "
				"microbatches ([microbatches])",
				p->n_stages, n_microbatches, INT32_MAX);
	if ((code = check_gangs(p, n_workers, err)) ||
	    (code = set_groups(p, n_workers, n_microbatches, err)))
		return code;
	p->n_workers = p->machine.n_workers = n_workers;
	p->n_microbatches = n_microbatches;
	return 0;
}

void orr_pipeline_set_overhead(struct orr_pipeline *p, int64_t overhead_ns)
{
	p->overhead_ns = overhead_ns;
	for (int s = 0; s < p->n_stages; s++) {
		p->stages[s].forward_ns += overhead_ns;
		p->stages[s].backward_ns += overhead_ns;
		p->stages[s].update_ns += p->stages[s].update_ns > 0 ? overhead_ns : 0;
	}
}

struct orr_cost orr_cost_of_stage(const struct orr_stage *stage)
{
	return (struct orr_cost){stage->forward_ns,     stage->backward_ns, stage->weight_ns,
				 stage->stash_bytes,    stage->input_bytes, stage->again_bytes,
				 stage->again_all_bytes};
}

static int64_t pass_ns(const struct orr_pipeline *p, int s, struct orr_cost cost, enum orr_pass d,
		       bool split)
{
	const struct orr_stage *stage = &p->stages[s];
	int64_t weight_ns =
		p->has_weight ? cost.weight_ns : (cost.backward_ns - p->overhead_ns) / 2;
	int64_t input_ns = cost.backward_ns - (p->has_weight ? 0 : weight_ns);
	bool again = stage->recompute && d == orr_pipeline_first_backward(p, s, split);
	int64_t again_ns = again ? cost.forward_ns : 0;

	if (!orr_pipeline_has_pass(p, s, d, split))
		return 0;
	if (d == ORR_PASS_F)
		return cost.forward_ns;
	if (d == ORR_PASS_W) /* a job of its own */
		return again_ns + weight_ns + p->overhead_ns;
	if (!stage->has_input_gradient)
		input_ns = p->overhead_ns;
	return again_ns + input_ns + (split || !stage->has_weight_gradient ? 0 : weight_ns);
}

int64_t orr_pipeline_duration_ns(const struct orr_pipeline *p, int s, enum orr_pass d, bool split)
{
	return pass_ns(p, s, orr_cost_of_stage(&p->stages[s]), d, split);
}

/* Jobs that are started `starts` times: that is as long on every worker. */
static int64_t on_worker(const struct orr_pipeline *p, int w, int64_t ns, int starts)
{
	/* a cost may be given for one microbatch that is less than its start */
	int64_t start_ns = smaller(starts * p->overhead_ns, ns);

	return ns ? start_ns + orr_machine_work_ns(&p->machine, w, ns - start_ns) : 0;
}

/* Of microbatch b. Rounds repeat the microbatches of a step. */
static struct orr_cost cost_of(const struct orr_pipeline *p, int s, int b)
{
	const struct orr_microbatches *x = p->microbatches;

	return x ? x->costs[(int64_t)(b % x->n) * p->n_stages + s]
		 : orr_cost_of_stage(&p->stages[s]);
}

int64_t orr_pipeline_job_ns(const struct orr_pipeline *p, int s, int b, enum orr_pass d, int w,
			    bool split)
{
	bool again = p->stages[s].recompute && d == orr_pipeline_first_backward(p, s, split) &&
		     d != ORR_PASS_F;

	return on_worker(p, w, pass_ns(p, s, cost_of(p, s, b), d, split), 1 + again);
}

int64_t orr_pipeline_update_ns(const struct orr_pipeline *p, int s, int w)
{
	return on_worker(p, w, p->stages[s].update_ns, 1);
}

int64_t orr_pipeline_stash_bytes(const struct orr_pipeline *p, int s, int b)
{
	return cost_of(p, s, b).stash_bytes;
}

int64_t orr_pipeline_again_bytes(const struct orr_pipeline *p, int s, int b, bool split)
{
	const struct orr_cost cost = cost_of(p, s, b);

	return split ? cost.again_all_bytes : cost.again_bytes;
}

int64_t orr_pipeline_input_bytes(const struct orr_pipeline *p, int s, int b)
{
	return cost_of(p, s, b).input_bytes;
}

int64_t orr_pipeline_edge_bytes(const struct orr_pipeline *p, int e, int b, bool gradient)
{
	const struct orr_microbatches *x = p->microbatches;

	if (!x)
		return gradient ? p->edges[e].gradient_bytes : p->edges[e].bytes;
	return (gradient ? x->gradient_bytes : x->bytes)[(int64_t)(b % x->n) * p->n_edges + e];
}

int64_t orr_pipeline_output_bytes(const struct orr_pipeline *p, int number, int b)
{
	const struct orr_microbatches *x = p->microbatches;
	int i = number - p->n_edges;

	return x ? x->outputs[(int64_t)(b % x->n) * p->n_outputs + i] : p->outputs[i].bytes;
}

bool orr_pipeline_has_gangs(const struct orr_pipeline *p)
{
	for (int s = 0; s < p->n_stages; s++)
		if (p->stages[s].gang.n || p->stages[s].gang.with)
			return true;
	return false;
}

bool orr_pipeline_gathers(const struct orr_pipeline *p)
{
	for (int s = 0; s < p->n_stages; s++)
		if (p->stages[s].gather)
			return true;
	return false;
}

void orr_pipeline_settle(const struct orr_pipeline *p, int *worker, int step)
{
	for (int s = 0; s < p->n_stages; s++)
		if (p->stages[s].gang.workers)
			worker[s * step] = p->stages[s].gang.workers[0];
	for (int s = 0; s < p->n_stages; s++)
		if (p->stages[s].gang.with)
			worker[s * step] = worker[(p->stages[s].gang.with - 1) * step];
}

const struct orr_edge *orr_pipeline_edge(const struct orr_pipeline *p, int from, int to)
{
	const struct orr_stage *stage = &p->stages[from];

	int low = 0, high = stage->n_out; /* ascending by the stage at the other end */

	while (low < high) {
		int middle = (low + high) / 2;

		if (p->edges[stage->out[middle]].to < to)
			low = middle + 1;
		else
			high = middle;
	}
	return low < stage->n_out && p->edges[stage->out[low]].to == to ? &p->edges[stage->out[low]]
									: NULL;
}

static uint64_t hash_stage(uint64_t hash, const struct orr_stage *s)
{
	const int64_t numbers[] = {s->forward_ns,      s->backward_ns,  s->weight_ns,
				   s->update_ns,       s->stash_bytes,  s->input_bytes,
				   s->parameter_bytes, s->frozen_bytes, s->frozen};
	const int gang[] = {s->gang.n, s->gang.with, s->gather};

	hash = orr_hash(hash, numbers, sizeof(numbers));
	if (!s->gang.n && !s->gang.with && !s->gather)
		return hash;
	if (s->gang.workers)
		hash = orr_hash(hash, s->gang.workers, (size_t)s->gang.n * sizeof(int));
	return orr_hash(hash, gang, sizeof(gang));
}

static uint64_t hash_microbatches(uint64_t hash, const struct orr_pipeline *p,
				  const struct orr_microbatches *x)
{
	size_t n_stages = (size_t)x->n * (size_t)p->n_stages,
	       n_edges = (size_t)x->n * (size_t)p->n_edges,
	       n_outputs = (size_t)x->n * (size_t)p->n_outputs;

	hash = orr_hash(hash, x->outputs, n_outputs * sizeof(*x->outputs));
	hash = orr_hash(hash, x->costs, n_stages * sizeof(*x->costs));
	hash = orr_hash(hash, x->bytes, n_edges * sizeof(*x->bytes));
	return orr_hash(hash, x->gradient_bytes, n_edges * sizeof(*x->gradient_bytes));
}

void orr_pipeline_fingerprint(const struct orr_pipeline *p, char text[24])
{
	const int64_t size[] = {p->n_stages,   p->n_workers,   p->n_microbatches,
				p->has_weight, p->overhead_ns, p->machine.latency_ns};
	uint64_t hash = orr_hash(ORR_HASH, size, sizeof(size));

	hash = orr_hash(hash, &p->machine.bandwidth_bytes_per_s,
			sizeof(p->machine.bandwidth_bytes_per_s));
	hash = orr_machine_hash(&p->machine, hash);
	if (p->buckets > 1)
		hash = orr_hash(hash, &p->buckets, sizeof(p->buckets));
	for (int s = 0; s < p->n_stages; s++) {
		hash = hash_stage(hash, &p->stages[s]);
		if (p->stages[s].park)
			hash = orr_hash(hash, &p->stages[s].park, sizeof(p->stages[s].park));
	}
	for (int e = 0; e < p->n_edges; e++) {
		const int64_t numbers[] = {p->edges[e].from, p->edges[e].to, p->edges[e].bytes,
					   p->edges[e].gradient_bytes, p->edges[e].detached};

		hash = orr_hash(hash, numbers, sizeof(numbers));
	}
	for (int i = 0; i < p->n_outputs; i++) {
		const int64_t numbers[] = {p->outputs[i].from, p->outputs[i].bytes};

		hash = orr_hash(hash, numbers, sizeof(numbers));
		hash = orr_hash(hash, p->outputs[i].readers,
				(size_t)p->outputs[i].n_readers * sizeof(int));
	}
	for (int t = 0; t < p->n_tied; t++) {
		const int64_t numbers[] = {p->tied[t].bytes, p->tied[t].frozen};

		hash = orr_hash(hash, numbers, sizeof(numbers));
		hash = orr_hash(hash, p->tied[t].stages,
				(size_t)p->tied[t].n_stages * sizeof(*p->tied[t].stages));
	}
	if (p->microbatches)
		hash = hash_microbatches(hash, p, p->microbatches);
	orr_hash_print(text, hash);
}
