#include "html.h"

#include <stdlib.h>
#include <string.h>

#include "layout.h"
#include "orrery/jobs.h"
#include "base/json.h"
#include "stages.h"
#include "orrery/timeline.h"
#include "page.h"
#include "simulate/idle.h"

/* page.html, with its scripts and with the data in place of its mark: one JSON object in a script
 * that is none. What has a number of entries that grows with the jobs is written as it is found,
 * and never held. Times are nanoseconds from the first start. */
#define MARK "{{data}}"

struct html {
	FILE *file;
	const struct orr_timeline *timeline;
	const struct orr_idle *idle;
	bool first; /* of a list */
	int code;   /* of the first failure, and its message */
	struct orr_error *err;
};

/* ---- JSON in HTML ---- */

/* Within JSON, < stands in strings alone; as an escape it ends no script and opens no comment. */
static int write_escaped(const char *text, size_t size, void *user)
{
	FILE *file = user;

	for (size_t i = 0; i < size; i++)
		if (text[i] == '<')
			(void)fputs("\\u003c", file);
		else
			(void)fputc(text[i], file);
	return 0;
}

/* Numbers as they are meant, as --json has them: 0.1. */
static void write_json(struct html *html, const json_t *json)
{
	if (!html->code &&
	    json_dump_callback(json, write_escaped, html->file,
			       JSON_REAL_PRECISION(15) | JSON_COMPACT | JSON_ENCODE_ANY))
		html->code = orr_fail(html->err, ORR_E_NOMEM, "html: no memory for the data");
}

/* Takes the reference. */
static void write_key(struct html *html, const char *key, json_t *value)
{
	if (!value && !html->code)
		html->code = orr_fail(html->err, ORR_E_NOMEM, "html: no memory for %s", key);
	(void)fprintf(html->file, "\"%s\":", key);
	write_json(html, value);
	(void)fputs(",\n", html->file);
	json_decref(value);
}

/* ---- a timeline ---- */

static int64_t since(const struct html *html, int64_t time_ns)
{
	return time_ns - html->idle->start_ns;
}

static json_t *causes_json(const struct orr_idle *idle)
{
	json_t *workers = json_array();

	for (int w = 0; w < idle->n_workers; w++) {
		json_t *causes = json_object();

		for (int c = 0; c < ORR_CAUSES; c++)
			orr_json_set(&causes, orr_cause_name((enum orr_cause)c),
				     json_integer(idle->causes[w][c]));
		orr_json_append(&workers, causes);
	}
	return workers;
}

/* A character and an integer, thousands of times: fprintf() takes most of the time of a page. */
static void write_number(FILE *file, char before, int64_t value)
{
	char text[24], *at = text + sizeof(text);
	uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;

	do
		*--at = (char)('0' + rest % 10);
	while (rest /= 10);
	if (value < 0)
		*--at = '-';
	*--at = before;
	(void)fwrite(at, 1, (size_t)(text + sizeof(text) - at), file);
}

static void write_letter(FILE *file, int letter)
{
	const char text[] = {',', '"', (char)letter, '"'};

	(void)fwrite(text, 1, sizeof(text), file);
}

/* Before an entry of a list. */
static void separate(struct html *html)
{
	if (!html->first)
		(void)fputc(',', html->file);
	html->first = false;
}

/* When an item that waited for another one, or for a transfer, could have started. */
static void write_awaited(struct html *html, const struct orr_item *item)
{
	const struct orr_timeline *t = html->timeline;
	const struct orr_transfer *x = item->transfer >= 0 ? &t->transfers[item->transfer] : NULL;
	FILE *file = html->file;

	if (x)
		(void)fprintf(file, ",\"%s\"", orr_transfer_name(x->kind));
	else
		(void)fputs(item->came_ns > item->made_ns ? ",\"data\"" : ",null", file);
	if (item->from >= 0) {
		struct orr_job from = orr_jobs_at(t->jobs, item->from);

		write_number(file, ',', from.s);
		write_number(file, ',', from.b);
		write_letter(file, orr_pass_letter(from.d));
		write_number(file, ',', t->jobs->compute[item->from]);
	} else {
		(void)fputs(",null,null,null", file);
		write_number(file, ',', x->from);
	}
	write_number(file, ',', since(html, item->made_ns));
	write_number(file, ',', since(html, item->came_ns));
}

