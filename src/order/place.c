#include "place.h"

#include <stdlib.h>

#include "allocate.h"

#define ALLOCATE_STEPS 200000 /* of branch and bound */

int orr_place_evenly(int *worker, const struct orr_pipeline *p, struct orr_error *err)
{
	int64_t *work = calloc((size_t)p->n_stages, sizeof(*work));
	struct orr_layers layers = {p->n_stages, work, NULL, &p->machine};
	struct orr_allocation found;
	int code;

	if (!work)
		return orr_fail(err, ORR_E_NOMEM, "search: no memory for %d stages", p->n_stages);
	for (int s = 0; s < p->n_stages; s++)
		work[s] =
			p->stages[s].forward_ns + p->stages[s].backward_ns + p->stages[s].weight_ns;
	code = orr_allocate_any(&found, worker, &layers, p->n_workers, 0, ALLOCATE_STEPS, err);
	free(work);
	return code;
}
