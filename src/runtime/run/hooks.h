#pragma once
/* (private to the runtime and its tests) A run under conditions that no user asks for. Zeros: none
 * of them. */
#include <starpu.h>
#include "orrery/run.h"

struct orr_run_hooks {
	/* every job sleeps up to delay_us, drawn from delay_seed, step and job */
	int delay_us;
	uint64_t delay_seed;
	/* called by the thread that is about to write a copy; or NULL */
	void (*copying)(void);
	/* called after the start of each receive from another rank; or NULL */
	int (*received)(starpu_data_handle_t handle, struct orr_error *err);
	/* cores count as devices, and the gradient of a stage with one owner takes the path of
	 * those that NCCL adds up */
	bool reduce_alone;
	/* NULL: our scheduling policy; "pinned": StarPU's workerorder in its place; else a policy
	 * of StarPU's, which places and orders as it likes */
	const char *policy;
};

/* orr_run_create under these conditions; hooks is copied, the string in it borrowed. */
int orr_run_create_hooked(struct orr_run **out, const struct orr_jobs *jobs,
			  const struct orr_dataset *data, const struct orr_run_options *options,
			  const struct orr_run_hooks *hooks, struct orr_error *err);

struct orr_pipeline;
struct orr_profile;

/* orr_run_profile; apart: operators keep what they take alone, as on CUDA devices. */
int orr_profile_run(struct orr_profile *out, struct orr_pipeline *operators,
		    const struct orr_pipeline *blocks, const struct orr_run_options *options,
		    bool apart, struct orr_error *err);
