#ifndef ORR_SHARES_H
#define ORR_SHARES_H
/* Microbatches shared by workers that differ. Private to the planner. */

struct orr_machine;

/* Seconds that k workers take for a microbatch of work_s, which they share by speed, and for an mth
 * of an update, which each does; start_s of either are as long on every worker. */
struct orr_share {
	double work_s, start_s, update_s, update_start_s;
	int n_microbatches;
};
double orr_share_s(const struct orr_share *share, const struct orr_machine *machine,
		   const int *workers, int k);
#endif
