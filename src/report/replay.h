#ifndef ORR_REPLAY_H
#define ORR_REPLAY_H
/* A simulated schedule as a plan: what `simulate -o` writes, and what simulate and train read back
 * to the same timeline, whatever the schedule. It is the report, and what it takes to run it again.
 */
#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_figures;
struct orr_timeline;

/* t is of a pipeline that came from a graph; batch: samples of a minibatch, samples: of a
 * microbatch; embed: with the graph's own text, where its costs came from outside. New reference;
 * NULL with err filled when there is no memory. */
json_t *orr_replay_json(const struct orr_timeline *t, const struct orr_figures *f, int batch,
			int64_t samples, bool embed, struct orr_error *err);

ORR_END
#endif
