#ifndef ORR_HISTORY_H
#define ORR_HISTORY_H
/* The losses of a training for its page: of every step, or of a long training of every second,
 * fourth, ... step, so that a page never has more than a screen can show. */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct history {
	bool wanted;    /* else nothing is kept */
	json_t *losses; /* owned: {"step", "loss"}, and "test_loss" where there is one */
	int64_t every;  /* steps from one to the next */
};

/* step: from 1. A loss that is not finite becomes null. */
void history_add(struct history *h, int64_t step, double loss);
void history_add_test(struct history *h, int64_t step, double loss);
void history_fini(struct history *h); /* all zero is fine */
#endif
