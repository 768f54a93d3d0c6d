/* The first values of parameters, drawn by all cores: a value depends on the seed and its place
 * alone, so no number of threads changes a bit. */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>

#include "base/mix.h"
#include "program.h"
#include "program_layout.h"

enum { MOST_THREADS = 64 };

/* Of a value. */
static const int64_t draws[] = {
	[ORR_INITIAL_CONSTANT] = 0, [ORR_INITIAL_UNIFORM] = 1, [ORR_INITIAL_NORMAL] = 2};

static uint64_t draw(uint64_t *state)
{
	*state += ORR_MIX_STEP;
	return orr_mix(*state);
}

/* In [0, 1). */
static float draw_unit(uint64_t *state)
{
	return (float)(draw(state) >> 40) * 0x1p-24f;
}

/* By Box and Muller, a pair of draws each. */
static float draw_normal(uint64_t *state)
{
	double radius = sqrt(-2.0 * log(1.0 - (double)draw_unit(state)));

	return (float)(radius * cos(2.0 * M_PI * (double)draw_unit(state)));
}

/* The state of this number of draws later. */
static uint64_t skip(uint64_t state, int64_t n)
{
	return state + (uint64_t)n * ORR_MIX_STEP;
}

static float draw_value(const struct orr_parameter_tensor *tensor, uint64_t *state)
{
	float value = (float)tensor->value;

	switch (tensor->initial) {
	case ORR_INITIAL_UNIFORM:
		return (2.0f * draw_unit(state) - 1.0f) * value;
	case ORR_INITIAL_NORMAL:
		return draw_normal(state) * value;
	case ORR_INITIAL_CONSTANT:
		break;
	}
	return value;
}

/* A thread's share of each tensor: any value can be drawn without those before it. */
struct share {
	pthread_t thread;
	const struct orr_program *program;
	uint64_t seed;
	float *parameters;
	int of, n; /* share `of` of n */
};

/* Of a whole tensor, from state on, the share of the part that `own` is. */
static void draw_part(const struct share *share, const struct orr_parameter_tensor *whole,
		      const struct orr_parameter_tensor *own, uint64_t state, float *values)
{
	struct orr_pieces pieces = orr_portion_pieces(&own->portion, own->n_dims, own->dims);
	int64_t first = pieces.floats * share->of / share->n;
	int64_t end = pieces.floats * (share->of + 1) / share->n;

	for (int64_t k = 0; k < pieces.n; k++, values += pieces.floats) {
		int64_t place = pieces.first + k * pieces.apart + first;
		uint64_t at = skip(state, draws[whole->initial] * place);

		for (int64_t i = first; i < end; i++)
			values[i] = draw_value(whole, &at);
	}
}

static void *draw_share(void *closure)
{
	const struct share *share = closure;
	const struct orr_program *p = share->program;

	for (int k = 0; k < p->n_layers; k++) {
		const struct orr_layer *layer = &p->layers[k];
		int64_t end = layer->first_parameter + layer->n_parameters;
		int64_t rest = orr_layer_end(layer, p->n_parameters) - end;
		uint64_t state = share->seed;

		if (!share->of && rest)
			memset(share->parameters + end, 0, (size_t)rest * sizeof(float));
		/* mixed twice: seed 1 of operator 2 is not seed 2 of operator 1 */
		state = draw(&state) + (uint64_t)layer->drawn;
		state = draw(&state);
		for (int j = 0; j < layer->n_drawn; j++) {
			const struct orr_parameter_tensor *whole = &layer->drawn_tensors[j];
			struct orr_parameter_place own;
			int i = layer->part_of[j];

			if (i >= 0 && orr_program_parameter(p, layer->number, i, &own))
				draw_part(share, whole, &layer->is.parameters[i], state,
					  share->parameters + own.first);
			state = skip(state, draws[whole->initial] * orr_parameter_floats(whole));
		}
	}
	return NULL;
}

/* As many as there are cores for, each with enough to do. */
static int count_threads(int64_t floats)
{
	enum { ENOUGH = 1 << 16 };
	cpu_set_t cores;
	int64_t n = sched_getaffinity(0, sizeof(cores), &cores) ? 1 : CPU_COUNT(&cores);

	if (n > MOST_THREADS)
		n = MOST_THREADS;
	return (int)(n <= floats / ENOUGH ? n : floats / ENOUGH + 1);
}

void orr_program_init(const struct orr_program *p, uint64_t seed, float *parameters)
{
	struct share shares[MOST_THREADS];
	int n = count_threads(p->n_parameters);
	bool alone[MOST_THREADS]; /* this thread's: the first, and those that got no other */

	for (int i = 0; i < n; i++) {
		shares[i] = (struct share){0, p, seed, parameters, i, n};
		alone[i] = !i || pthread_create(&shares[i].thread, NULL, draw_share, &shares[i]);
	}
	for (int i = 0; i < n; i++)
		if (alone[i])
			draw_share(&shares[i]);
	for (int i = 0; i < n; i++)
		if (!alone[i])
			pthread_join(shares[i].thread, NULL);
}
