#pragma once
/* The hosts of the ranks: those that see one folder in memory are on one. */
#include <stdbool.h>
#include <stdint.h>
#include "orrery/orrery.h"

ORR_BEGIN

/* In the order of their first ranks, which lead them. */
struct orr_hosts {
	const char *folder; /* borrowed: its path, the same on each */
	int n, own;
	int n_ranks, rank;
	int *host_of; /* [n_ranks]; owned */
};

/* Collective. */
int orr_hosts_find(struct orr_hosts *x, const char *folder, struct orr_error *err);
void orr_hosts_fini(struct orr_hosts *x); /* zeros are fine */

int orr_hosts_first(const struct orr_hosts *x, int host); /* its first rank */
bool orr_hosts_leads(const struct orr_hosts *x);          /* is this rank the first of its host? */

/* Of a rank, among the `size` ones of its host. */
int orr_hosts_place(const struct orr_hosts *x, int rank, int *size);
/* The rank of the next host that keeps what this one keeps: the hosts are a ring. */
int orr_hosts_buddy(const struct orr_hosts *x, int rank);

ORR_END
