#include "scores.h"

#include <math.h>
#include "orrery/graph.h"

void orr_scoring_init(struct orr_scoring *x, const struct orr_work *work)
{
	size_t n = (size_t)work->n_losses + 1;

	*x = (struct orr_scoring){.work = work};
	orr_arrays_make(work->arrays, x->sums, n);
	orr_arrays_make(work->arrays, x->losses, n);
}

static double share(double n, double of)
{
	return of > 0 ? n / of : NAN;
}

struct orr_scores orr_scores_of(struct orr_scoring *x, int64_t n)
{
	const struct orr_work *work = x->work;
	struct orr_scores scores = {.n_losses = work->n_losses, .losses = x->losses};
	double correct = 0, classified = 0, placed = 0, chosen = 0;

	for (int l = 0; l < work->n_losses; l++) {
		const struct orr_metrics *sum = &x->sums[l];
		const struct orr_operator *o = &work->pipeline->graph->operators[work->losses[l]];
		double weight = orr_operator_factor(o),
		       right = share(sum->correct, sum->classified);
		bool drops = o->instance->op->drops;

		x->losses[l] = (struct orr_loss){
			.index = orr_graph_origin(work->pipeline->graph, work->losses[l]),
			.weight = weight,
			.loss = n ? sum->loss / (double)n : NAN,
			.accuracy = drops ? NAN : right,
			.dropped = drops ? 1 - right : NAN};
		scores.loss += weight * sum->loss;
		correct += drops ? 0 : sum->correct;
		classified += drops ? 0 : sum->classified;
		placed += drops ? sum->correct : 0;
		chosen += drops ? sum->classified : 0;
	}
	scores.loss = n ? scores.loss / (double)n : NAN;
	scores.accuracy = share(correct, classified);
	scores.dropped = 1 - share(placed, chosen);
	return scores;
}

struct orr_scores orr_scores_of_slot(struct orr_scoring *x, const struct orr_slot *slot, int first,
				     int end, int64_t n)
{
	for (int l = 0; l < x->work->n_losses; l++) {
		struct orr_metrics sum = {0};

		for (int b = first; b < end; b++)
			orr_metrics_add(&sum, &slot->metrics[orr_work_loss_at(x->work, l, b)]);
		x->sums[l] = x->work->rank ? (struct orr_metrics){NAN, NAN, NAN} : sum;
	}
	return orr_scores_of(x, n);
}
