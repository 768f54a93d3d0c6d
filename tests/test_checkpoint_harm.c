/* Checkpoints as an attacker or an accident leaves them: with checksums that fit and values that do
 * not, and with links, pipes and folders in the way. Each is refused in one line, and nothing
 * outside of the folder is touched. */
#include <check.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoints.h"
#include "suite.h"

/* ---- what is crafted: its checksums fit ---- */

/* The newest checkpoint with another value in its manifest, under the name of `step`. */
static void craft(const char *key, json_t *value, int64_t step)
{
	char path[PATH_MAX], to[PATH_MAX], checksum[ORR_CHECKSUM], *text;
	json_t *manifest;

	(void)snprintf(path, sizeof(path), "%s/step-00000020/manifest.json", folder);
	ck_assert_ptr_nonnull(manifest = json_load_file(path, 0, NULL));
	ck_assert(!json_object_set_new(manifest, key, value));
	json_object_del(manifest, "checksum");
	ck_assert_ptr_nonnull(text = json_dumps(manifest, JSON_COMPACT | JSON_SORT_KEYS));
	orr_checksum(checksum, text, strlen(text));
	free(text);
	ck_assert(!json_object_set_new(manifest, "checksum", json_string(checksum)));
	ck_assert(!json_dump_file(manifest, path, 0));
	json_decref(manifest);
	(void)snprintf(path, sizeof(path), "%s/step-00000020", folder);
	(void)snprintf(to, sizeof(to), "%s/step-%08lld", folder, (long long)step);
	ck_assert(!rename(path, to));
}

static json_t *shard(const char *file, int64_t n_bytes)
{
	return json_pack("{s:s,s:I,s:s}", "file", file, "bytes", (json_int_t)n_bytes, "xxh3_128",
			 "");
}

START_TEST(what_is_crafted_is_refused_in_one_line)
{
	static const char *const expected[] = {
		"no training has 9223372036854775807 steps",
		"no training has 20 steps and -1 samples",
		"no training has 20 steps and 9223372036854775807 samples",
		"written in another format, version 4294967297",
		"two shards have the tensor 'a.weight'",
		"it names no shard",
		"it names no shard",
		"has 156 bytes instead of -1",
		"its checksum does not fit",
	};
	json_t *first;
	char path[PATH_MAX];

	ck_assert(!save(10, 0) && !save(20, 0));
	(void)snprintf(path, sizeof(path), "%s/step-00000020/manifest.json", folder);
	ck_assert_ptr_nonnull(first = json_load_file(path, 0, NULL));
	switch (_i) {
	case 0:
		craft("step", json_integer(INT64_MAX), INT64_MAX);
		break;
	case 1:
		craft("samples", json_integer(-1), 20);
		break;
	case 2:
		craft("samples", json_integer(INT64_MAX), 20);
		break;
	case 3:
		craft("version", json_integer(INT64_C(4294967297)), 20);
		break;
	case 4:
		craft("shards",
		      json_pack("[O,O]", json_array_get(json_object_get(first, "shards"), 0),
				json_array_get(json_object_get(first, "shards"), 0)),
		      20);
		break;
	default:
		craft("shards",
		      json_pack("[o]", shard(_i == 5   ? "../step-00000010/shard-0.safetensors"
					     : _i == 6 ? "shard-\n"
						       : "shard-1.safetensors",
					     _i == 7 ? -1 : 156)),
		      20);
	}
	json_decref(first);
	ck_assert_int_eq(resume(), 10);
	ck_assert_int_eq(n_reported, 1);
	ck_assert_msg(strstr(reported, expected[_i]) != NULL, "%s", reported);
	ck_assert_ptr_null(strchr(reported, '\n'));
}
END_TEST

/* ---- what is in the way ---- */

/* A checkpoint of another training, beside the folder. */
#define VICTIM "../victim"

static void make_victim(void)
{
	char command[300];

	ck_assert(!save(20, 0));
	(void)snprintf(command, sizeof(command),
		       "cd %s && mv run/step-00000020 victim && cp -a victim before", work);
	ck_assert_int_eq(system(command), 0);
}

/* It is as it was. */
static void check_victim(void)
{
	char command[300];

	(void)snprintf(command, sizeof(command), "cd %s && diff -r before victim", work);
	ck_assert_int_eq(system(command), 0);
}

static void place_link(const char *to, const char *name)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	ck_assert(!symlink(to, path));
}

START_TEST(a_link_in_the_place_of_a_step_is_not_read)
{
	make_victim();
	place_link(VICTIM, "step-00000020");
	ck_assert_int_eq(resume(), -1);
	ck_assert_ptr_nonnull(strstr(reported, "step-00000020: is a link instead of a folder"));
	ck_assert(!save(10, 0));
	ck_assert_int_eq(resume(), 10);
	ck_assert_int_eq(n_reported, 1);
	check_victim();
}
END_TEST

START_TEST(of_a_link_the_link_alone_is_removed)
{
	int64_t newest;

	make_victim();
	place_link(VICTIM, "step-00000005"); /* too old to be kept */
	place_link(VICTIM, "step-00000030"); /* in the place of one that is written */
	place_link(VICTIM, ".step-00000040.tmp");
	ck_assert(!orr_checkpoint_prepare(folder, &newest, &err));
	ck_assert(!exists(".step-00000040.tmp"));
	check_victim();
	place_link(VICTIM, ".step-00000010.tmp");
	ck_assert_msg(!save(10, 2), "%s", err.msg);
	ck_assert_msg(!save(30, 2), "%s", err.msg);
	ck_assert_msg(!save(31, 2), "%s", err.msg);
	ck_assert(!exists("step-00000005") && !exists("step-00000010"));
	ck_assert_int_eq(count_names(folder), 2);
	ck_assert_int_eq(resume(), 31);
	check_victim();
}
END_TEST

