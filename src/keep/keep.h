#pragma once
/* Between a launcher, which outlives the processes of a training, and these: a folder in the main
 * memory of the machine, which keeps copies of the training's state, and beats, by which the
 * launcher knows that a rank makes progress. */
#include <stdint.h>
#include "base/clock.h" /* all of it counts by CLOCK_MONOTONIC */
#include "orrery/orrery.h"

ORR_BEGIN

/* What the launcher gives its processes, in the environment. */
#define ORR_KEEP_FOLDER "ORRERY_KEEP"   /* the folder */
#define ORR_KEEP_STARTS "ORRERY_STARTS" /* how often it has started them before */
#define ORR_KEEP_RANKS "ORRERY_RANKS"   /* how many ranks the first start had */

/* A new folder in `root`, which must be in memory (tmpfs); the caller's to remove. Those of
 * launchers that were killed are removed first. *fd locks it: closed last. */
int orr_keep_make(char **folder, int *fd, const char *root, struct orr_error *err);
void orr_keep_remove(char *folder, int fd); /* with all that is in it; NULL is fine */

/* The same folder on this host, made by the first rank of it where the launcher is on another: 0
 * where there is none to make. ORR_E_INPUT: it cannot be used there. */
int orr_keep_join(struct orr_error *err);
/* It is removed, unless the launcher does it. */
void orr_keep_leave(void);
/* Below 2^52, and of this folder alone, on whatever host; -1: it cannot be read. */
int64_t orr_keep_identity(const char *folder);

/* Is there room for n bytes in the folder? ORR_E_INPUT: the message says how much is missing. */
int orr_keep_check(const char *folder, int64_t n_bytes, struct orr_error *err);

/* From rank to launcher. A rank that says no more for patience_ns after a beat hangs. */
enum orr_beat_kind {
	ORR_BEAT_STEP,  /* after this step */
	ORR_BEAT_LONG,  /* what takes longer than a step begins */
	ORR_BEAT_BEGIN, /* training goes on from this step */
	ORR_BEAT_OVER   /* the training ends, of its own accord */
};
struct orr_beat {
	int64_t kind, rank, pid, step, patience_ns;
};

/* The rank's end: -1 where no launcher listens. */
int orr_beat_connect(void);
/* Never waits; what does not get through is dropped. */
void orr_beat_send(int fd, enum orr_beat_kind kind, int rank, int64_t step, int64_t patience_ns);

/* The launcher's end: a socket in the folder. */
int orr_beat_listen(int *fd, const char *folder, struct orr_error *err);
/* A beat from a connection, none of which is waited for: 1, or 0: none has come; -1: its end. */
int orr_beat_receive(int fd, struct orr_beat *beat);

ORR_END
