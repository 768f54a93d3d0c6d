#ifndef ORR_TOOL_LINKS_H
#define ORR_TOOL_LINKS_H
/* orrery profile --links: latency and bandwidth between every two ranks. */
#include <stdbool.h>

struct session;

/* Measure and print; of several ranks rank 0 alone prints. */
int links_profile(bool json, struct session *s);
#endif
