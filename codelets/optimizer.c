#include "optimizer.h"

#include <math.h>
#include <stdbool.h>

#include "kernels.h"
#include "loops.h"
#include "vector.h"

/* Where the gradient comes from. */
struct source {
	const float *const *blocks;
	int n;
	bool summed; /* blocks are chunks of the sum */
};

/* Elements whose gradients are added up at a time: they stay in the cache. */
#define PART 1024

/* Gradients of n elements from i on, which are in chunk c, as one array; part has room for them. */
ORR_VECTOR static const float *gather(const struct source *from, int c, int64_t i, int64_t begin,
				      int64_t n, float *part)
{
	const float *first, *second;

	if (from->summed)
		return from->blocks[c] + (i - begin);
	first = from->blocks[(c + 1) % from->n] + i;
	second = from->blocks[(c + 2) % from->n] + i;
	for (int64_t k = 0; k < n; k++)
		part[k] = first[k] + second[k];
	for (int b = c + 3; b <= c + from->n; b++)
		orr_add(n, from->blocks[b % from->n] + i, part);
	return part;
}

/* Times 1 changes no bit. */
static float share(const struct orr_rule *rule)
{
	float share = rule->n_averaged > 1 ? 1.0f / (float)rule->n_averaged : 1.0f;

	return rule->scale > 0 ? (float)rule->scale * share : share;
}

struct orr_sgd orr_rule_sgd(const struct orr_rule *rule)
{
	return (struct orr_sgd){share(rule), (float)rule->learning_rate, (float)rule->momentum,
				(float)rule->weight_decay};
}

/* p -= momentum * (p - mean) */
struct orr_sgd orr_rule_average(const struct orr_rule *rule, double momentum)
{
	struct orr_rule plain = {.n_averaged = rule->n_averaged};

	return (struct orr_sgd){-share(&plain), (float)momentum, 0.0f, 1.0f};
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

ORR_VECTOR static void sgd(const struct orr_sgd *r, int64_t n, const float *restrict gradient,
			   float *restrict p)
{
	for (int64_t i = 0; i < n; i++)
		orr_sgd_element(r, gradient[i], &p[i]);
}

ORR_VECTOR static void momentum(const struct orr_sgd *r, int64_t n, const float *restrict gradient,
				float *restrict p, float *restrict velocity)
{
	for (int64_t i = 0; i < n; i++)
		orr_momentum_element(r, gradient[i], &p[i], &velocity[i]);
}

ORR_VECTOR static void adam(const struct orr_adam *r, int64_t n, const float *restrict gradient,
			    float *restrict p, float *restrict first, float *restrict second)
{
	for (int64_t i = 0; i < n; i++)
		orr_adam_element(r, gradient[i], &p[i], &first[i], &second[i]);
}

/* What a step has beside its gradients: parameters, and the state of a part of them. */
struct block {
	const struct orr_rule *rule;
	struct orr_sgd sgd;
	struct orr_adam adam;
	struct orr_extent part;
	float *parameters, *state;
};

static void step_part(const struct block *b, int64_t i, int64_t n, const float *gradient)
{
	float *p = b->parameters + i, *state = b->state + (i - b->part.first);

	switch (b->rule->optimizer) {
	case ORR_OPTIMIZER_ADAMW:
	case ORR_OPTIMIZER_ADAM:
		adam(&b->adam, n, gradient, p, state, state + (b->part.end - b->part.first));
		break;
	case ORR_OPTIMIZER_MOMENTUM:
		momentum(&b->sgd, n, gradient, p, state);
		break;
	case ORR_OPTIMIZER_SGD:
		sgd(&b->sgd, n, gradient, p);
		break;
	case ORR_OPTIMIZER_NONE:
		break;
	}
}

static void step(struct orr_device *d, const struct orr_rule *rule, int64_t number, int64_t n,
		 float *parameters, float *state, const float *const *blocks, int n_blocks,
		 bool summed)
{
	const struct source from = {blocks, n_blocks, summed || n_blocks == 1};
	struct orr_rule bare = *rule;
	struct block block = {rule,
			      orr_rule_sgd(rule),
			      orr_rule_adam(rule, number),
			      orr_rule_part(rule, n),
			      parameters,
			      state},
		     spared = block;
	float part[PART];

	bare.weight_decay = 0;
	spared.sgd = orr_rule_sgd(&bare);
	spared.adam = orr_rule_adam(&bare, number);
	for (int c = 0; c < from.n; c++) {
		int64_t begin = orr_rule_chunk(n, from.n, c), next;
		int64_t end = orr_rule_chunk(n, from.n, c + 1);
		int64_t first = begin > block.part.first ? begin : block.part.first;

		end = end < block.part.end ? end : block.part.end;
		for (int64_t i = first; i < end; i = next) {
			const struct orr_exempt *exempt;
			const float *gradient;
			struct orr_sgd average;

			next = orr_rule_border(rule, i, i + PART < end ? i + PART : end, &exempt);
			gradient = gather(&from, c, i, begin, next - i, part);
			if (!exempt || exempt->momentum <= 0) {
				step_part(exempt ? &spared : &block, i, next - i, gradient);
				continue;
			}
			average = orr_rule_average(rule, exempt->momentum);
			sgd(&average, next - i, gradient, parameters + i);
		}
	}
}

/* ---- the norm of a gradient ---- */

/* Squares of n elements, the first of which is number `at` of its tensor. */
ORR_VECTOR static void add_squares(int64_t at, int64_t n, const float *restrict x,
				   double *restrict lanes)
{
	int64_t i = 0;

	for (; i < n && (at + i) % ORR_LANES; i++)
		lanes[(at + i) % ORR_LANES] += (double)x[i] * (double)x[i];
	for (; i + ORR_LANES <= n; i += ORR_LANES)
		for (int k = 0; k < ORR_LANES; k++)
			lanes[k] += (double)x[i + k] * (double)x[i + k];
	for (; i < n; i++)
		lanes[(at + i) % ORR_LANES] += (double)x[i] * (double)x[i];
}

/* Their sum; they are zero afterwards. */
static double sum_lanes(double *lanes)
{
	double sum = 0;

	for (int k = 0; k < ORR_LANES; k++) {
		sum += lanes[k];
		lanes[k] = 0;
	}
	return sum;
}

static void squares(struct orr_device *d, int64_t n, const float *const *blocks, int n_blocks,
		    bool summed, const struct orr_extent *tensors, int n_tensors, double *sums)
{
	const struct source from = {blocks, n_blocks, summed || n_blocks == 1};
	double lanes[ORR_LANES] = {0};
	float part[PART];
	int t = 0;

	for (int c = 0; c < n_blocks; c++) {
		int64_t begin = orr_rule_chunk(n, n_blocks, c);
		int64_t end = orr_rule_chunk(n, n_blocks, c + 1), next;

		for (int64_t i = begin; i < end; i = next) {
			const float *x;

			next = end - i < PART ? end : i + PART;
			x = gather(&from, c, i, begin, next - i, part);
			for (; t < n_tensors && tensors[t].first < next; t++) {
				const struct orr_extent *e = &tensors[t];
				int64_t at = e->first > i ? e->first : i;

				add_squares(at - e->first, (e->end < next ? e->end : next) - at,
					    x + (at - i), lanes);
				if (e->end > next)
					break;
				sums[t] = sum_lanes(lanes);
			}
		}
	}
}

const struct orr_optimizer_kernels orr_optimizer_cpu = {ORR_OPTIMIZER_KERNELS(ORR_KERNEL)};
