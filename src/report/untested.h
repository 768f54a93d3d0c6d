#pragma once
/* What a simulation says nothing about, because sizes or links are missing: a limit that no
 * operator's size is held against, or traffic that takes no time. */
#include <jansson.h>
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_jobs;

struct orr_untested {
	int n;
	struct {
		const char *what; /* one of 8: "memory", "stashes in memory", "parameters in
				     memory", "links", "activations on links", "all-reduce",
				     "all-gather" or "some operators" */
		const char *why;  /* "no operator has a size" */
	} list[8];
};
/* Memory and links count where the machine limits them; the all-reduce of replicas, or the
 * all-gather of parameters that are kept elsewhere, always. */
struct orr_untested orr_untested_find(const struct orr_jobs *jobs);
/* "not tested: memory, links (no operator has a size)", or ""; see orr_text(). */
const char *orr_untested_text(const struct orr_untested *u);
/* Set the key not_tested of a report (base/json.h): an array of what. */
void orr_untested_json(json_t **report, const struct orr_untested *u);

ORR_END
