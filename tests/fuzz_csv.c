/* Any text as a schedule's CSV: read or refused in one line, and what is read and does not deadlock
 * comes back from the file that it is written to. */
#include "fuzz.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "open/exchange.h"
#include "orrery/jobs.h"
#include "orrery/machine.h"
#include "orrery/pipeline.h"
#include "simulate/simulate.h"
#include "schedule/table.h"
#include "orrery/timeline.h"

#define MOST_JOBS 3000 /* that are worth the time */
#define MOST_WORKERS 3000

static struct orr_pipeline *make_chain(const struct orr_table *table)
{
	struct orr_stage *stages = calloc((size_t)table->n_stages, sizeof(*stages));
	struct orr_edge *edges = calloc((size_t)table->n_stages, sizeof(*edges));
	struct orr_pipeline *p = NULL;
	struct orr_error err = {""};

	if (!stages || !edges)
		fail("no memory", "");
	for (int s = 0; s < table->n_stages; s++) {
		stages[s] = (struct orr_stage){.forward_ns = 1, .backward_ns = 1, .weight_ns = 1};
		edges[s] = (struct orr_edge){.from = s, .to = s + 1, .bytes = 1};
	}
	if (orr_pipeline_create(&p, stages, table->n_stages, edges, table->n_stages - 1, &err) ||
	    orr_pipeline_set_step(p, table->n_workers, table->n_microbatches, &err))
		fail("no pipeline", err.msg);
	free(stages);
	free(edges);
	return p;
}

/* NULL: it deadlocks. */
static struct orr_timeline *simulate(struct orr_jobs **jobs, const struct orr_pipeline *p,
				     const struct orr_table *table)
{
	struct orr_timeline *timeline = NULL;
	struct orr_schedule schedule;
	struct orr_error err = {""};

	orr_table_schedule(&schedule, table);
	if (orr_jobs_create(jobs, p, &schedule, &err)) {
		check_refusal(&err);
		/* whether a stage has a pass, the model says */
		if (!strstr(err.msg, "deadlock") && !strstr(err.msg, ": no job "))
			fail("refused for another reason", err.msg);
		return NULL;
	}
	if (orr_simulate(&timeline, *jobs, &err) || orr_timeline_check(timeline, &err))
		fail("no timeline", err.msg);
	return timeline;
}

static struct orr_table *write_and_read(const struct orr_timeline *timeline)
{
	struct orr_table *again = NULL;
	struct orr_error err = {""};
	size_t size = 0;
	char *text = NULL;
	FILE *file = open_memstream(&text, &size);

	if (!file || orr_exchange_write(file, timeline, &err) || fclose(file))
		fail("cannot be written", err.msg);
	if (orr_exchange_parse(&again, "again.csv", text, size, &err))
		fail("cannot be read back", err.msg);
	free(text);
	return again;
}

static void go_round(const struct orr_table *table)
{
	struct orr_pipeline *p = make_chain(table);
	struct orr_jobs *jobs = NULL, *jobs_again = NULL;
	struct orr_timeline *timeline = simulate(&jobs, p, table), *timeline_again;
	struct orr_table *again;

	if (timeline) {
		size_t n = (size_t)jobs->n_jobs * sizeof(*timeline->start_ns);

		again = write_and_read(timeline);
		timeline_again = simulate(&jobs_again, p, again);
		if (!timeline_again || memcmp(timeline->start_ns, timeline_again->start_ns, n))
			fail("read back to another timeline", "");
		orr_timeline_destroy(timeline_again);
		orr_jobs_destroy(jobs_again);
		orr_table_destroy(again);
	}
	orr_timeline_destroy(timeline);
	orr_jobs_destroy(jobs);
	orr_pipeline_destroy(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct orr_table *table = NULL;
	struct orr_error err = {""};

	if (orr_exchange_parse(&table, "fuzz.csv", (const char *)data, size, &err))
		check_refusal(&err);
	else if ((int64_t)table->n_stages * table->n_microbatches <= MOST_JOBS &&
		 table->n_workers <= MOST_WORKERS)
		go_round(table);
	orr_table_destroy(table);
	return 0;
}
