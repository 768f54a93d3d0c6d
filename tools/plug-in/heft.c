/* HEFT [Topcuoglu02] for stages. By upward rank, the longest path from there to the end of a
 * microbatch, each goes to the worker that would finish it first. The rank is the priority as well:
 * in greedy order a free worker takes, of its jobs that are ready, the one of the highest rank. */
#include <stdlib.h>
#include <orrery/schedule.h>

/* As under 1F1B. Without a cap all forwards would run first, for their ranks are higher. */
static int in_flight(const struct orr_pipeline *p, int s, const void *data)
{
	(void)data;
	return p->stages[s].depth;
}

/* The end of pass d of stage s on worker w, which starts after `start` and after ns[2 t] of each
 * stage t over n edges, with its transfer: from worker 0 where t has none yet. */
static int64_t end_ns(const struct orr_pipeline *p, int s, enum orr_pass d, int64_t start, int n,
		      const int *edges, const int64_t *ns, const int *worker, int w)
{
	for (int i = 0; i < n; i++) {
		const struct orr_edge *edge = &p->edges[edges[i]];
		int t = edge->from + edge->to - s, from = worker[2 * t] < 0 ? 0 : worker[2 * t];
		int64_t ready =
			ns[2 * t] + orr_machine_transfer_ns(&p->machine, from, w, edge->bytes);

		start = ready > start ? ready : start;
	}
	return start + orr_pipeline_duration_ns(p, s, d, false);
}

/* Microbatch 0 has the first jobs: F of stage s is job 2 s, B is 2 s + 1. */
static int place(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
		 struct orr_error *err)
{
	int S = p->n_stages, W = p->n_workers, *worker = out->worker;
	int64_t n_jobs = 2 * S * p->n_microbatches, *F = out->n, *B = F + 1;
	int64_t *load = calloc((size_t)(W + 2 * S), sizeof(*load)), *end = load + W;
	const struct orr_stage *at = p->stages;

	(void)data;
	if (!load)
		return orr_fail(err, ORR_E_NOMEM, "heft: no memory for %d stages", S);
	for (int s = 0; s < S; s++)
		B[2 * s] = end_ns(p, s, ORR_PASS_B, 0, at[s].n_in, at[s].in, B, worker, W - 1);
	for (int s = S - 1; s >= 0; s--)
		F[2 * s] = end_ns(p, s, ORR_PASS_F, B[2 * s], at[s].n_out, at[s].out, F, worker,
				  W - 1);
	for (int i = 0, s = -1; i < S; i++, s = -1) {
		int64_t best = INT64_MAX, ns;

		for (int t = 0; t < S; t++)
			s = worker[2 * t] < 0 && (s < 0 || F[2 * t] > F[2 * s]) ? t : s;
		for (int w = 0; w < W; w++) {
			ns = end_ns(p, s, ORR_PASS_F, 0, at[s].n_in, at[s].in, end, worker, w);
			if (ns + load[w] >= best)
				continue;
			best = ns + load[w];
			end[2 * s] = ns;
			worker[2 * s] = w;
		}
		load[worker[2 * s]] += p->n_microbatches *
				       (at[s].forward_ns + at[s].backward_ns + at[s].weight_ns);
	}
	for (int64_t j = n_jobs - 1; j >= 0; j--) {
		worker[j] = worker[j % (2 * S) / 2 * 2];
		out->n[j] = j - out->n[j % (2 * S)] * n_jobs;
	}
	free(load);
	return 0;
}

static const struct orr_schedule heft = {
	.name = "heft",
	.summary = "list scheduling by upward rank, one worker a stage",
	.order = ORR_ORDER_GREEDY,
	.place = place,
	.in_flight = in_flight,
};
ORR_PLUGIN(heft);
