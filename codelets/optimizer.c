#include "optimizer.h"

#include <math.h>
#include <stdbool.h>

#include "kernels.h"

/* Where the gradient comes from, see orr_rule_step. */
struct source {
	const float *const *blocks;
	int n;
	bool summed; /* blocks are chunks of the sum */
};

/* Element i, which is in chunk c. */
static inline float gradient_at(const struct source *from, int c, int64_t i, int64_t begin)
{
	float sum;

	if (from->summed)
		return from->blocks[c][i - begin];
	sum = from->blocks[(c + 1) % from->n][i];
	for (int k = c + 2; k <= c + from->n; k++)
		sum += from->blocks[k % from->n][i];
	return sum;
}

/* Times 1 changes no bit. */
static float share(const struct orr_rule *rule)
{
	return rule->n_averaged > 1 ? 1.0f / (float)rule->n_averaged : 1.0f;
}

struct orr_sgd orr_rule_sgd(const struct orr_rule *rule)
{
	return (struct orr_sgd){share(rule), (float)rule->learning_rate, (float)rule->momentum,
				(float)rule->weight_decay};
}

struct orr_adam orr_rule_adam(const struct orr_rule *rule, int64_t step)
{
	bool decoupled = rule->optimizer == ORR_OPTIMIZER_ADAMW;

	return (struct orr_adam){
		.share = share(rule),
		.beta1 = (float)rule->beta1,
		.rest1 = (float)(1.0 - rule->beta1),
		.beta2 = (float)rule->beta2,
		.rest2 = (float)(1.0 - rule->beta2),
		.rate = (float)(rule->learning_rate / (1.0 - pow(rule->beta1, (double)step))),
		.correction = (float)(1.0 / sqrt(1.0 - pow(rule->beta2, (double)step))),
		.epsilon = (float)rule->epsilon,
		.decay = decoupled ? 0.0f : (float)rule->weight_decay,
		.shrink = decoupled ? (float)(rule->learning_rate * rule->weight_decay) : 0.0f,
	};
}

static void step_sgd(const struct orr_rule *rule, int64_t n, float *parameters,
		     const struct source *from)
{
	const struct orr_sgd sgd = orr_rule_sgd(rule);

	for (int c = 0; c < from->n; c++) {
		int64_t begin = orr_rule_chunk(n, from->n, c);
		int64_t end = orr_rule_chunk(n, from->n, c + 1);

		for (int64_t i = begin; i < end; i++)
			orr_sgd_element(&sgd, gradient_at(from, c, i, begin), &parameters[i]);
	}
}

static void step_momentum(const struct orr_rule *rule, int64_t n, float *parameters,
			  float *velocity, const struct source *from)
{
	const struct orr_sgd sgd = orr_rule_sgd(rule);

	for (int c = 0; c < from->n; c++) {
		int64_t begin = orr_rule_chunk(n, from->n, c);
		int64_t end = orr_rule_chunk(n, from->n, c + 1);

		for (int64_t i = begin; i < end; i++)
			orr_momentum_element(&sgd, gradient_at(from, c, i, begin), &parameters[i],
					     &velocity[i]);
	}
}

static void step_adam(const struct orr_rule *rule, int64_t step, int64_t n, float *parameters,
		      float *state, const struct source *from)
{
	const struct orr_adam adam = orr_rule_adam(rule, step);

	for (int c = 0; c < from->n; c++) {
		int64_t begin = orr_rule_chunk(n, from->n, c);
		int64_t end = orr_rule_chunk(n, from->n, c + 1);

		for (int64_t i = begin; i < end; i++)
			orr_adam_element(&adam, gradient_at(from, c, i, begin), &parameters[i],
					 &state[i], &state[n + i]);
	}
}

static void step_from(const struct orr_rule *rule, int64_t step, int64_t n, float *parameters,
		      float *state, const struct source *from)
{
	switch (rule->optimizer) {
	case ORR_OPTIMIZER_ADAMW:
	case ORR_OPTIMIZER_ADAM:
		step_adam(rule, step, n, parameters, state, from);
		break;
	case ORR_OPTIMIZER_MOMENTUM:
		step_momentum(rule, n, parameters, state, from);
		break;
	case ORR_OPTIMIZER_SGD:
		step_sgd(rule, n, parameters, from);
		break;
	case ORR_OPTIMIZER_NONE:
		break;
	}
}

void orr_rule_step(const struct orr_rule *rule, int64_t step, int64_t n, float *parameters,
		   float *state, const float *const *gradients, int n_gradients)
{
	struct source from = {gradients, n_gradients, n_gradients == 1};

	step_from(rule, step, n, parameters, state, &from);
}

void orr_rule_step_chunks(const struct orr_rule *rule, int64_t step, int64_t n, float *parameters,
			  float *state, const float *const *chunks, int n_chunks)
{
	struct source from = {chunks, n_chunks, true};

	step_from(rule, step, n, parameters, state, &from);
}
