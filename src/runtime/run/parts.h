#pragma once
/* (private to this room and to tests) The parts of a run; each is of the file of its header. */
#include "clip.h"
#include "finite.h"
#include "gather.h"
#include "hooks.h"
#include "runtime/devices/hardware.h"
#include "runtime/peers/cross.h"
#include "runtime/peers/sum.h"
#include "runtime/tasks/prefetch.h"
#include "runtime/tasks/slots.h"
#include "scores.h"
#include "spared.h"
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
	struct orr_spared spared;
	struct orr_version_buffers versions;
	struct orr_gather gather;
	struct orr_trained trained;
	struct orr_scoring scoring;
	struct orr_copies copies;               /* between memories, while it trained */
	int64_t resident_before, resident_peak; /* bytes of this process; -1: not known */
};

/* (state.c) Are its parameters whole? Refuses if not. */
int orr_run_check_whole(const struct orr_run *run, struct orr_error *err);
