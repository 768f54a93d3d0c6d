/* Checkpoints as folders: nothing but a whole one is ever opened, and nothing outside of them is
 * touched. */
#include <check.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "checkpoints.h"
#include "suite.h"

/* ---- whole or nothing ---- */

START_TEST(the_newest_checkpoint_is_opened)
{
	ck_assert_int_eq(resume(), -1);
	ck_assert_ptr_nonnull(strstr(err.msg, "no checkpoint"));
	for (int step = 10; step <= 30; step += 10)
		ck_assert_msg(!save(step, 0), "%s", err.msg);
	ck_assert_int_eq(resume(), 30);
	ck_assert_int_eq(n_reported, 0);
	ck_assert_int_eq(count_names(folder), 3);
}
END_TEST

START_TEST(the_last_ones_are_kept)
{
	int64_t newest;

	for (int step = 10; step <= 50; step += 10)
		ck_assert_msg(!save(step, 2), "%s", err.msg);
	ck_assert_int_eq(count_names(folder), 2);
	ck_assert(exists("step-00000040") && exists("step-00000050"));
	ck_assert(!orr_checkpoint_prepare(folder, &newest, &err));
	ck_assert_int_eq(newest, 50);
}
END_TEST

static ino_t file_of(int64_t step)
{
	struct stat about;
	char path[200];

	(void)snprintf(path, sizeof(path), "%s/step-%08lld/shard-0.safetensors", folder,
		       (long long)step);
	ck_assert_int_eq(stat(path, &about), 0);
	return about.st_ino;
}

START_TEST(a_copy_is_written_over_the_last_but_one)
{
	ino_t file[6];

	for (int step = 1; step <= 5; step++) {
		ck_assert_msg(!save(step, 0), "%s", err.msg);
		ck_assert(step == 1 || file_of(step - 1) == file[step - 1]); /* until it is whole */
		file[step] = file_of(step);
		ck_assert(step < 3 || file[step] == file[step - 2]);
		orr_checkpoint_recycle(folder, step);
		ck_assert_int_eq(resume(), step);
		ck_assert_int_eq(n_reported, 0);
	}
	ck_assert(!exists("step-00000004"));
	save_half(6);
	ck_assert_int_eq(resume(), 5);
}
END_TEST

START_TEST(one_that_is_cut_off_takes_nobodys_place)
{
	char path[PATH_MAX];

	for (int step = 10; step <= 30; step += 10)
		ck_assert_msg(!save(step, 3), "%s", err.msg);
	(void)snprintf(path, sizeof(path), "%s/step-00000030/shard-1.safetensors", folder);
	ck_assert_int_eq(truncate(path, 9), 0);
	ck_assert_int_eq(resume(), 20);
	ck_assert_int_eq(n_reported, 1);
	ck_assert_ptr_nonnull(
		strstr(reported, "step-00000030: shard-1.safetensors has 9 bytes instead of"));
	/* training went on from 20 with another --every; 10 and 20 may not have to go for the sake
	 * of 30 */
	ck_assert(!save(35, 3));
	ck_assert(exists("step-00000010") && exists("step-00000020") && exists("step-00000035"));
	/* and the step of the broken one is written anew */
	ck_assert(!save(30, 3));
	ck_assert_int_eq(truncate(path, 9), 0);
	ck_assert(!save(30, 3));
	ck_assert_int_eq(resume(), 35);
}
END_TEST

START_TEST(a_later_one_that_is_damaged_takes_nobodys_place)
{
	char path[PATH_MAX];
	FILE *file;

	ck_assert(!save(10, 0) && !save(20, 0) && !save(90, 0));
	(void)snprintf(path, sizeof(path), "%s/step-00000090/shard-1.safetensors", folder);
	ck_assert_ptr_nonnull(file = fopen(path, "r+b"));
	ck_assert_int_ne(fputc('!', file), EOF);
	fclose(file);
	ck_assert_int_eq(resume(), 20);
	ck_assert(!save(30, 2)); /* went on from 20 */
	ck_assert(!exists("step-00000010") && exists("step-00000020") && exists("step-00000030"));
	ck_assert_int_eq(resume(), 30);
}
END_TEST

START_TEST(what_was_left_unfinished_is_swept_and_never_opened)
{
	int64_t newest;

	ck_assert(!save(10, 0));
	save_half(20);
	ck_assert_int_eq(resume(), 10);
	ck_assert(exists(".step-00000020.tmp"));
	ck_assert(!orr_checkpoint_prepare(folder, &newest, &err));
	ck_assert_int_eq(newest, 10);
	ck_assert_int_eq(count_names(folder), 1);
}
END_TEST

static bool has_file(const char *name, struct stat *about)
{
	char path[200];

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	return !stat(path, about);
}

