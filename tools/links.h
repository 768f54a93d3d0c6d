#ifndef ORR_TOOL_LINKS_H
#define ORR_TOOL_LINKS_H
/* orrery profile --links: what a message between every two ranks takes. */
#include <stdbool.h>

struct session;

/* Measure and print; of several ranks rank 0 alone prints. */
int links_profile(bool json, struct session *s);
#endif
