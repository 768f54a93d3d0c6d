#ifndef ORR_TRAINED_H
#define ORR_TRAINED_H
/* How far training has come. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct orr_trained {
	int64_t n_steps;     /* since the start of training */
	int64_t n_skipped;   /* of them, since orr_run_create */
	int n_skipped_last;  /* the last of them in a row */
	int64_t last_end_ns; /* of the step before, or the start of orr_run_train */
	atomic_bool stop;    /* this rank is asked to end */
	bool ends;           /* all agree that no further step begins */
	int failed;          /* code of the first failure */
	bool drained;        /* after a failure: nothing is left in StarPU */
};
#endif