/* It has two shards, as many as are written; another start had three. */
START_TEST(a_copy_is_written_over_what_an_earlier_start_left)
{
	struct stat left, about;
	char path[200];

	ck_assert(!save(9, 0)); /* committed, and the one before is not given up yet */
	ck_assert(!save(10, 0));
	save_half(20);
	(void)snprintf(path, sizeof(path), "%s/step-00000009/shard-2.safetensors", folder);
	ck_assert_int_eq(symlink("nowhere", path), 0);
	orr_checkpoint_keep(folder, 10, true);
	ck_assert_int_eq(count_names(folder), 2);
	ck_assert(has_file(".step-00000000.tmp/shard-0.safetensors", &left));
	ck_assert_int_eq(resume(), 10);
	ck_assert(!save(11, 0));
	ck_assert_int_eq(count_names(folder), 2);
	ck_assert(has_file("step-00000011/shard-0.safetensors", &about));
	ck_assert(about.st_ino == left.st_ino);
	(void)snprintf(path, sizeof(path), "%s/step-00000011/shard-2.safetensors", folder);
	ck_assert(lstat(path, &about));
	ck_assert_int_eq(resume(), 11);
	save_half(12);
	orr_checkpoint_keep(folder, 11, true); /* 10, or what was left of 12 */
	ck_assert_int_eq(count_names(folder), 2);
	ck_assert_int_eq(resume(), 11);
	save_half(12);
	orr_checkpoint_keep(folder, -1, false);
	ck_assert_int_eq(count_names(folder), 0);
}
END_TEST

START_TEST(what_is_not_ours_stays)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/step-notes", folder);
	ck_assert(!mkdir(path, 0777));
	(void)snprintf(path, sizeof(path), "%s/step-00000010x", folder);
	ck_assert(!mkdir(path, 0777));
	ck_assert(!save(10, 1));
	ck_assert(!save(20, 1));
	ck_assert(exists("step-notes") && exists("step-00000010x") && !exists("step-00000010"));
	ck_assert_int_eq(resume(), 20);
}
END_TEST

/* ---- damage ---- */

#define N_HARMS 200

/* A part of the newest checkpoint and its bytes. */
static size_t read_part(char *path, int part, char *bytes, size_t room)
{
	FILE *file;
	size_t n;

	(void)snprintf(path, PATH_MAX, "%s/step-00000020/%s", folder, parts[part]);
	ck_assert_ptr_nonnull(file = fopen(path, "rb"));
	n = fread(bytes, 1, room, file);
	ck_assert(n > 0 && n < room);
	fclose(file);
	return n;
}

static void write_part(const char *path, const char *bytes, size_t n)
{
	FILE *file = fopen(path, "wb");

	ck_assert_ptr_nonnull(file);
	ck_assert_uint_eq(fwrite(bytes, 1, n, file), n);
	fclose(file);
}

START_TEST(a_truncated_checkpoint_is_never_opened)
{
	char bytes[4096], path[PATH_MAX];

	ck_assert(!save(10, 0) && !save(20, 0));
	srandom(1);
	for (int i = 0; i < N_HARMS; i++) {
		size_t n = read_part(path, i % 3, bytes, sizeof(bytes)),
		       left = (size_t)random() % n;

		write_part(path, bytes, left);
		/* the line's end after a manifest says nothing */
		if (i % 3 == 0 && left == n - 1) {
			ck_assert_int_eq(resume(), 20);
		} else {
			ck_assert_msg(resume() == 10, "%s cut off at %zu of %zu", parts[i % 3],
				      left, n);
			ck_assert_int_eq(n_reported, 1);
			ck_assert_ptr_nonnull(strstr(reported, "step-00000020"));
		}
		write_part(path, bytes, n);
	}
	ck_assert_int_eq(resume(), 20);
}
END_TEST

START_TEST(a_flipped_bit_is_found)
{
	char bytes[4096], path[PATH_MAX];
	int n_harmless = 0;

	ck_assert(!save(10, 0) && !save(20, 0));
	srandom(2);
	for (int i = 0; i < N_HARMS; i++) {
		size_t n = read_part(path, i % 3, bytes, sizeof(bytes)), at = (size_t)random() % n;
		char bit = (char)(1 << random() % 8);
		int64_t step;

		bytes[at] = (char)(bytes[at] ^ bit);
		write_part(path, bytes, n);
		bytes[at] = (char)(bytes[at] ^ bit);
		/* resume() compares every float: a manifest may lose a space, and that is all */
		step = resume();
		ck_assert_msg(step == 10 || (step == 20 && i % 3 == 0), "%s, byte %zu",
			      parts[i % 3], at);
		n_harmless += step == 20;
		ck_assert_int_eq(n_reported, step == 10);
		write_part(path, bytes, n);
	}
	ck_assert_int_lt(n_harmless, N_HARMS / 3);
	ck_assert_int_eq(resume(), 20);
}
END_TEST

START_TEST(a_missing_part_is_found)
{
	char bytes[4096], path[PATH_MAX];
	size_t n;

	ck_assert(!save(10, 0) && !save(20, 0));
	n = read_part(path, _i, bytes, sizeof(bytes));
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(resume(), 10);
	ck_assert_ptr_nonnull(strstr(reported, parts[_i]));
	write_part(path, bytes, n);
	ck_assert_int_eq(resume(), 20);
}
END_TEST

