#ifndef ORR_SCAN_H
#define ORR_SCAN_H
/* Where things stand in a DOT file. libcgraph keeps no lines; this finds the line of every
 * operator, subgraph and attribute that the text names, and refuses a few things that libcgraph
 * reads as something else or not at all. */
#include "orrery/error.h"

enum orr_mention_kind {
	ORR_MENTION_NODE,     /* name; other: its attribute, or "" for the node itself */
	ORR_MENTION_SUBGRAPH, /* name, "" if it has none; the same for other */
	ORR_MENTION_DEFAULT /* name: "node", "edge" or "graph"; other: the attribute; any edge's are
			       here, too */
};

struct orr_mention {
	enum orr_mention_kind kind;
	char *name, *other; /* owned */
	int line;
};

struct orr_scan {
	struct orr_mention *mentions; /* owned; sorted for orr_scan_line() */
	int n_mentions, room;
};

/* Read text. file stands in the messages. */
int orr_scan_init(struct orr_scan *scan, const char *file, const char *text, struct orr_error *err);
void orr_scan_fini(struct orr_scan *scan);

/* The line of the first mention, or 0. */
int orr_scan_line(const struct orr_scan *scan, enum orr_mention_kind kind, const char *name,
		  const char *other);
#endif
