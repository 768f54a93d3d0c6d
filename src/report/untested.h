#pragma once
/* What a simulation says nothing about, because sizes or links are missing: a limit that no
 * operator's size is held against, or traffic that takes no time. */
#include <stddef.h>
#include <jansson.h>
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_jobs;

struct orr_untested {
	const char
		*what;   /* "memory", "stashes in memory", "parameters in memory", "links",
			    "activations on links", "all-reduce", "all-gather" or "some operators" */
	const char *why; /* "no operator has a size" */
};
#define ORR_MOST_UNTESTED 4
/* Fills list and returns how many there are. Memory and links count where the machine limits them;
 * the all-reduce of replicas, or the all-gather of parameters that are kept elsewhere, always. */
int orr_untested_find(struct orr_untested list[ORR_MOST_UNTESTED], const struct orr_jobs *jobs);
/* "not tested: memory, links (no operator has a size)", or "". Returns buffer. */
const char *orr_untested_print(char *buffer, size_t size, const struct orr_untested *list, int n);
/* Set the key not_tested of a report (base/json.h): an array of what. */
void orr_untested_json(json_t **report, const struct orr_untested *list, int n);

ORR_END
