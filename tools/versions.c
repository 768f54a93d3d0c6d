#include "versions.h"

#include <stdio.h>
#include <stdlib.h>

#include "orrery/jobs.h"
#include "orrery/run.h"
#include "orrery/versions.h"

int versions_gather(struct orr_run_versions **out, const struct orr_jobs *jobs, struct orr_run *run,
		    struct orr_error *err)
{
	struct orr_run_versions *stages;
	int code;

	*out = NULL;
	if (!jobs->async)
		return 0;
	if (!(stages = calloc((size_t)jobs->pipeline->n_stages, sizeof(*stages))))
		return orr_fail(err, ORR_E_NOMEM, "no memory for the versions");
	if ((code = orr_run_versions(run, stages, err)))
		free(stages);
	else
		*out = stages;
	return code;
}

/* "2", "1-3", "-". */
static const char *print_range(char *cell, size_t size, int64_t least, int64_t most)
{
	if (least < 0)
		(void)snprintf(cell, size, "-");
	else
		(void)snprintf(cell, size, least == most ? "%lld" : "%lld-%lld", (long long)least,
			       (long long)most);
	return cell;
}

void versions_print(const struct orr_jobs *jobs, const struct orr_run_versions *stages)
{
	char measured[48], expected[48];
	int64_t n_read = 0, n_wrong = 0;

	printf("\nversions, as the tasks have found them (and as they must be):\n"
	       "stage      staleness  versions held\n");
	for (int s = 0; s < jobs->pipeline->n_stages; s++) {
		int least, most;

		n_read += stages[s].n_read;
		n_wrong += stages[s].n_wrong;
		if (!stages[s].n_read)
			continue;
		orr_versions_steady(jobs->versions, s, &least, &most);
		print_range(measured, sizeof(measured), stages[s].least, stages[s].most);
		print_range(expected, sizeof(expected), least, most);
		printf("s%-6d %7s (%s)  %9d (%d)\n", s, measured, expected, stages[s].held,
		       jobs->versions->peak[s]);
	}
	printf("passes that read another version than they must: %lld of %lld\n",
	       (long long)n_wrong, (long long)n_read);
}

json_t *versions_json(const struct orr_jobs *jobs, const struct orr_run_versions *stages)
{
	json_t *list = json_array();

	for (int s = 0; list && s < jobs->pipeline->n_stages; s++) {
		const struct orr_run_versions *v = &stages[s];
		/* a pipeline that never filled up, and a stage without parameters, have no
		 * staleness */
		json_t *least = v->least < 0 ? json_null() : json_integer(v->least);
		json_t *most = v->least < 0 ? json_null() : json_integer(v->most);

		if (json_array_append_new(list,
					  json_pack("{s:o, s:o, s:i, s:I, s:I}", "staleness_least",
						    least, "staleness_most", most, "versions_held",
						    v->held, "passes", (json_int_t)v->n_read,
						    "passes_wrong", (json_int_t)v->n_wrong))) {
			json_decref(list);
			list = NULL;
		}
	}
	return list;
}
