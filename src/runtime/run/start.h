#pragma once
/* StarPU, started for a run: once at a time in a process. */
#include "codelets/codelets.h"
#include "hooks.h"
#include "runtime/tasks/policy.h"
#include "runtime/tasks/work.h"

struct orr_session {
	bool taken, runs;          /* how far the start came */
	struct orr_policy *policy; /* of the arrays of the run */
	struct orr_codelet_common common;
	int idle_hook; /* StarPU's number of it, or -1 */
};

/* Refuses a second run in the process. */
int orr_session_take(struct orr_session *session, struct orr_error *err);
/* Start StarPU with our policy (hooks may name another), and give each of its workers memory for
 * the programs of work. */
int orr_session_start(struct orr_session *session, const struct orr_work *work,
		      const struct orr_run_options *options, const struct orr_run_hooks *hooks,
		      struct orr_error *err);
/* Ends StarPU: no handle may be left. */
void orr_session_stop(struct orr_session *session);
