#pragma once
/* Private to ranks_mpi.c, heartbeat.c and messages_mpi.c. */
#include "orrery/run.h"

/* A thread that tells rank 0 that this rank lives, and rank 0 the others; a rank that is silent for
 * too long, or that says that it has failed, ends them all. */
int orr_heartbeat_start(void (*say)(const char *message), struct orr_error *err);
void orr_heartbeat_stop(void);
/* This rank has failed; does not return. */
void orr_heartbeat_fail(int status, const char *message) __attribute__((noreturn));
