#ifndef ORR_WORK_OPTIONS_H
#define ORR_WORK_OPTIONS_H
/* The options of model, machine and schedule. */
#include <argp.h>
#include <stdbool.h>
#include "orrery/open.h"

struct work_options {
	struct orr_open_options open;
	bool no_source;                               /* there need be none */
	const char *workers, *bandwidths, *latencies; /* as given; NULL: not */
	struct orr_levels levels; /* of these; one of all workers where they have none */
	double timeout_s;         /* of a plug-in, see plugin.h */
};

/* Parses GRAPH and the shared options; a child of a command's own argp, whose input it takes as its
 * own: state->child_inputs[0] must be a struct work_options. */
extern const struct argp work_argp;
/* The same, for a command that has no use for some of them: their long names, each followed by a
 * space. They are not in its --help; where one is given, it is the command that says so. Of one
 * command in a process. */
struct argp work_argp_without(const char *names);
struct work_options work_options_default(void);
#endif
