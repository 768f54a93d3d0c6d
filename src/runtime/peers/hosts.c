#include "hosts.h"

#include <stdlib.h>

#include "base/arrays.h"
#include "keep/keep.h"
#include "orrery/run.h"

/* By where each rank's folder is. */
static void number(struct orr_hosts *x, const double *identities)
{
	for (int k = 0; k < x->n_ranks; k++) {
		int before = 0;

		while (identities[before] != identities[k])
			before++;
		x->host_of[k] = before < k ? x->host_of[before] : x->n++;
	}
	x->own = x->host_of[x->rank];
}

int orr_hosts_find(struct orr_hosts *x, const char *folder, struct orr_error *err)
{
	double *identities;
	int code = 0;

	*x = (struct orr_hosts){
		.folder = folder, .n_ranks = orr_ranks_count(), .rank = orr_ranks_rank()};
	identities = calloc((size_t)x->n_ranks, sizeof(*identities));
	x->host_of = calloc((size_t)x->n_ranks, sizeof(*x->host_of));
	if (!identities || !x->host_of)
		code = orr_no_memory(err, "hosts");
	else if ((identities[x->rank] = (double)orr_keep_identity(folder)) < 0)
		code = orr_fail(err, ORR_E_INPUT,
				"[memory] %s: cannot be read: name another folder in memory, which "
				"all hosts have",
				folder);
	if (!(code = orr_ranks_agree(code, err)) &&
	    !(code = orr_ranks_sum(identities, x->n_ranks, err)))
		number(x, identities);
	else
		orr_hosts_fini(x);
	free(identities);
	return code;
}

void orr_hosts_fini(struct orr_hosts *x)
{
	free(x->host_of);
	*x = (struct orr_hosts){0};
}

/* The rank in that place of a host; its number of ranks: one more. */
static int rank_at(const struct orr_hosts *x, int host, int place, int *n)
{
	int found = -1;

	*n = 0;
	for (int k = 0; k < x->n_ranks; k++)
		if (x->host_of[k] == host && (*n)++ == place)
			found = k;
	return found;
}

int orr_hosts_first(const struct orr_hosts *x, int host)
{
	int n;

	return rank_at(x, host, 0, &n);
}

bool orr_hosts_leads(const struct orr_hosts *x)
{
	return orr_hosts_first(x, x->own) == x->rank;
}

int orr_hosts_place(const struct orr_hosts *x, int rank, int *size)
{
	int place = 0;

	(void)rank_at(x, x->host_of[rank], 0, size);
	for (int k = 0; k < rank; k++)
		place += x->host_of[k] == x->host_of[rank];
	return place;
}

int orr_hosts_buddy(const struct orr_hosts *x, int rank)
{
	int next = (x->host_of[rank] + 1) % x->n, n, place;

	(void)rank_at(x, next, 0, &n);
	place = orr_hosts_place(x, rank, &(int){0}) % n;
	return rank_at(x, next, place, &n);
}
