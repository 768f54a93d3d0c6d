#ifndef ORR_NEAREST_H
#define ORR_NEAREST_H
/* The word of a list that somebody probably meant who wrote one that is not in it. */
#include "declare.h"

ORR_BEGIN

struct orr_nearest {
	const char *word; /* borrowed: what was written */
	char meant[48];   /* the nearest so far; "": nothing is near */
	int distance; /* of it: letters to change, to add, to leave out, or to swap with the next */
};

struct orr_nearest orr_nearest_to(const char *word);
/* One more word of the list, or another spelling of one (means; NULL: of itself). Of words that are
 * equally near, the first. Case does not count, nor whether it is - or _. */
void orr_nearest_try(struct orr_nearest *n, const char *spelling, const char *means);
/* Every word of a text that are apart by blanks, commas or bars. */
void orr_nearest_try_all(struct orr_nearest *n, const char *words);

/* " (did you mean forward?)", to be put behind the word in a message, or "". */
#define ORR_HINT 72
const char *orr_nearest_hint(char hint[ORR_HINT], const struct orr_nearest *n);

ORR_END
#endif
