#include "nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "max.h"
#include "quantity.h"

#define FAR 1000
#define LONGEST ((int)sizeof(((struct orr_nearest *)0)->meant) - 1)
#define SHORTEST_PART 3 /* letters that say enough where they are only part of a word */

static bool is_same(char a, char b)
{
	return tolower((unsigned char)(a == '_' ? '-' : a)) ==
	       tolower((unsigned char)(b == '_' ? '-' : b));
}

/* Damerau and Levenshtein's distance, where no letter is changed twice. */
static int distance(const char *a, int n_a, const char *b, int n_b)
{
	int row[3][LONGEST + 1]; /* of the last three beginnings of a, for every beginning of b */

	for (int k = 0; k <= n_b; k++)
		row[0][k] = k;
	for (int i = 1; i <= n_a; i++) {
		int *here = row[i % 3], *before = row[(i + 2) % 3], *swapped = row[(i + 1) % 3];

		here[0] = i;
		for (int k = 1; k <= n_b; k++) {
			here[k] = (int)smaller(before[k - 1] + !is_same(a[i - 1], b[k - 1]),
					       smaller(before[k], here[k - 1]) + 1);
			if (i > 1 && k > 1 && is_same(a[i - 1], b[k - 2]) &&
			    is_same(a[i - 2], b[k - 1]))
				here[k] = (int)smaller(here[k], swapped[k - 2] + 1);
		}
	}
	return row[n_a % 3][n_b];
}

static bool begins(const char *a, int n_a, const char *b, int n_b)
{
	for (int i = 0; i < n_b; i++)
		if (i >= n_a || !is_same(a[i], b[i]))
			return false;
	return true;
}

/* Is b a beginning of a, or one of the parts that hyphens join: workers of num-workers? */
static bool has_part(const char *a, int n_a, const char *b, int n_b)
{
	if (n_b < SHORTEST_PART)
		return false;
	for (int i = 0; i + n_b <= n_a; i++)
		if ((i == 0 || is_same(a[i - 1], '-')) && begins(a + i, n_a - i, b, n_b) &&
		    (i == 0 || i + n_b == n_a || is_same(a[i + n_b], '-')))
			return true;
	return false;
}

struct orr_nearest orr_nearest_to(const char *word)
{
	return (struct orr_nearest){.word = word, .distance = FAR};
}

static void try(struct orr_nearest *n, const char *spelling, int length, const char *means,
		int n_means)
{
	int n_word = (int)strlen(n->word), d;

	if (n_word > LONGEST || length > LONGEST || n_means > LONGEST || !n_word || !length)
		return;
	d = distance(n->word, n_word, spelling, length);
	if (d > 1 && (has_part(n->word, n_word, spelling, length) ||
		      has_part(spelling, length, n->word, n_word)))
		d = 1;
	/* a third of the letters may be wrong, and never all */
	if (d >= n->distance || d > (n_word + 1) / 3 || d >= n_word || d >= length)
		return;
	n->distance = d;
	(void)snprintf(n->meant, sizeof(n->meant), "%.*s", n_means, means);
}

void orr_nearest_try(struct orr_nearest *n, const char *spelling, const char *means)
{
	means = means ? means : spelling;
	try(n, spelling, (int)strlen(spelling), means, (int)strlen(means));
}

void orr_nearest_try_all(struct orr_nearest *n, const char *words)
{
	static const char between[] = " ,|";

	while (*(words += strspn(words, between))) {
		int length = (int)strcspn(words, between);

		try(n, words, length, words, length);
		words += length;
	}
}

const char *orr_nearest_hint(const struct orr_nearest *n)
{
	return *n->meant ? orr_text(" (did you mean %s?)", n->meant) : "";
}

int orr_word_find(int *number, const char *const *words, const char *text, const char *what,
		  struct orr_error *err)
{
	struct orr_nearest near = orr_nearest_to(text);
	const char *list = "";

	for (int i = 0; words[i]; i++) {
		const char *between = !words[i + 1] ? "" : words[i + 2] ? ", " : " and ";

		if (!*words[i])
			continue;
		if (!strcmp(text, words[i])) {
			*number = i;
			return 0;
		}
		orr_nearest_try(&near, words[i], NULL);
		if (!strcmp(words[i], "cuda"))
			orr_nearest_try(&near, "gpu", "cuda");
		list = orr_text("%s%s%s", list, words[i], between);
	}
	return orr_fail(err, ORR_E_INPUT, "%s: no '%.40s'%s: there are %s", what, text,
			orr_nearest_hint(&near), list);
}
