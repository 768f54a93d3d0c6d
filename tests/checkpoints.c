#include "checkpoints.h"
#include "newest.h"
#include "suite.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char work[] = "orrery-checkpoint-XXXXXX", folder[80];
struct orr_error err;
int n_reported;
char reported[512];
const char *const parts[N_PARTS] = {"manifest.json", "shard-0.safetensors", "shard-1.safetensors"};

static void report(const char *line)
{
	n_reported++;
	(void)snprintf(reported, sizeof(reported), "%s", line);
}

/* ---- a small state, different at every step ---- */

void fill(struct orr_named_tensor *tensors, float *values, int64_t step)
{
	static const struct orr_named_tensor shapes[N_TENSORS] = {
		{.name = "a.weight", .n_dims = 2, .shape = {2, 3}},
		{.name = "a.bias", .n_dims = 1, .shape = {2, 1}},
		{.name = "b.gain", .n_dims = 1, .shape = {9, 1}}};
	float *at = values;

	for (int i = 0; i < N_TENSORS; i++) {
		tensors[i] = shapes[i];
		tensors[i].values = at;
		at += orr_named_tensor_floats(&shapes[i]);
	}
	for (int i = 0; i < N_FLOATS; i++)
		values[i] = (float)(100 * step + i) + 0.25f;
}

json_t *about(void)
{
	return json_pack("{s:{s:s,s:f},s:{s:s,s:s},s:i}", "optimizer", "name", "sgd",
			 "learning_rate", 0.1, "graph", "a", "linear 2 of x", "b",
			 "layernorm 9 of a", "batch", 96);
}

/* Two owners: the last tensor is in a shard of its own. */
int save(int64_t step, int keep)
{
	struct orr_named_tensor tensors[N_TENSORS];
	struct orr_shard shards[2];
	float values[N_FLOATS];
	json_t *what = about();
	int code;

	ck_assert_ptr_nonnull(what);
	fill(tensors, values, step);
	if ((code = orr_checkpoint_begin(folder, step, 2, &err)) ||
	    (code = orr_checkpoint_write(folder, step, 0, tensors, N_TENSORS - 1, &shards[0],
					 &err)) ||
	    (code = orr_checkpoint_write(folder, step, 1, tensors + N_TENSORS - 1, 1, &shards[1],
					 &err)) ||
	    (code = orr_checkpoint_commit(folder, step, 96 * step, what, shards, 2, keep, &err)))
		orr_checkpoint_abandon(folder, step);
	json_decref(what);
	return code;
}

void save_half(int64_t step)
{
	struct orr_named_tensor tensors[N_TENSORS];
	struct orr_shard shard;
	float values[N_FLOATS];

	fill(tensors, values, step);
	ck_assert(!orr_checkpoint_begin(folder, step, 2, &err));
	ck_assert(!orr_checkpoint_write(folder, step, 0, tensors, N_TENSORS - 1, &shard, &err));
}

/* All floats are those of that step. */
static void check_values(const struct orr_checkpoint *c, int64_t step)
{
	struct orr_named_tensor tensors[N_TENSORS];
	float values[N_FLOATS], expected[N_FLOATS];

	fill(tensors, expected, step);
	fill(tensors, values, step + 1);
	for (int i = 0; i < N_TENSORS; i++)
		ck_assert_msg(!orr_checkpoint_read(c, &tensors[i], &err), "%s", err.msg);
	ck_assert(!memcmp(values, expected, sizeof(values)));
}

/* The newest that opens: its step, or -1. Its values must be right. */
int64_t resume(void)
{
	struct orr_checkpoint *c = NULL;
	json_t *what = about();
	int64_t step = -1;
	int code;

	n_reported = 0;
	code = open_newest(&c, folder, report, &err);
	if (code) {
		ck_assert_int_eq(code, ORR_E_INPUT);
		ck_assert_ptr_null(strchr(err.msg, '\n'));
	} else {
		step = orr_checkpoint_step(c);
		check_values(c, step);
		ck_assert_msg(!orr_checkpoint_check(c, what, &err), "%s", err.msg);
	}
	orr_checkpoint_close(c);
	json_decref(what);
	return step;
}

void make_folders(void)
{
	int64_t newest;

	strcpy(work + strlen(work) - 6, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(work));
	(void)snprintf(folder, sizeof(folder), "%s/run", work);
	ck_assert_msg(!orr_checkpoint_prepare(folder, &newest, &err), "%s", err.msg);
	ck_assert_int_eq(newest, -1);
}

void remove_folders(void)
{
	char command[120];

	(void)snprintf(command, sizeof(command), "rm -rf '%s'", work);
	ck_assert_int_eq(system(command), 0);
}

int count_names(const char *path)
{
	DIR *names = opendir(path);
	int n = -2;

	ck_assert_ptr_nonnull(names);
	while (readdir(names))
		n++;
	closedir(names);
	return n;
}

bool exists(const char *name)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	return !access(path, F_OK);
}
