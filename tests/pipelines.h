#pragma once
/* Pipelines and whole ways through, short to write in a test. Any failure fails the test. */
#include <stdbool.h>
#include <stdint.h>
#include "orrery/figures.h"
#include "orrery/jobs.h"
#include "orrery/machine.h"
#include "orrery/pipeline.h"
#include "orrery/open.h"
#include "simulate/simulate.h"
#include "orrery/timeline.h"
#include "orrery/try.h"
#include "order/block.h"

/* Equal stages over a list of edges "0>1 1>2"; costs in units; every edge carries bytes. */
struct orr_pipeline *make_pipeline(int n_stages, const char *edges, int64_t forward,
				   int64_t backward, int64_t weight, int64_t stash_bytes,
				   int64_t parameter_bytes, int64_t edge_bytes);
/* A chain, with a stash of a byte and nothing else that has bytes; and one with all of it. */
struct orr_pipeline *make_chain(int n_stages, int64_t forward, int64_t backward);
struct orr_pipeline *make_whole_chain(int n_stages, int64_t forward, int64_t backward,
				      int64_t weight, int64_t stash_bytes, int64_t parameter_bytes,
				      int64_t edge_bytes);
/* Towers of the given lengths (ends with 0), joined by a trunk. */
struct orr_pipeline *make_towers(const int *towers, int trunk, int64_t forward, int64_t backward);

/* The same pipeline with n microbatches that differ: number b takes times[b] units for F and as
 * many for B on every stage; its stash has ten bytes a unit, and what it sends one. */
struct orr_pipeline *make_differ(struct orr_pipeline *p, const int *times, int n);

/* The workers of a machine that is written as DOT, by a format. */
struct orr_cluster *parse_cluster(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A schedule as text, and the try of it. */
struct way {
	struct orr_pipeline *pipeline; /* borrowed */
	struct orr_choice choice;
	struct orr_try tried;
};
void way_init(struct way *way, struct orr_pipeline *p, const char *schedule, int n_workers,
	      int n_microbatches);
void way_init_on(struct way *way, struct orr_pipeline *p, const char *schedule,
		 const struct orr_machine *machine, int n_microbatches);
/* The same for a schedule that is no text, whose timeline is checked. */
void way_init_own(struct way *way, struct orr_pipeline *p, const struct orr_schedule *schedule,
		  int n_workers, int n_microbatches);
void way_fini(struct way *way);
void way_end(struct way *way); /* and destroy its pipeline */
/* The same for a schedule that may not serve this pipeline: false, and nothing is made, where it
 * refuses with a reason, which fails the test where the schedule has no check(). */
bool way_try_on(struct way *way, struct orr_pipeline *p, const char *schedule,
		const struct orr_machine *machine, int n_microbatches);
bool way_try(struct way *way, struct orr_pipeline *p, const char *schedule, int n_workers,
	     int n_microbatches);
/* How many schedules are built in. */
int count_schedules(void);
/* The i-th of them; auto with what it starts from alone, where the search is not what is tested. */
const char *quick_schedule(int i);
/* The jobs of worker w in the order of their starts, "0F0 0F1 0B0 0B1"; up to the second next call.
 */
const char *way_order(const struct way *way, int w);
/* Equation 1 of [Qi24]: no more stage stashes than this are ever on worker w, the sum over its
 * stages of ceil(lifespan / T). Of a block that was filled. */
int64_t block_peak(const struct orr_block *block, int w);
/* Whole units of a duration. */
int64_t units(int64_t ns);
/* The most stage stashes that any worker holds. */
int peak_of(const struct orr_figures *f);
