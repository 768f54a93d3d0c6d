#include "diagram.h"

#include <jansson.h>
#include <stdlib.h>

#include "orrery/jobs.h"
#include "layout.h"
#include "parts.h"
#include "orrery/timeline.h"

/* The trace event format of Chrome, which Perfetto opens: one process a timeline, one thread a
 * worker. Written as it is found, never held, so that a million jobs take no more memory than their
 * layout. */
struct trace {
	FILE *file;
	const struct orr_layout *layout;
	int process;
	int64_t n_events, n_arrows; /* over all processes: an arrow's number is its own */
	int counter;                /* (of a memory curve) the worker */
	bool bytes;                 /* (of a memory curve) the sizes of stashes are known */
};

/* Every event starts so; times are microseconds, to the nanosecond. */
static void start_event(struct trace *trace, char phase, int thread, int64_t time_ns)
{
	fprintf(trace->file, "%s\n{\"ph\":\"%c\",\"pid\":%d,\"tid\":%d,\"ts\":%lld.%03d",
		trace->n_events++ ? "," : "", phase, trace->process, thread,
		(long long)(time_ns / 1000), (int)(time_ns % 1000));
}

/* Of the process or a thread: its name, and its number as its place. */
static void write_name(struct trace *trace, const char *what, int thread, const char *name, int n)
{
	json_t *text = json_string(name);

	start_event(trace, 'M', thread, 0);
	fprintf(trace->file, ",\"name\":\"%s_name\",\"args\":{\"name\":", what);
	(void)json_dumpf(text, trace->file, JSON_ENCODE_ANY);
	fprintf(trace->file, "}}");
	start_event(trace, 'M', thread, 0);
	fprintf(trace->file, ",\"name\":\"%s_sort_index\",\"args\":{\"sort_index\":%d}}", what, n);
	json_decref(text);
}

static void write_jobs(struct trace *trace)
{
	const struct orr_layout *layout = trace->layout;
	const struct orr_pipeline *p = layout->timeline->jobs->pipeline;

	for (int i = 0; i < layout->n_cells; i++) {
		const struct orr_cell *cell = &layout->cells[i];
		int64_t duration = cell->end_ns - cell->start_ns;

		start_event(trace, 'X', cell->w, cell->start_ns);
		fprintf(trace->file,
			",\"dur\":%lld.%03d,\"name\":\"%s\",\"cat\":\"%s\",\"args\":{\"stage\":%d",
			(long long)(duration / 1000), (int)(duration % 1000),
			orr_layout_label(cell, ORR_LABEL_JOB),
			cell->kind == ORR_KIND_UPDATE ? "update" : "job", cell->s);
		if (p->split)
			fprintf(trace->file, ",\"part of\":\"%s\"", orr_part_text(p, cell->s));
		if (cell->kind != ORR_KIND_UPDATE)
			fprintf(trace->file, ",\"microbatch\":%d,\"pass\":\"%c\"", cell->b,
				orr_pass_letter((enum orr_pass)cell->kind));
		fprintf(trace->file, "}}");
	}
}

/* An arrow belongs to the job that covers its time: it leaves in the last nanosecond of the
 * producer and arrives at the start of the consumer, at number i of its workers. */
static void write_arrow(struct trace *trace, const char *name, int producer, int consumer, int i)
{
	const struct orr_timeline *t = trace->layout->timeline;
	int from = orr_jobs_sender(t->jobs, producer, consumer, i);
	int64_t leave = t->end_ns[producer], origin = trace->layout->origin_ns;

	if (t->start_ns[producer] < 0 || leave < 0 || t->start_ns[consumer] < 0 ||
	    t->end_ns[consumer] < 0)
		return;
	if (leave > t->start_ns[producer])
		leave--;
	if (from < 0) /* the last job of a sum; the first one says whence */
		from = t->jobs->compute[producer];
	start_event(trace, 's', from, leave - origin);
	fprintf(trace->file, ",\"id\":%lld,\"cat\":\"transfer\",\"name\":\"%s\"}",
		(long long)trace->n_arrows, name);
	start_event(trace, 'f', orr_jobs_worker(t->jobs, consumer, i),
		    t->start_ns[consumer] - origin);
	fprintf(trace->file, ",\"bp\":\"e\",\"id\":%lld,\"cat\":\"transfer\",\"name\":\"%s\"}",
		(long long)trace->n_arrows, name);
	trace->n_arrows++;
}

