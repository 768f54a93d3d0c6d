#pragma once
/* (private to this room and to tests) The parts of a run; each is of the file of its header. */
#include "clip.h"
#include "finite.h"
#include "gather.h"
#include "hooks.h"
#include "runtime/devices/hardware.h"
#include "runtime/peers/cross.h"
#include "runtime/peers/hosts.h"
#include "runtime/peers/sum.h"
#include "runtime/tasks/prefetch.h"
#include "runtime/tasks/slots.h"
#include "scores.h"
#include "start.h"
#include "version_buffers.h"

struct orr_run {
	struct orr_run_options options;
	const struct orr_dataset *dataset; /* borrowed */
	struct orr_work work;
	struct orr_session session;
	struct orr_watch watch;
	struct orr_submitter submitter;
	struct orr_data data;
	struct orr_slots slots;
	struct orr_prefetch prefetch;
	struct orr_cross cross;
	struct orr_sum sum;
	struct orr_clip clip;
	struct orr_version_buffers versions;
	struct orr_gather gather;
	struct orr_trained trained;
	struct orr_scoring scoring;
	struct orr_copies copies;               /* between memories, while it trained */
	struct orr_saving *saving;              /* a copy that is being written; NULL: none is */
	struct orr_hosts hosts;                 /* since the first copy: which keep them */
	int64_t copied;                         /* the step of the last that was whole; 0: none */
	void (*copying)(void);                  /* hooks.h */
	int64_t resident_before, resident_peak; /* bytes of this process; -1: not known */
};

/* (results.c) Are its parameters whole? Refuses if not. */
int orr_run_check_whole(const struct orr_run *run, struct orr_error *err);

/* (step.c) The next step, in its slot, of a schedule that flushes. */
int orr_step_submit(struct orr_run *run, struct orr_error *err);
/* Parts of it, which rounds are made of: job j, computed here, with its messages; */
void orr_step_submit_job(struct orr_run *run, struct orr_slot *slot, int j, int64_t turn);
/* update q of the step by all owners of s that are here, which add up their gradients first. */
void orr_step_submit_updates(struct orr_run *run, struct orr_slot *slot, int s, int q);

/* (rounds.c) Refuses steps that overlapping rounds cannot serve; 0 for a schedule that flushes. */
int orr_rounds_check(const struct orr_jobs *jobs, int batch, struct orr_error *err);
/* Training under a schedule without a flush (schedule/async.h), as orr_run_train: rounds overlap.
 * All jobs are submitted in the order of n, wave after wave; the pipeline starts empty and is
 * drained at the end. */
int orr_rounds_train(struct orr_run *run, int64_t n,
		     void (*visit)(void *user, const struct orr_step *step), void *user,
		     struct orr_error *err);
