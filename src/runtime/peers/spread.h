#pragma once
/* The copy to go on from, whose shards lie in the memory of one host or several. */
#include "hosts.h"

struct orr_checkpoint;

ORR_BEGIN

/* Collective: the newest step up to `last` of which any host has a copy, or -1. */
int orr_spread_newest(int64_t *step, const struct orr_hosts *hosts, int64_t last,
		      struct orr_error *err);

/* Collective, with the same outcome on all ranks. Each host reads its shards through, and each
 * shard is taken from a host that has it whole; report gets a line where another has it damaged. A
 * rank reads what is not on its host through messages, which the first rank of another answers
 * until all ranks have closed *out. ORR_E_INPUT: a shard is whole on none. */
int orr_spread_open(struct orr_checkpoint **out, const struct orr_hosts *hosts, int64_t step,
		    void (*report)(const char *line), struct orr_error *err);

/* On this rank's host, if it is the first there, all other copies are removed, and what is
 * unfinished; or where there is one host alone, the next copy is written over one of them. -1: all
 * are. */
void orr_spread_keep(const struct orr_hosts *hosts, int64_t step);

ORR_END
