#pragma once
/* The steps in a checkpoint folder: their names, a list of them, and how one is removed. */
#include "orrery/orrery.h"
#include "folder.h"

#define ORR_STEP_MANIFEST "manifest.json"

/* See orr_text(). */
const char *orr_step_name(int64_t step);            /* step-00000120 */
const char *orr_step_unfinished_name(int64_t step); /* .step-00000120.tmp */
const char *orr_step_shard_name(int64_t number);    /* shard-0.safetensors */
bool orr_step_is_shard(const char *name);

/* All that have the name of a step, the newest first; *steps is the caller's. */
int orr_steps_list(const struct orr_folder *folder, int64_t **steps, int *n, struct orr_error *err);

/* Remove the folder of that name: the shards and the manifest in it, then the folder, unless
 * something else is in it. Of a link the link alone goes; a file stays. */
void orr_step_remove(const struct orr_folder *folder, const char *name);
/* The same for a step; it loses its name at once, whatever happens while its files are removed. */
void orr_step_drop(const struct orr_folder *folder, int64_t step);
/* Or its folder becomes the spare one, in whose files the next step is written, and which is swept
 * as unfinished; it is removed where there is one. */
void orr_step_spare(const struct orr_folder *folder, int64_t step);
const char *orr_step_spare_name(void);
/* And for all that is unfinished; or one of them becomes the spare one. */
void orr_steps_sweep(const struct orr_folder *folder, bool spares);
