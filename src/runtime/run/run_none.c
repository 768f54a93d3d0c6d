#include "profile.h"
#include "orrery/run.h"
#include "runtime/devices/devices.h"

#include "base/absent.h"

/* A build without StarPU (or oneDNN): simulate and draw, but not train. */
static int refuse(struct orr_error *err)
{
	return orr_fail(err, ORR_E_UNSUPPORTED,
			"this build cannot train: StarPU and oneDNN were not found when it was "
			"configured; install them and build again");
}

ORR_ABSENT(int, refuse(err), orr_run_columns, struct orr_data_columns **columns, int *n,
	   const struct orr_jobs *jobs, const struct orr_run_options *options,
	   struct orr_error *err)

ORR_ABSENT(int, (*out = NULL, refuse(err)), orr_run_create, struct orr_run **out,
	   const struct orr_jobs *jobs, const struct orr_dataset *data,
	   const struct orr_run_options *options, struct orr_error *err)
ORR_ABSENT(void, , orr_run_destroy, struct orr_run *run)
ORR_ABSENT(int, refuse(err), orr_run_train, struct orr_run *run, int64_t n,
	   void (*visit)(void *user, const struct orr_step *step), void *user,
	   struct orr_error *err)
ORR_ABSENT(int, refuse(err), orr_run_versions, struct orr_run *run, struct orr_run_versions *stages,
	   struct orr_error *err)
ORR_ABSENT(const struct orr_timeline *, NULL, orr_run_timeline, const struct orr_run *run)
ORR_ABSENT(void, , orr_run_stop, struct orr_run *run)
ORR_ABSENT(bool, false, orr_run_stopped, const struct orr_run *run)
ORR_ABSENT(int64_t, 0, orr_run_skipped, const struct orr_run *run)
ORR_ABSENT(int, 0, orr_run_skipped_last, const struct orr_run *run)
ORR_ABSENT(int, refuse(err), orr_run_evaluate, struct orr_run *run, bool on_test,
	   struct orr_scores *scores, struct orr_error *err)
ORR_ABSENT(int64_t, 0, orr_run_n_parameters, const struct orr_run *run)
ORR_ABSENT(int64_t, 0, orr_run_owned_floats, const struct orr_run *run)
ORR_ABSENT(int, refuse(err), orr_run_parameters, struct orr_run *run, float *parameters,
	   struct orr_error *err)
ORR_ABSENT(int64_t, 0, orr_run_step, const struct orr_run *run)
ORR_ABSENT(int, refuse(err), orr_run_save, struct orr_run *run, const char *folder, int keep,
	   struct orr_error *err)
ORR_ABSENT(int, refuse(err), orr_run_copy, struct orr_run *run, const char *folder,
	   struct orr_error *err)
ORR_ABSENT(int, refuse(err), orr_run_copied, struct orr_run *run, struct orr_copy_made *copied,
	   struct orr_error *err)
ORR_ABSENT(int, refuse(err), orr_run_begin, struct orr_run *run, const char *path, bool partly,
	   char *text, size_t size, struct orr_error *err)
ORR_ABSENT(int, refuse(err), orr_run_load, struct orr_run *run, const struct orr_checkpoint *c,
	   double *rate, struct orr_error *err)
ORR_ABSENT(int, refuse(err), orr_run_measure, struct orr_pipeline *p,
	   const struct orr_run_options *options, struct orr_error *err)
ORR_ABSENT(int, (*out = (struct orr_profile){0}, refuse(err)), orr_run_profile,
	   struct orr_profile *out, struct orr_pipeline *operators,
	   const struct orr_pipeline *blocks, const struct orr_run_options *options,
	   struct orr_error *err)
ORR_ABSENT(void, , orr_profile_fini, struct orr_profile *profile)
ORR_ABSENT(int64_t, -1, orr_run_peak_bytes, const struct orr_run *run)
ORR_ABSENT(void, , orr_run_traffic, struct orr_run *run, struct orr_traffic *traffic)

int orr_run_devices(char *why, size_t size)
{
	if (size)
		why[0] = 0;
	return -1;
}

ORR_ABSENT(bool, false, orr_run_core, struct orr_core *core)
ORR_ABSENT(int, refuse(err), orr_run_mapping, struct orr_run *run, struct orr_mapping *places,
	   struct orr_error *err)
ORR_ABSENT(int, 0, orr_run_moved, const struct orr_run *run, struct orr_moved *moved, int most)
ORR_ABSENT(const char *, "built without StarPU", orr_run_version, void)
