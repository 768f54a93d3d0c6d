#pragma once
/* A plug-in may do anything: crash, end the process, never answer. So a child does first what the
 * command is about to do with it: it loads and unloads the plug-in and, for each pipeline, calls
 * every function for every job. What it does instead of returning is said in a line that names the
 * function, with exit code 2. */

struct orr_choice;
struct orr_error;
struct orr_open_options;

/* --timeout where it is not given. */
#define PLUGIN_TIMEOUT_S 60.0

/* Before orr_open_schedule(options). Nothing happens where their schedule is no plug-in. One
 * plug-in in a process; a second one is refused. */
int plugin_try(const struct orr_open_options *options, double timeout_s, struct orr_error *err);
/* It was loaded: its check() tries all of its functions from now on, and it stays loaded. */
void plugin_loaded(struct orr_choice *choice);
/* Where one was loaded, end the process with status, without its destructors, which the child has
 * run: here they could hang, or end with another status. Else nothing. */
void plugin_end(int status);