/* [stage, microbatch, pass, start, end, idle since], and of what was awaited to the last [...,
 * transfer or null, its stage, microbatch, pass and worker, when it was made, when it was there];
 * an update has pass "U", and its version in place of a microbatch. */
static void write_item(struct html *html, const struct orr_item *item)
{
	const struct orr_timeline *t = html->timeline;
	bool is_job = item->job >= 0;
	struct orr_job job = is_job ? orr_jobs_at(t->jobs, item->job) : (struct orr_job){0};
	FILE *file = html->file;

	separate(html);
	write_number(file, '[', is_job ? job.s : t->updates[item->update].s);
	write_number(file, ',', is_job ? job.b : t->updates[item->update].version);
	write_letter(file, is_job ? orr_pass_letter(job.d) : 'U');
	write_number(file, ',', since(html, item->start_ns));
	write_number(file, ',', since(html, item->end_ns));
	write_number(file, ',', since(html, item->free_ns));
	if (item->from >= 0 || item->transfer >= 0)
		write_awaited(html, item);
	(void)fputc(']', file);
}

static void write_gap(struct html *html, const struct orr_gap *gap)
{
	separate(html);
	write_number(html->file, '[', gap->w);
	(void)fprintf(html->file, ",\"%s\"", orr_cause_name(gap->phase));
	write_number(html->file, ',', since(html, gap->start_ns));
	write_number(html->file, ',', since(html, gap->end_ns));
	(void)fputc(']', html->file);
}

static void write_items(struct html *html)
{
	const struct orr_idle *idle = html->idle;

	(void)fputs("\"jobs\":[", html->file);
	for (int w = 0; w < idle->n_workers; w++) {
		(void)fputs(w ? "],\n[" : "[", html->file);
		html->first = true;
		for (int i = idle->first[w]; i < idle->first[w + 1]; i++)
			write_item(html, &idle->items[i]);
	}
	(void)fputs("]],\n\"idle\":[", html->file);
	html->first = true;
	for (int i = 0; i < idle->n_gaps; i++)
		write_gap(html, &idle->gaps[i]);
	(void)fputs("],\n", html->file);
}

static void write_point(void *user, int64_t time_ns, int stashes, int64_t bytes)
{
	struct html *html = user;

	separate(html);
	write_number(html->file, '[', since(html, time_ns));
	write_number(html->file, ',', stashes);
	write_number(html->file, ',', bytes);
	(void)fputc(']', html->file);
}

/* [time, stashes, bytes] of every worker. */
static void write_memory(struct html *html)
{
	(void)fputs("\"stash\":[", html->file);
	for (int w = 0; w < html->idle->n_workers && !html->code; w++) {
		(void)fputs(w ? "],\n[" : "[", html->file);
		html->first = true;
		html->code = orr_timeline_stash(html->timeline, w, write_point, html, html->err);
	}
	(void)fputs("]],\n", html->file);
}

/* [worker, start, end, number of the job on it], of a transfer [worker, start, end, null, kind]. */
static void write_path(struct html *html)
{
	struct orr_path_part *parts = NULL;
	int n = 0;

	if (!html->code)
		html->code = orr_idle_path(&parts, &n, html->idle, html->err);
	(void)fputs("\"path\":[", html->file);
	html->first = true;
	for (int i = 0; i < n; i++) {
		const struct orr_path_part *x = &parts[i];

		separate(html);
		write_number(html->file, '[', x->w);
		write_number(html->file, ',', since(html, x->start_ns));
		write_number(html->file, ',', since(html, x->end_ns));
		if (x->item >= 0)
			(void)fprintf(html->file, ",%d]", x->item - html->idle->first[x->w]);
		else
			(void)fprintf(
				html->file, ",null,\"%s\"]",
				x->transfer < 0
					? "data"
					: orr_transfer_name(
						  html->timeline->transfers[x->transfer].kind));
	}
	(void)fputs("]", html->file);
	free(parts);
}

