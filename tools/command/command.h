#pragma once
/* The commands of `orrery`: one function each, in cmd_<verb>.c, listed in orrery.c. Each returns
 * the exit code: 0 done, 1 the run failed, 2 the input or the options are wrong. */
#include "orrery/orrery.h"

int cmd_show(int argc, char **argv);
int cmd_schedules(int argc, char **argv);
int cmd_simulate(int argc, char **argv);
int cmd_compare(int argc, char **argv);
int cmd_profile(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_train(int argc, char **argv);
int cmd_supervise(int argc, char **argv);
int cmd_fit(int argc, char **argv);

/* Put options in the place of the quantities that a message of the library names (orrery/orrery.h):
 * "[workers]" becomes "--workers". In place; returns text, which gets no longer. */
char *command_name_options(char *text);
/* A line on standard error, with options named, shown so. */
void command_say(const char *message);
/* The exit code of a failure, or 0. */
int command_status(int code);
/* The same, and say its one line, if it is one. */
int command_end(int code, const struct orr_error *err);
/* What was printed must have arrived: the exit code, or 1 where it has not. */
int command_flush(int status);
