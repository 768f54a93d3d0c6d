/* Which stages recompute, and which park their stashes where, as users list them. */
#include "orrery/pipeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/quantity.h"

/* Of a stage that is named: */
#define WAITS INT32_MIN /* what it gets is said later */
#define TWICE INT32_MAX

/* "0,1=7,all=host": a stage gets what stands behind the next =, a worker + 1 or ORR_HOST; where
 * nothing does, ORR_HOST. false: this is no such list. value: zeros. */
static bool read_list(int *value, int n_stages, const char *text)
{
	const char *end;

	for (const char *at = text; at; at = *end ? end + 1 : NULL) {
		int64_t first = 0, last = n_stages - 1, worker = -1;
		char item[32], *place;

		end = at + strcspn(at, ",");
		(void)snprintf(item, sizeof(item), "%.*s", (int)(end - at), at);
		if ((place = strchr(item, '=')))
			*place++ = '\0';
		if ((size_t)(end - at) >= sizeof(item) ||
		    (strcmp(item, "all") && orr_count_parse(&first, item, 0, last, "", NULL)) ||
		    (place && strcmp(place, "host") &&
		     orr_count_parse(&worker, place, 0, INT32_MAX - 2, "", NULL)))
			return false;
		last = strcmp(item, "all") ? first : last;
		for (int64_t s = first; s <= last; s++)
			value[s] = value[s] ? TWICE : WAITS;
		for (int s = 0; s < n_stages && (place || !*end); s++)
			if (value[s] == WAITS)
				value[s] = worker < 0 ? ORR_HOST : (int)worker + 1;
	}
	return true;
}

static int check_stage(const struct orr_stage *stage, int s, const char *text, bool parks,
		       int value, struct orr_error *err)
{
	if (parks && value == TWICE)
		return orr_fail(err, ORR_E_INPUT, "[park]: '%.60s': stage %d twice: name it once",
				text, s);
	if (parks || !value || !stage->gather)
		return 0;
	return orr_fail(err, ORR_E_INPUT,
			"[recompute]: '%.60s': stage %d gathers the minibatch (gather=), of which "
			"it keeps less than it reads: leave it out",
			text, s);
}

/* The parts of a stage do as it does. */
static int set(struct orr_pipeline *p, const char *text, bool parks, struct orr_error *err)
{
	struct orr_pipeline *whole = p->split ? p->split->whole : p;
	int n = whole->n_stages, *value = calloc((size_t)n, sizeof(*value)), code = 0;
	bool all = !parks && !strcmp(text, "all");

	if (!value)
		return orr_no_memory(err, "pipeline");
	if (strcmp(text, "none") &&
	    (!read_list(value, n, text) || (!parks && !all && strpbrk(text, "a="))))
		code = orr_fail(err, ORR_E_INPUT,
				"[%s]: '%.60s': give all, none, or stages from 0 to %d with commas "
				"between them%s",
				parks ? "park" : "recompute", text, n - 1,
				parks ? ", and after = the worker that keeps their stashes, or "
					"host, such as 0,1=7"
				      : "");
	for (int s = 0; s < n && !code; s++) {
		if (all && whole->stages[s].gather)
			value[s] = 0;
		code = check_stage(&whole->stages[s], s, text, parks, value[s], err);
		if (parks)
			whole->stages[s].park = value[s];
		else
			whole->stages[s].recompute = value[s] != 0;
	}
	for (int s = 0; p->split && s < p->n_stages && !code; s++) {
		p->stages[s].recompute = whole->stages[p->split->stage[s]].recompute;
		p->stages[s].park = whole->stages[p->split->stage[s]].park;
	}
	free(value);
	return code;
}

int orr_pipeline_set_recompute(struct orr_pipeline *p, const char *text, struct orr_error *err)
{
	return set(p, text, false, err);
}

int orr_pipeline_set_park(struct orr_pipeline *p, const char *text, struct orr_error *err)
{
	return set(p, text, true, err);
}
