#include "export.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "command.h"
#include "open/exchange.h"
#include "schedule/table.h"
#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "base/json.h"
#include "base/quantity.h"
#include "output_file.h"
#include "orrery/pipeline.h"
#include "orrery/try.h"
#include "report/stages.h"
#include "orrery/timeline.h"

#define FORMAT "stages of a schedule by orrery"

/* "v-half.stages.json" of "v-half.csv"; NULL where there is none, or with code no memory. The
 * caller frees it. */
static int name_list(char **list, const char *csv, struct orr_error *err)
{
	size_t length = csv ? strlen(csv) : 0;

	*list = NULL;
	if (length < 5 || strcmp(csv + length - 4, ".csv"))
		return 0;
	if (asprintf(list, "%.*s.stages.json", (int)length - 4, csv) >= 0)
		return 0;
	*list = NULL;
	return orr_fail(err, ORR_E_NOMEM, "%s: no memory for its path", csv);
}

/* One that is there must be one of ours. */
static int check_list(const char *list, struct orr_error *err)
{
	struct stat status;
	bool there = !stat(list, &status);
	json_t *json = there && S_ISREG(status.st_mode) ? json_load_file(list, 0, NULL) : NULL;
	const char *format = json_string_value(json_object_get(json, "format"));
	bool ours = format && !strcmp(format, FORMAT);

	json_decref(json);
	if (there && !ours)
		return orr_fail(err, ORR_E_INPUT,
				"%s: is there, and is no list of stages that --csv wrote: move it, "
				"or name another --csv",
				list);
	return output_check_file("--csv", list, err);
}

int export_check(const char *csv, struct orr_error *err)
{
	char *list = NULL;
	int code;

	if ((code = output_check_file("--csv", csv, err)) || (code = name_list(&list, csv, err)))
		return code;
	if (list)
		code = check_list(list, err);
	free(list);
	return code;
}

static const char *print_losses(char *text, size_t size, const struct orr_omissions *losses)
{
	size_t length = 0;

	text[0] = '\0';
	for (int i = 0; i < losses->n && length < size; i++)
		length += (size_t)snprintf(text + length, size - length, "%s%s", i ? "; " : "",
					   losses->text[i]);
	return text;
}

/* What a schedule says, and so a CSV of it: of a graph that was split, of the stages before. */
static const struct orr_jobs *said(const struct orr_jobs *jobs)
{
	return jobs->groups ? jobs->groups->jobs : jobs;
}

int export_check_jobs(const char *csv, bool strict, const struct orr_jobs *jobs,
		      struct orr_error *err)
{
	struct orr_omissions losses;
	char text[120];

	if (!csv || !strict)
		return 0;
	orr_omissions_find(&losses, said(jobs));
	if (!losses.n)
		return 0;
	return orr_fail(
		err, ORR_E_INPUT,
		"--strict-csv: %.40s would not say: %s: `simulate -o FILE.json` says all of it",
		csv, print_losses(text, sizeof(text), &losses));
}

/* ---- reading it back ---- */

static int read_back(struct orr_table **table, const struct orr_timeline *t, struct orr_error *err)
{
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);
	int code = file ? orr_exchange_write(file, t, err) : 0;

	if (!file || (fclose(file) && !code))
		code = orr_fail(err, ORR_E_NOMEM, "no memory for a CSV");
	if (!code)
		code = orr_exchange_parse(table, "csv", text, size, err);
	free(text);
	return code;
}

static int compare(bool *same, const struct orr_timeline *t, const struct orr_table *table,
		   struct orr_error *err)
{
	size_t bytes = (size_t)t->jobs->n_jobs * sizeof(*t->start_ns);
	struct orr_schedule schedule;
	struct orr_try again;
	int code;

	orr_table_schedule(&schedule, table);
	if (!(code = orr_try_init(&again, t->jobs->pipeline, &schedule, NULL, err)) &&
	    !(code = orr_try_time(&again, err)))
		*same = !memcmp(again.timeline->start_ns, t->start_ns, bytes) &&
			!memcmp(again.timeline->end_ns, t->end_ns, bytes);
	orr_try_fini(&again);
	return code;
}

int export_check_timeline(const char *csv, bool strict, const struct orr_timeline *t,
			  struct orr_error *err)
{
	static const char why[] = "which transfer goes first where several are asked for at once";
	struct orr_table *table = NULL;
	struct orr_omissions losses;
	bool same = true;
	int code;

	if (!csv)
		return 0;
	orr_omissions_find(&losses, said(t->jobs));
	if (losses.n) /* said, or refused */
		return 0;
	if (!(code = read_back(&table, t, err)))
		code = compare(&same, t, table, err);
	orr_table_destroy(table);
	if (code || same)
		return code;
	if (strict)
		return orr_fail(err, ORR_E_INPUT,
				"--strict-csv: %.60s would not say %s, which changes the timeline: "
				"`simulate -o FILE.json` says it",
				csv, why);
	command_say(orr_text("%.300s does not say %s%s", csv, why,
			     t->jobs->groups ? "" : ": `simulate -o FILE.json` does"));
	return 0;
}

/* ---- writing ---- */

static int write_list(const char *list, const struct orr_jobs *jobs,
		      const struct orr_omissions *losses, struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;
	json_t *stages = orr_stages_json(jobs, err), *edges, *lost, *json;
	int code;

	if (!stages)
		return ORR_E_NOMEM;
	edges = json_array();
	lost = json_array();
	for (const struct orr_edge *e = p->edges; e < p->edges + p->n_edges; e++)
		orr_json_append(&edges, json_pack("[i, i]", e->from, e->to));
	for (int i = 0; i < losses->n; i++)
		orr_json_append(&lost, json_string(losses->text[i]));
	json = json_pack("{s:s, s:s, s:s?, s:s, s:o, s:o, s:o}", "format", FORMAT, "schedule",
			 jobs->schedule, "model", p->graph ? p->graph->name : NULL, "unit",
			 orr_stages_unit(p), "stages", stages, "edges", edges, "not_in_csv", lost);
	code = json ? output_write_json(list, json, err)
		    : orr_fail(err, ORR_E_NOMEM, "%s: no memory for its stages", list);
	json_decref(json);
	return code;
}

int export_write(const char *csv, const struct orr_timeline *t, struct orr_error *err)
{
	struct orr_omissions losses;
	char text[ORR_MOST_OMISSIONS * ORR_OMISSION_TEXT], line[1024], *list = NULL;
	struct output_stream s;
	int code;

	if (!csv)
		return 0;
	orr_omissions_find(&losses, said(t->jobs));
	if (!(code = output_begin(&s, csv, err)))
		code = output_end(&s, orr_exchange_write(s.file, t, err), err);
	if (!code && !(code = name_list(&list, csv, err)) && list)
		code = write_list(list, said(t->jobs), &losses, err);
	free(list);
	if (!code && losses.n) {
		(void)snprintf(line, sizeof(line), "%.300s does not say: %s%s", csv,
			       print_losses(text, sizeof(text), &losses),
			       t->jobs->groups ? "" : ". `simulate -o FILE.json` says all of it");
		command_say(line);
	}
	return code;
}
