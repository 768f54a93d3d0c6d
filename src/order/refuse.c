#include "refuse.h"

#include "orrery/quantity.h"

int orr_search_refuse(const struct orr_refusal *o, struct orr_error *err)
{
	const char *where = o->any ? "on the placements that it tries" : "on this placement";
	const char *more =
		"give more memory, take more workers or more microbatches ([microbatches])";
	const char *why = o->exact ? "not even one microbatch fits"
				   : "no order of one microbatch was found that fits";
	long long stashes = (long long)o->stashes + o->excess;
	char size[32];

	if (orr_pipeline_gathers(o->p))
		return orr_fail(err, ORR_E_INPUT,
				"auto: a minibatch is gathered (gather=), so the %d microbatches "
				"before that are held at once, and do not fit %s: give more memory "
				"or fewer microbatches ([microbatches])",
				o->p->n_microbatches, where);
	if (o->stashes && !o->stash_bytes && !o->memory_bytes)
		return orr_fail(
			err, ORR_E_INPUT,
			"auto: %s %lld stage stashes on a worker, one microbatch alone takes "
			"%s%lld %s: give memory=%lld or more",
			o->exact ? "nothing fits" : "no order was found that fits",
			(long long)o->stashes, o->exact ? "" : "at most ", stashes, where, stashes);
	if (o->memory_bytes && o->p->machine.cluster)
		return orr_fail(err, ORR_E_INPUT,
				"auto: %s in the workers' memory beside parameters, gradients and "
				"optimizer %s: %s",
				why, where, more);
	if (o->memory_bytes)
		return orr_fail(err, ORR_E_INPUT,
				"auto: %s [memory] %s beside parameters, gradients and optimizer "
				"%s: %s",
				why, orr_size_exact(size, sizeof(size), o->memory_bytes), where,
				more);
	return orr_fail(err, ORR_E_INPUT, "auto: %s %lld bytes of stash on a worker %s: %s", why,
			(long long)o->stash_bytes, where, more);
}
