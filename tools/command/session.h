#pragma once
/* The processes of one command: one alone, or the ranks that mpirun has started. Each finds out for
 * itself, then all agree; rank 0 speaks for all of them, and they end together. */
#include <stdint.h>
#include "keep/keep.h"
#include "orrery/orrery.h"
#include "runtime/peers/hosts.h"

#define SESSION_RECENT 256 /* beats: what took long before the last so many counts no more */

struct session {
	int rank, n_ranks;             /* alone: 0 of 1 */
	int beat;                      /* to the launcher; -1: there is none */
	int n_starts;                  /* by the launcher, before this one */
	int n_first;                   /* ranks of its first start */
	int64_t beaten_ns, longest_ns; /* the last beat, and the longest time between two lately */
	int64_t before_ns, n_beats;    /* the longest before that */
	int64_t moved_ns;              /* for a slow disk to read or write the whole state */
	struct orr_hosts hosts;        /* that keep copies; none: there are none */
	int signal;                    /* that has stopped the training of all ranks; 0: none */
	struct orr_error err; /* the first failure: of this rank, or of any once they have agreed */
};

/* Join the other ranks. *s is zero. */
int session_join(struct session *s);

/* All ranks call these, in the same order. */

/* 0 where the code is 0 everywhere; else every rank has the code and the message of the first rank
 * that failed. */
int session_agree(struct session *s, int code);
/* Every rank's n numbers, on every rank: all[n_ranks * n], in the order of the ranks. Exact below
 * 2^53. */
int session_gather(struct session *s, int64_t *all, const int64_t *own, int n);
/* The largest of the ranks' numbers, on every rank. */
int session_max(struct session *s, int64_t *number);

/* A failure of this rank alone ends all ranks with its message, and the call does not return. Codes
 * that come to every rank alike, ORR_E_INPUT and ORR_E_DIVERGED, are returned, and alone every
 * code. */
int session_check(struct session *s, int code);
/* A line on standard error, by rank 0. */
void session_say(const struct session *s, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Tell the launcher that this rank goes on: a step has ended; or what may take longer begins. */
void session_step(struct session *s, int64_t step);
void session_beat(struct session *s, enum orr_beat_kind kind, int64_t step);

/* The failure, if any, in one line of rank 0, and the command's exit code; all ranks leave. */
int session_end(struct session *s, int code);
/* The same for options that are wrong, which every rank has seen, before or after session_join. */
void session_refuse(const struct orr_error *err) __attribute__((noreturn));
