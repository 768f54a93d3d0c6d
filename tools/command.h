#ifndef ORR_COMMAND_H
#define ORR_COMMAND_H
/* The commands of `orrery`: one function each, in cmd_<verb>.c, listed in orrery.c. Each returns
 * the exit code: 0 done, 1 the run failed, 2 the input or the options are wrong. */
#include <argp.h>
#include "orrery/error.h"

int cmd_show(int argc, char **argv);
int cmd_schedules(int argc, char **argv);
int cmd_simulate(int argc, char **argv);
int cmd_compare(int argc, char **argv);
int cmd_profile(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_train(int argc, char **argv);

/* The exit code of a failure, or 0. */
int command_status(int code);
/* The same, and print its one line, if it is one. */
int command_end(int code, const struct orr_error *err);

/* argp_parse, but what it does not know is refused in one line, with exit code 2. */
void command_parse(const struct argp *argp, int argc, char **argv, void *input);

/* One line on standard error, under mpirun from one rank, exit code 2: for an option's value, while
 * options are parsed. */
void command_refuse(const struct orr_error *err) __attribute__((noreturn));
#endif
