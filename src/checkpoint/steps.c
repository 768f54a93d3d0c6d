#include "steps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/grow.h"
#include "base/quantity.h"
#include "base/sort.h"

#define SHARD "shard-%lld.safetensors"

/* ---- names ---- */

const char *orr_step_name(int64_t step)
{
	return orr_text("step-%08lld", (long long)step);
}

const char *orr_step_unfinished_name(int64_t step)
{
	return orr_text(".step-%08lld.tmp", (long long)step);
}

const char *orr_step_shard_name(int64_t number)
{
	return orr_text(SHARD, (long long)number);
}

/* The number after the first `skip` characters, 0 or more; -1: none, or one that fits nothing. */
static int64_t number_in(const char *name, size_t skip)
{
	long long number;

	if (strlen(name) <= skip)
		return -1;
	errno = 0;
	number = strtoll(name + skip, NULL, 10);
	return errno ? -1 : number;
}

/* Each is a name only as it is written here: step-0120 is none. */
static int64_t step_of(const char *name)
{
	int64_t step = number_in(name, strlen("step-"));

	return strcmp(name, orr_step_name(step)) ? -1 : step;
}

static bool is_unfinished(const char *name)
{
	int64_t step = number_in(name, strlen(".step-"));

	return step >= 0 && !strcmp(name, orr_step_unfinished_name(step));
}

/* In memory of its own: it is asked of every file while others hold a step's name. */
bool orr_step_is_shard(const char *name)
{
	int64_t number = number_in(name, strlen("shard-"));
	char written[48];

	(void)snprintf(written, sizeof(written), SHARD, (long long)number);
	return number >= 0 && number <= INT_MAX && !strcmp(name, written);
}

/* ---- which there are ---- */

static int newest_first(const void *a, const void *b)
{
	return orr_compare_numbers(b, a);
}

int orr_steps_list(const struct orr_folder *folder, int64_t **steps, int *n, struct orr_error *err)
{
	DIR *names = orr_folder_names(folder);
	struct dirent *entry;
	int room = 0, code = 0;

	*steps = NULL;
	*n = 0;
	if (!names)
		return orr_fail(err, ORR_E_INPUT, "%s: cannot be read: %s", folder->path,
				strerror(errno));
	while ((entry = readdir(names))) {
		int64_t step = step_of(entry->d_name);

		if (step < 0)
			continue;
		if (!orr_grow(steps, *n, &room, sizeof(**steps))) {
			code = orr_fail(err, ORR_E_NOMEM, "%s: no memory to list it", folder->path);
			break;
		}
		(*steps)[(*n)++] = step;
	}
	closedir(names);
	if (*n)
		qsort(*steps, (size_t)*n, sizeof(**steps), newest_first);
	return code;
}

/* ---- removal ---- */

/* Its kind (S_IFDIR and so on), or 0: nothing of that name is there. */
static mode_t kind_of(const struct orr_folder *folder, const char *name)
{
	struct stat about;

	return fstatat(folder->fd, name, &about, AT_SYMLINK_NOFOLLOW) ? 0 : about.st_mode & S_IFMT;
}

void orr_step_remove(const struct orr_folder *folder, const char *name)
{
	struct orr_folder step;
	struct dirent *entry;
	DIR *names;

	if (kind_of(folder, name) == S_IFLNK) {
		unlinkat(folder->fd, name, 0);
		return;
	}
	if (orr_folder_enter(&step, folder, name, NULL))
		return;
	names = orr_folder_names(&step);
	while (names && (entry = readdir(names)))
		if (orr_step_is_shard(entry->d_name) || !strcmp(entry->d_name, ORR_STEP_MANIFEST))
			unlinkat(step.fd, entry->d_name, 0);
	if (names)
		closedir(names);
	orr_folder_close(&step);
	unlinkat(folder->fd, name, AT_REMOVEDIR);
}

void orr_step_drop(const struct orr_folder *folder, int64_t step)
{
	const char *name = orr_step_name(step), *unfinished = orr_step_unfinished_name(step);
	mode_t kind = kind_of(folder, name);

	if ((kind == S_IFDIR || kind == S_IFLNK) &&
	    !renameat(folder->fd, name, folder->fd, unfinished))
		orr_step_remove(folder, unfinished);
}

void orr_steps_sweep(const struct orr_folder *folder)
{
	DIR *names = orr_folder_names(folder);
	struct dirent *entry;

	while (names && (entry = readdir(names)))
		if (is_unfinished(entry->d_name))
			orr_step_remove(folder, entry->d_name);
	if (names)
		closedir(names);
}
