#pragma once
/* What a command line says. Every option is a row of option_rows.c, from which it is found among
 * the words, read, listed by --help, and so written into the man page and the completions. What is
 * wrong is refused in one line on standard error, under mpirun by rank 0, with exit code 2. */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include "checkpoints.h"
#include "report/compare.h"
#include "simulate/failures.h"
#include "simulate/noise.h"
#include "orrery/open.h"
#include "open/fit.h"
#include "orrery/run.h"
#include "output.h"

enum verb {
	VERB_SHOW = 1 << 0,
	VERB_SCHEDULES = 1 << 1,
	VERB_SIMULATE = 1 << 2,
	VERB_COMPARE = 1 << 3,
	VERB_PROFILE = 1 << 4,
	VERB_PLAN = 1 << 5,
	VERB_TRAIN = 1 << 6,
	VERB_FIT = 1 << 7,
	VERB_SUPERVISE = 1 << 8
};

/* "8,16,32": none twice. */
#define MOST_LISTED 16
struct list {
	int n;
	int64_t values[MOST_LISTED];
};

struct texts {
	int n;
	const char *values[MOST_LISTED];
};

struct machine_options {
	const char *workers, *bandwidths, *latencies; /* as given; NULL: not */
	struct orr_levels levels; /* of these; one of all workers where they have none */
};

struct compare_options {
	struct list stages;
	struct texts schedules;
	enum orr_rank rank;
	bool plan, front;
	int64_t within_ns; /* 0: not asked for */
	bool within_units;
};

struct supervise_options {
	const char *memory; /* a folder */
	int64_t restarts;   /* at most, without a later step to go on from */
	int64_t silence_ns; /* of a rank between two steps, after which it hangs; 0: not given */
	int64_t fewer;      /* ranks at least; 0: as many as the command says */
};

struct options {
	struct orr_open_options open;
	struct machine_options machine;
	double timeout_s; /* of a plug-in, see plugin.h, and of a run */
	struct output_options output;
	const char *out;      /* -o; NULL: not wanted */
	const char *measured; /* NULL: none */
	struct orr_run_options run;
	struct checkpoints_options keep;
	struct evaluations_options evaluate;
	struct {
		struct orr_noise noise;
		bool given;
	} jitter;
	struct orr_failures failures; /* mtbf_ns 0: not given */
	struct orr_outage outage;     /* every 0: not given */
	struct compare_options compare;
	struct {
		bool straight, free_activations, makespan, contiguous, unpin, search;
		int added;       /* 1: links' time is added to computing, and not overlapped */
		int restarts;    /* of the search, at least */
		int64_t seconds; /* and until these have passed; 0: no limit */
	} plan;
	struct orr_fit fit; /* which constants */
	struct {
		int64_t steps, epochs; /* -1 and 0: not given */
		bool has_lr, has_momentum, has_final_rate;
		const char *data, *losses;
		const char *init,
			*weights; /* files of weights, to begin with and at the end; or NULL */
		bool init_partly;
		const char *workers; /* the reason for their number; NULL: an option or a file gives
					it */
	} train;
	struct supervise_options supervise;
	bool links;                 /* profile them, and no model */
	bool dot, operators, table; /* of show, show and schedules */
};

/* The options of a verb; what it works on is "GRAPH" or NULL; about: its help, with what stands
 * below the options after a \v. */
struct options options_read(enum verb verb, const char *works_on, const char *about, int argc,
			    char **argv);
/* compare: what is given several times is an axis, and a combination has a value of each: the later
 * an option is among the rows, the faster it varies. options_read() returns combination 0, of one
 * where nothing was. */
int options_n_combinations(void);
struct options options_combination(int i);
/* {option: number or text} of the axes, but for those that a row has anyhow; the caller's. NULL: no
 * memory.
 */
json_t *options_axes(int i);
/* fit: may a column have this name? */
bool options_is_column(const char *name);
/* fit: the options with these values of such columns in their place, that of "graph" being the
 * source; a refusal begins with place. The texts stay. */
struct options options_with(const char *place, int n, char **names, char **values);
/* What was given but for outputs, {name: value or null}; the caller's. NULL: no memory, or no
 * UTF-8. */
json_t *options_words(void);
void options_refuse(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* NULL: none was asked for. */
static inline const struct orr_noise *options_noise(const struct options *o)
{
	return o->jitter.given ? &o->jitter.noise : NULL;
}
