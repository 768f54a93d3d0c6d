#include "shares.h"

#include "orrery/machine.h"

/* Rates add up; m microbatches and the updates that come with them are shared so that all end at
 * once. */
double orr_share_s(const struct orr_share *share, const struct orr_machine *machine,
		   const int *workers, int k)
{
	double rate = 0, updates = 0;

	for (int i = 0; i < k; i++) {
		double speed = orr_machine_speed(machine, workers[i]);
		double each = share->start_s + (share->work_s - share->start_s) / speed,
		       update = share->update_start_s +
				(share->update_s - share->update_start_s) / speed;

		if (each <= 0)
			return update / share->n_microbatches;
		rate += 1 / each;
		updates += update / each;
	}
	return 1 / rate + updates / rate / share->n_microbatches;
}