/* Only from job to job: parameters come from no job, and weight gradients go to none. */
static void write_transfers(struct trace *trace)
{
	const struct orr_timeline *t = trace->layout->timeline;

	for (int i = 0; i < t->n_transfers; i++) {
		const struct orr_transfer *transfer = &t->transfers[i];

		if (transfer->producer >= 0 && transfer->consumer >= 0)
			write_arrow(trace, orr_transfer_name(transfer->kind), transfer->producer,
				    transfer->consumer,
				    transfer->kind == ORR_TRANSFER_PARK
					    ? 0
					    : orr_jobs_number_at(t->jobs, transfer->consumer,
								 transfer->to));
	}
}

/* Than parked stashes. */
static bool has_others(const struct orr_timeline *t)
{
	for (int i = 0; i < t->n_transfers; i++)
		if (t->transfers[i].kind != ORR_TRANSFER_PARK)
			return true;
	return false;
}

static const char *moved(struct orr_job from, struct orr_job to)
{
	if (from.s == to.s)
		return "stash";
	return to.d == ORR_PASS_F ? "activation" : "gradient";
}

/* Without recorded transfers (free links, or a run), the jobs say what moved: every edge between
 * two workers but that of a cap, which carries nothing. */
static int derive_transfers(struct trace *trace, struct orr_error *err)
{
	const struct orr_jobs *jobs = trace->layout->timeline->jobs;
	int *predecessors = malloc(orr_jobs_most_around(jobs) * sizeof(*predecessors));

	if (!predecessors)
		return orr_no_memory(err, "trace");
	for (int j = 0; j < jobs->n_jobs; j++) {
		struct orr_job to = orr_jobs_at(jobs, j);
		int n = orr_jobs_predecessors(jobs, j, predecessors);

		for (int i = 0; i < n; i++) {
			struct orr_job from = orr_jobs_at(jobs, predecessors[i]);

			for (int k = 0; k < orr_jobs_n_at(jobs, j); k++)
				if (orr_jobs_sender(jobs, predecessors[i], j, k) >= 0)
					write_arrow(trace, moved(from, to), predecessors[i], j, k);
		}
	}
	free(predecessors);
	return 0;
}

static void write_point(void *user, int64_t time_ns, int stashes, int64_t bytes)
{
	struct trace *trace = user;

	time_ns -= trace->layout->origin_ns;
	start_event(trace, 'C', trace->counter, time_ns);
	fprintf(trace->file, ",\"name\":\"w%d stashes\",\"args\":{\"stashes\":%d}}", trace->counter,
		stashes);
	if (!trace->bytes)
		return;
	start_event(trace, 'C', trace->counter, time_ns);
	fprintf(trace->file, ",\"name\":\"w%d stash bytes\",\"args\":{\"bytes\":%lld}}",
		trace->counter, (long long)bytes);
}

static int write_timeline(struct trace *trace, const char *name, struct orr_error *err)
{
	const struct orr_timeline *t = trace->layout->timeline;
	int code = 0;

	write_name(trace, "process", 0, name, trace->process);
	for (int w = 0; w < trace->layout->n_workers; w++)
		write_name(trace, "thread", w, orr_layout_worker(t, w), w);
	write_jobs(trace);
	write_transfers(trace);
	if (!has_others(t))
		code = derive_transfers(trace, err);
	trace->bytes = false;
	for (int s = 0; s < t->jobs->pipeline->n_stages; s++)
		trace->bytes = trace->bytes || t->jobs->pipeline->stages[s].stash_bytes > 0;
	for (int w = 0; !code && w < trace->layout->n_workers; w++) {
		trace->counter = w;
		code = orr_timeline_stash(t, w, write_point, trace, err);
	}
	return code;
}

int orr_diagram_trace(FILE *file, const struct orr_timeline *const *timelines,
		      const char *const *names, int n_timelines, struct orr_error *err)
{
	struct trace trace = {.file = file};
	struct orr_layout layout;
	int code = 0;

	fprintf(file, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
	for (int i = 0; i < n_timelines && !code; i++) {
		if ((code = orr_layout_init(&layout, timelines[i], err)))
			break;
		trace.layout = &layout;
		trace.process = i;
		code = write_timeline(&trace, names[i], err);
		orr_arrays_free(&layout.all);
	}
	fprintf(file, "\n]}\n");
	return code ? code : orr_layout_finish(file, "trace", err);
}
