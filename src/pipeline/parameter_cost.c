#include "parameter_cost.h"

#include "base/json.h"
#include "base/quantity.h"

struct orr_parameter_cost orr_parameter_cost(const struct orr_numerics *numerics)
{
	struct orr_parameter_cost cost = {
		.weights = sizeof(float),
		.gradient = sizeof(float),
		.optimizer = orr_optimizer_floats(numerics->optimizer) * (int)sizeof(float),
		.rounded = numerics->precision == ORR_PRECISION_BF16 ? (int)sizeof(uint16_t) : 0,
	};

	cost.all = cost.weights + cost.gradient + cost.optimizer + cost.rounded;
	return cost;
}

/* weight_bytes times bytes / 4, rounded up: sizes of studies need not be multiples of 4. */
static int64_t scale(int64_t weight_bytes, int bytes)
{
	return weight_bytes / 4 * bytes + (weight_bytes % 4 * bytes + 3) / 4;
}

/* As orr_rule_chunk divides floats, the last of which may be a part of one in a study. */
int64_t orr_parameters_part(const struct orr_numerics *numerics, int64_t n, int n_replicas, int i)
{
	int64_t floats = n / 4 + (n % 4 > 0), share;

	if (!numerics->shard_optimizer || n_replicas < 2)
		return n;
	share = 4 * (floats / n_replicas + (i < floats % n_replicas));
	return share < n ? share : n;
}

int64_t orr_parameters_owned(const struct orr_numerics *numerics, int64_t weight_bytes,
			     int64_t trained_bytes, int64_t state_bytes)
{
	const struct orr_parameter_cost cost = orr_parameter_cost(numerics);

	return scale(weight_bytes, cost.weights) +
	       (state_bytes == trained_bytes
			? scale(trained_bytes, cost.gradient + cost.optimizer)
			: scale(trained_bytes, cost.gradient) + scale(state_bytes, cost.optimizer));
}

int64_t orr_parameters_rounded(const struct orr_numerics *numerics, int64_t weight_bytes)
{
	return scale(weight_bytes, orr_parameter_cost(numerics).rounded);
}

int64_t orr_parameters_kept(const struct orr_numerics *numerics, int64_t weight_bytes,
			    int64_t trained_bytes, int n_replicas)
{
	return orr_parameters_owned(numerics, weight_bytes, trained_bytes,
				    orr_parameters_part(numerics, trained_bytes, n_replicas, 0)) +
	       orr_parameters_rounded(numerics, weight_bytes) +
	       (n_replicas > 1 ? trained_bytes : 0);
}

const char *orr_parameter_cost_text(const struct orr_numerics *numerics)
{
	const struct orr_parameter_cost cost = orr_parameter_cost(numerics);

	return orr_text("%d B a parameter: %d weights, %d gradient, %d %s%s%s", cost.all,
			cost.weights, cost.gradient, cost.optimizer,
			orr_optimizer_name(numerics->optimizer),
			numerics->shard_optimizer ? " among replicas" : "",
			cost.rounded ? orr_text(", %d rounded to %s", cost.rounded,
						orr_precision_name(numerics->precision))
				     : "");
}

void orr_parameter_cost_json(json_t **report, const struct orr_numerics *numerics)
{
	const struct orr_parameter_cost cost = orr_parameter_cost(numerics);

	if (numerics->shard_optimizer)
		orr_json_set(report, "shard_optimizer", json_true());
	orr_json_set(report, "optimizer", json_string(orr_optimizer_name(numerics->optimizer)));
	orr_json_set(report, "precision", json_string(orr_precision_name(numerics->precision)));
	orr_json_set(report, "bytes_per_parameter",
		     json_pack("{s:i, s:i, s:i, s:i, s:i}", "weights", cost.weights, "gradient",
			       cost.gradient, "optimizer", cost.optimizer, "rounded", cost.rounded,
			       "all", cost.all));
}
