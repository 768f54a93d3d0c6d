#pragma once
/* Suggestions for misspelt words: the word of a list that is nearest to one that is not in it. */
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_nearest {
	const char *word; /* borrowed: the misspelt word */
	char meant[48];   /* the nearest so far; "": nothing is near */
	int distance; /* of it: letters to change, to add, to leave out, or to swap with the next */
};

struct orr_nearest orr_nearest_to(const char *word);
/* Consider a word of the list, or another spelling of the word `means` (NULL: of itself). Of
 * equally near words the first is kept. Case does not count, and - equals _. */
void orr_nearest_try(struct orr_nearest *n, const char *spelling, const char *means);
/* Each word of a text, separated by blanks, commas or bars. */
void orr_nearest_try_all(struct orr_nearest *n, const char *words);

/* " (did you mean forward?)", to be put behind the word in a message, or ""; see orr_text(). */
const char *orr_nearest_hint(const struct orr_nearest *n);

/* The number of a word, which may be that of an enum, in a list that ends with NULL, in which an
 * empty word only counts. Refuses a text that is none of them, with those that there are. what: the
 * place for the message. */
int orr_word_find(int *number, const char *const *words, const char *text, const char *what,
		  struct orr_error *err);

ORR_END
