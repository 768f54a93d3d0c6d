#include "shares.h"

#include "orrery/machine.h"

struct orr_sharing orr_sharing_of(const struct orr_machine *machine, const int *workers)
{
	return (struct orr_sharing){.machine = machine, .workers = workers, .free_update_s = -1};
}

void orr_sharing_join(struct orr_sharing *gang, const struct orr_share *share)
{
	const struct orr_machine *m = gang->machine;
	int w = gang->workers[gang->n++];
	int64_t memory_bytes = orr_machine_memory(m, w);
	double speed = orr_machine_speed(m, w);
	double each = share->start_s + (share->work_s - share->start_s) / speed;
	double update = share->update_start_s + (share->update_s - share->update_start_s) / speed;

	if (memory_bytes && (!gang->memory_bytes || memory_bytes < gang->memory_bytes))
		gang->memory_bytes = memory_bytes;
	if (gang->free_update_s >= 0)
		return;
	if (each <= 0) {
		gang->free_update_s = update;
		return;
	}
	gang->rate += 1 / each;
	gang->updates += update / each;
}

/* Rates add up; m microbatches and their updates are shared so that all end at once. */
double orr_sharing_each_s(const struct orr_sharing *gang, const struct orr_share *share, int parts)
{
	if (gang->free_update_s >= 0)
		return gang->free_update_s / parts / share->n_microbatches;
	return 1 / gang->rate + gang->updates / parts / gang->rate / share->n_microbatches;
}
