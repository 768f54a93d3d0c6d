#include "orrery/figures.h"

#include "base/quantity.h"

static int read_blocks(int *rank_of, int n_workers, int n_ranks, const char *text,
		       struct orr_error *err)
{
	const char *rest = text;
	int64_t n = 0;
	int w = 0;

	for (int k = 0; k < n_ranks; k++) {
		if (!rest || orr_count_next(&n, &rest, ',', 1, n_workers - w, "", NULL) ||
		    (k + 1 == n_ranks && rest))
			return orr_fail(err, ORR_E_INPUT,
					"[ranks-workers]: '%s': give %d numbers, 1 or more each, "
					"whose sum is the %d workers",
					text, n_ranks, n_workers);
		for (; n > 0; n--)
			rank_of[w++] = k;
	}
	if (w < n_workers)
		return orr_fail(err, ORR_E_INPUT,
				"[ranks-workers]: '%s' places %d of %d workers: the sum must be %d",
				text, w, n_workers, n_workers);
	return 0;
}

int orr_ranks_of_workers(int *rank_of, int n_workers, int n_ranks, const char *text,
			 struct orr_error *err)
{
	int w = 0;

	if (n_workers < n_ranks)
		return orr_fail(err, ORR_E_INPUT,
				"%d ranks have %d workers among them: start %d ranks or fewer, or "
				"give [workers] %d or more",
				n_ranks, n_workers, n_workers, n_ranks);
	if (text)
		return read_blocks(rank_of, n_workers, n_ranks, text, err);
	for (int k = 0; k < n_ranks; k++)
		for (int i = n_workers / n_ranks + (k < n_workers % n_ranks); i > 0; i--)
			rank_of[w++] = k;
	return 0;
}
