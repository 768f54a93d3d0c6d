#include "scores.h"

#include <math.h>
#include <stdlib.h>

#include "orrery/graph.h"

int orr_scoring_init(struct orr_scoring *x, const struct orr_work *work, struct orr_error *err)
{
	size_t n = (size_t)work->n_losses + 1;

	*x = (struct orr_scoring){.work = work};
	x->sums = calloc(n, sizeof(*x->sums));
	x->losses = calloc(n, sizeof(*x->losses));
	return x->sums && x->losses
		       ? 0
		       : orr_fail(err, ORR_E_NOMEM, "run: no memory for %d losses", work->n_losses);
}

void orr_scoring_fini(struct orr_scoring *x)
{
	free(x->sums);
	free(x->losses);
}

struct orr_scores orr_scores_of(struct orr_scoring *x, int64_t n)
{
	const struct orr_work *work = x->work;
	struct orr_scores scores = {.n_losses = work->n_losses, .losses = x->losses};
	double correct = 0, classified = 0;

	for (int l = 0; l < work->n_losses; l++) {
		const struct orr_sums *sum = &x->sums[l];
		double weight =
			orr_operator_factor(&work->pipeline->graph->operators[work->losses[l]]);

		x->losses[l] = (struct orr_loss){
			.index = orr_graph_origin(work->pipeline->graph, work->losses[l]),
			.weight = weight,
			.loss = n ? sum->loss / (double)n : NAN,
			.accuracy = sum->classified > 0 ? sum->correct / sum->classified : NAN};
		scores.loss += weight * sum->loss;
		correct += sum->correct;
		classified += sum->classified;
	}
	scores.loss = n ? scores.loss / (double)n : NAN;
	scores.accuracy = classified > 0 ? correct / classified : NAN;
	return scores;
}

struct orr_scores orr_scores_of_slot(struct orr_scoring *x, const struct orr_slot *slot, int first,
				     int end, int64_t n)
{
	for (int l = 0; l < x->work->n_losses; l++) {
		struct orr_sums sum = {0};

		for (int b = first; b < end; b++) {
			const struct orr_metrics *m =
				&slot->metrics[orr_work_loss_at(x->work, l, b)];

			sum.loss += m->loss;
			sum.correct += (double)m->correct;
			sum.classified += (double)m->classified;
		}
		x->sums[l] = x->work->rank ? (struct orr_sums){NAN, NAN, NAN} : sum;
	}
	return orr_scores_of(x, n);
}
