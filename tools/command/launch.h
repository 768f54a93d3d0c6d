#pragma once
/* The command that supervise starts: how many ranks its mpirun is told to start, and on which
 * hosts; fewer once there are no more. */
#include <stdbool.h>
#include <stdint.h>
#include "orrery/orrery.h"

struct launch_host {
	const char *name;
	int64_t slots;
	bool gone;
};

struct launch {
	char **words;           /* what to execute, ended by NULL */
	int ranks_at, hosts_at; /* in words; 0: there is none, or several */
	int n_first;            /* ranks, as the command was given; 0: not known */
	int n_most, n_fewest;   /* ranks: n_most falls where some are lost in vain */
	int n_left; /* ranks for which the hosts that are not gone have room: below n_fewest all
		     * hosts are tried, for n_most */
	struct launch_host *hosts; /* NULL: not given, or one */
	int n_hosts;
	bool keeps;         /* the training has checkpoints or copies, from which it goes on */
	char *names, *list; /* what hosts and words point into */
	char count[16];
};

/* command is borrowed. fewest: ranks; 0: as many as the command says. */
int launch_init(struct launch *l, char **command, int64_t fewest, struct orr_error *err);
void launch_fini(struct launch *l);

/* The words start `true` on host k alone, to find out whether it can start anything, or remove a
 * folder there (NULL: none): for a process that becomes them, since they stay. */
void launch_probe(struct launch *l, int k, char *folder);
/* The next host after number k that is gone, round the list, where more ranks could go on with it;
 * -1: there is none. */
int launch_missed(const struct launch *l, int k);
/* The words for the hosts that are not gone; for all of them where these are too few. */
int launch_settle(struct launch *l, struct orr_error *err);
/* One rank fewer; false: there are to be no fewer, or hosts are missing rather than a rank. */
bool launch_drop(struct launch *l);
/* "b, c": hosts that are gone; see orr_text(). */
const char *launch_gone(const struct launch *l);
/* " on 3 of 4 ranks, without host b"; "" where nothing is missing; the same. */
const char *launch_text(const struct launch *l);