/* [stage, the one that reads it, bytes]. */
static json_t *edges_json(const struct orr_pipeline *p)
{
	json_t *edges = json_array();

	for (int e = 0; e < p->n_edges; e++)
		orr_json_append(&edges, json_pack("[i, i, I]", p->edges[e].from, p->edges[e].to,
						  (json_int_t)p->edges[e].bytes));
	return edges;
}

/* What of a stage's backward is its weight gradient; null: not known apart. */
static json_t *weights_json(const struct orr_pipeline *p)
{
	json_t *weights = p->has_weight ? json_array() : json_null();

	for (int s = 0; s < p->n_stages && p->has_weight; s++)
		orr_json_append(&weights, json_integer(p->stages[s].weight_ns));
	return weights;
}

static void write_timeline(struct html *html, const char *name)
{
	const struct orr_timeline *t = html->timeline;
	const struct orr_pipeline *p = t->jobs->pipeline;
	json_t *workers, *limits; /* of memory; 0: none */
	struct orr_idle *idle = NULL;

	if ((html->code = orr_idle_create(&idle, t, html->err)))
		return;
	html->idle = idle;
	workers = json_array();
	limits = json_array();
	for (int w = 0; w < p->n_workers; w++) {
		orr_json_append(&workers, json_string(orr_layout_worker(t, w)));
		orr_json_append(&limits, json_integer(orr_machine_memory(&p->machine, w)));
	}
	(void)fprintf(html->file, "{\"makespan\":%lld,\n", (long long)since(html, idle->end_ns));
	write_key(html, "name", json_string(name));
	write_key(html, "units", json_boolean(p->units));
	write_key(html, "schedule", json_string(t->jobs->schedule));
	write_key(html, "workers", workers);
	write_key(html, "limits", limits);
	write_key(html, "stages", orr_stages_json(t->jobs, html->err));
	write_key(html, "edges", edges_json(p));
	write_key(html, "weights", weights_json(p));
	write_key(html, "causes", causes_json(idle));
	write_items(html);
	write_memory(html);
	write_path(html);
	(void)fputs("}", html->file);
	orr_idle_destroy(idle);
}

/* ---- the page ---- */

static void write_data(struct html *html, const struct orr_page *page)
{
	(void)fputs("{", html->file);
	write_key(html, "command", json_string(page->command));
	write_key(html, "report", json_incref(page->report));
	write_key(html, "losses", page->losses ? json_incref(page->losses) : json_array());
	(void)fputs("\"timelines\":[", html->file);
	for (int i = 0; i < page->n_timelines && !html->code; i++) {
		(void)fputs(i ? ",\n" : "", html->file);
		html->timeline = page->timelines[i];
		write_timeline(html, page->names[i]);
	}
	(void)fputs("]}", html->file);
}

bool orr_html_has_engine(void)
{
	return *orr_engine_html;
}

/* Returns what is behind the mark. */
static const char *write_up_to(FILE *file, const char *text, const char *mark)
{
	const char *at = strstr(text, mark);

	(void)fwrite(text, 1, (size_t)(at - text), file);
	return at + strlen(mark);
}

int orr_html_write(FILE *file, const struct orr_page *page, struct orr_error *err)
{
	bool computes = page->study && orr_html_has_engine();
	const char *rest = computes ? orr_engine_html : orr_page_html;
	struct html html = {.file = file, .err = err};

	rest = write_up_to(file, rest, MARK);
	write_data(&html, page);
	if (computes) {
		rest = write_up_to(file, rest, "{{study}}");
		write_json(&html, page->study);
	}
	if (html.code)
		return html.code;
	(void)fputs(rest, file);
	return orr_layout_finish(file, "html", err);
}
