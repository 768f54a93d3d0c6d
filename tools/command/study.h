#pragma once
/* A command line for the page that --html writes, which runs it again: see struct orr_page. */
#include <jansson.h>

struct options;
struct orr_opened;

/* The caller's. NULL: the page shows no more than it is given: it is not wanted, the build has no
 * engine, the engine has not what was used (a plug-in, a measured step), or there was no memory. */
json_t *study_json(const struct options *o, const struct orr_opened *x);
