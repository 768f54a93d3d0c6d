#pragma once
/* Does a rank's part of the work fit its host? Asked before anything is allocated: Linux gives
 * memory that it does not have, and ends the process when it is written. */
#include "work.h"

/* What this process may take of this host's memory, which its control groups may limit; -1: not
 * known. */
int64_t orr_host_bytes(void);

/* The least memory limit of control groups, of both versions, and of those above them; INT64_MAX:
 * none. groups: a file as /proc/self/cgroup, a line "number:controllers:/path" each, where version
 * 2 has no controllers; root: where they are mounted. */
int64_t orr_group_bytes(const char *groups, const char *root);

/* Refuses what does not fit into host_bytes on CPU cores: the parameters that are owned here, with
 * the optimizer's floats of each, what each worker works in, and what the largest job keeps. There is
 * more, so what passes may still not fit. */
int orr_fits_host(const struct orr_work *work, int n_state, int64_t host_bytes,
		  struct orr_error *err);
