#ifndef ORR_COMPILE_PLACES_H
#define ORR_COMPILE_PLACES_H
/* (private to compile.c) Columns of scratch, each given to one tensor after the other. */
#include <stdint.h>

struct orr_scratch_places {
	struct orr_held {
		int64_t first, end;
	} * held; /* by place; owned, room for all that are held at once */
	int n;
	int64_t most; /* columns that were ever given */
};

/* The first columns that are free. */
int64_t orr_places_take(struct orr_scratch_places *places, int64_t columns);
/* Those that begin at `first` are free again. */
void orr_places_give_back(struct orr_scratch_places *places, int64_t first);
#endif