START_TEST(a_checkpoint_under_another_steps_name_is_found)
{
	char from[PATH_MAX], to[PATH_MAX];

	ck_assert(!save(10, 0) && !save(20, 0));
	(void)snprintf(from, sizeof(from), "%s/step-00000020", folder);
	(void)snprintf(to, sizeof(to), "%s/step-00000030", folder);
	ck_assert_int_eq(rename(from, to), 0);
	ck_assert_int_eq(resume(), 10);
	ck_assert_ptr_nonnull(strstr(reported, "step-00000030: manifest.json is of step 20"));
}
END_TEST

/* ---- a full disk ---- */

/* Every size at which the disk can be full, from nothing to all but the last byte. */
START_TEST(a_full_disk_leaves_the_one_before)
{
	const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
	struct rlimit limit = {0, RLIM_INFINITY};

	ck_assert(!save(10, 1));
	signal(SIGXFSZ, SIG_IGN);
	for (limit.rlim_cur = 0; limit.rlim_cur < 1100; limit.rlim_cur += 50) {
		int code;

		ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
		code = save(20, 1);
		ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &none), 0); /* Check writes files, too */
		if (!code)
			break;
		ck_assert_int_eq(code, ORR_E_IO);
		ck_assert_ptr_nonnull(strstr(err.msg, ": cannot be written: "));
		ck_assert_ptr_null(strchr(err.msg, '\n'));
		ck_assert_int_eq(count_names(folder), 1);
		ck_assert_int_eq(resume(), 10);
	}
	ck_assert_uint_gt(limit.rlim_cur, 400); /* shards and manifest both met it */
	ck_assert_uint_lt(limit.rlim_cur, 1100);
	ck_assert_int_eq(resume(), 20);
}
END_TEST

/* ---- what it is of ---- */

static const struct {
	const char *key, *inner;
	const char *value; /* JSON; NULL: missing */
	const char *expected;
} others[] = {
	{"optimizer", "name", "\"adam\"", "optimizer name is \"sgd\" there and \"adam\" here"},
	{"optimizer", "learning_rate", "0.25", "optimizer learning_rate is 0.1"},
	{"graph", "b", "\"relu 9 of a\"",
	 "graph b is \"layernorm 9 of a\" there and \"relu 9 of a\" here"},
	{"graph", "b", NULL, "graph b is \"layernorm 9 of a\" there and missing here"},
	{"graph", "c", "\"relu 9 of b\"", "graph c is missing there and \"relu 9 of b\" here"},
	{"batch", NULL, "95", "batch is 96 there and 95 here"},
};

START_TEST(what_differs_is_named)
{
	json_t *what = about(),
	       *place = others[_i].inner ? json_object_get(what, others[_i].key) : what;
	const char *key = others[_i].inner ? others[_i].inner : others[_i].key;
	struct orr_checkpoint *c = NULL;

	ck_assert(!save(10, 0));
	if (others[_i].value)
		json_object_set_new(place, key,
				    json_loads(others[_i].value, JSON_DECODE_ANY, NULL));
	else
		json_object_del(place, key);
	ck_assert_msg(!orr_checkpoint_open(&c, folder, 10, 0, 1, &err), "%s", err.msg);
	ck_assert_int_eq(orr_checkpoint_check(c, what, &err), ORR_E_INPUT);
	ck_assert_msg(strstr(err.msg, others[_i].expected) != NULL, "%s", err.msg);
	orr_checkpoint_close(c);
	json_decref(what);
}
END_TEST

START_TEST(a_folder_that_cannot_be_is_refused)
{
	char path[PATH_MAX];
	int64_t newest;
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/no/such/folder", work);
	ck_assert_int_eq(orr_checkpoint_prepare(path, &newest, &err), ORR_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.msg, "No such file or directory"));
	(void)snprintf(path, sizeof(path), "%s/file", work);
	ck_assert_ptr_nonnull(file = fopen(path, "w"));
	fclose(file);
	ck_assert_int_eq(orr_checkpoint_prepare(path, &newest, &err), ORR_E_INPUT);
}
END_TEST

static const struct suite_test tests[] = {
	ONCE(the_newest_checkpoint_is_opened),
	ONCE(the_last_ones_are_kept),
	ONCE(a_copy_is_written_over_the_last_but_one),
	ONCE(one_that_is_cut_off_takes_nobodys_place),
	ONCE(a_later_one_that_is_damaged_takes_nobodys_place),
	ONCE(what_was_left_unfinished_is_swept_and_never_opened),
	ONCE(a_copy_is_written_over_what_an_earlier_start_left),
	ONCE(what_is_not_ours_stays),
	ONCE(a_truncated_checkpoint_is_never_opened),
	ONCE(a_flipped_bit_is_found),
	EACH(a_missing_part_is_found, 3),
	ONCE(a_checkpoint_under_another_steps_name_is_found),
	ONCE(a_full_disk_leaves_the_one_before),
	EACH(what_differs_is_named, N_OF(others)),
	ONCE(a_folder_that_cannot_be_is_refused),
};
SUITE_WITH("checkpoint", make_folders, remove_folders)