START_TEST(a_link_in_the_place_of_a_part_is_not_read)
{
	char path[PATH_MAX], to[PATH_MAX];

	ck_assert(!save(10, 0));
	make_victim();
	ck_assert(!save(20, 0));
	(void)snprintf(path, sizeof(path), "%s/step-00000020/%s", folder, parts[_i]);
	(void)snprintf(to, sizeof(to), "../" VICTIM "/%s", parts[_i]);
	ck_assert(!unlink(path));
	ck_assert(!symlink(to, path));
	ck_assert(!access(path, R_OK));
	ck_assert_int_eq(resume(), 10); /* though it leads to the very same bytes */
	ck_assert_ptr_nonnull(strstr(reported, "is a link instead of a file"));
	ck_assert(!save(20, 1)); /* written anew; 10 goes */
	ck_assert_int_eq(resume(), 20);
	ck_assert_int_eq(count_names(folder), 1);
	check_victim();
}
END_TEST

START_TEST(a_pipe_or_a_folder_in_the_place_of_a_part_is_refused)
{
	char path[PATH_MAX];
	bool pipe = _i < 3;

	ck_assert(!save(10, 0) && !save(20, 0));
	(void)snprintf(path, sizeof(path), "%s/step-00000020/%s", folder, parts[_i % 3]);
	ck_assert(!unlink(path));
	ck_assert(!(pipe ? mkfifo(path, 0666) : mkdir(path, 0777)));
	ck_assert_int_eq(resume(), 10);
	ck_assert_ptr_nonnull(strstr(reported, pipe ? "is a pipe instead of a file"
						    : "is a folder instead of a file"));
	if (pipe) {
		ck_assert(!save(20, 0));
		ck_assert_int_eq(resume(), 20);
	} else { /* not ours */
		ck_assert_int_eq(save(20, 0), ORR_E_IO);
		ck_assert_msg(strstr(err.msg, "step-00000020: cannot be made: something that is "
					      "no checkpoint is in its place: move it away"),
			      "%s", err.msg);
		ck_assert(!access(path, F_OK));
	}
}
END_TEST

START_TEST(what_has_the_name_of_a_step_and_is_none_stays)
{
	char path[PATH_MAX];
	FILE *file;

	ck_assert(!save(10, 0));
	(void)snprintf(path, sizeof(path), "%s/step-00000020", folder);
	if (_i) {
		ck_assert(!mkfifo(path, 0666));
	} else {
		ck_assert_ptr_nonnull(file = fopen(path, "w"));
		fclose(file);
	}
	ck_assert_int_eq(resume(), 10);
	ck_assert_ptr_nonnull(strstr(reported, _i ? "is a pipe instead of a folder: move it away"
						  : "is a file instead of a folder: move it away"));
	ck_assert_int_eq(save(20, 1), ORR_E_IO);
	ck_assert_ptr_nonnull(strstr(err.msg, "step-00000020: cannot be made: something"));
	ck_assert(!save(30, 1));
	ck_assert(exists("step-00000020") && !exists("step-00000010"));
}
END_TEST

/* 0: a link to nothing; 1: a link to a file; 2: a pipe; 3: a folder. */
START_TEST(what_is_no_lock_is_refused)
{
	static const char *const kinds[] = {"a link", "a link", "a pipe", "a folder"};
	char path[PATH_MAX], there[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/.lock", folder);
	(void)snprintf(there, sizeof(there), "%s/there", work);
	if (_i == 1)
		ck_assert(!mkdir(there, 0777));
	if (_i < 2)
		place_link("../there", ".lock");
	else
		ck_assert(!(_i == 2 ? mkfifo(path, 0666) : mkdir(path, 0777)));
	ck_assert_int_eq(orr_checkpoint_lock(folder, &err), ORR_E_INPUT);
	ck_assert_msg(strstr(err.msg, "/run/.lock: is ") && strstr(err.msg, kinds[_i]), "%s",
		      err.msg);
	ck_assert_int_eq(access(there, F_OK), _i == 1 ? 0 : -1);
}
END_TEST

/* The folder itself is the user's word. */
START_TEST(the_folder_may_be_a_link)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/link", work);
	ck_assert(!symlink("run", path));
	ck_assert(!save(10, 0));
	(void)snprintf(folder, sizeof(folder), "%s/link", work);
	ck_assert(!orr_checkpoint_lock(folder, &err));
	ck_assert(!save(20, 1));
	ck_assert_int_eq(resume(), 20);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(what_is_crafted_is_refused_in_one_line, 9),
	ONCE(a_link_in_the_place_of_a_step_is_not_read),
	ONCE(of_a_link_the_link_alone_is_removed),
	EACH(a_link_in_the_place_of_a_part_is_not_read, 3),
	EACH(a_pipe_or_a_folder_in_the_place_of_a_part_is_refused, 6),
	EACH(what_has_the_name_of_a_step_and_is_none_stays, 2),
	EACH(what_is_no_lock_is_refused, 4),
	ONCE(the_folder_may_be_a_link),
};
SUITE_WITH("checkpoint_harm", make_folders, remove_folders)
