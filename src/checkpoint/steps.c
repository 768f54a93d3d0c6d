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

#define STEP "step-%08lld"
#define UNFINISHED "." STEP ".tmp"
#define SHARD "shard-%lld.safetensors"

/* ---- names ---- */

const char *orr_step_name(int64_t step)
{
	return orr_text(STEP, (long long)step);
}

const char *orr_step_unfinished_name(int64_t step)
{
	return orr_text(UNFINISHED, (long long)step);
}

const char *orr_step_shard_name(int64_t number)
{
	return orr_text(SHARD, (long long)number);
}

/* The number in a name of this form, 0 or more; -1: it is none as it is written here, such as
 * step-0120. In memory of its own: it is asked of every file while others hold a step's name. */
static int64_t number_in(const char *name, const char *form)
{
	size_t skip = strcspn(form, "%");
	char written[64];
	long long number;

	errno = 0;
	number = strlen(name) > skip ? strtoll(name + skip, NULL, 10) : -1;
	(void)snprintf(written, sizeof(written), form, number);
	return errno || number < 0 || strcmp(name, written) ? -1 : number;
}

bool orr_step_is_shard(const char *name)
{
	int64_t number = number_in(name, SHARD);

	return number >= 0 && number <= INT_MAX;
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
		int64_t step = number_in(entry->d_name, STEP);

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

/* As unfinished as what is written of step 0, which nobody keeps a copy of. */
const char *orr_step_spare_name(void)
{
	return orr_step_unfinished_name(0);
}

void orr_step_spare(const struct orr_folder *folder, int64_t step)
{
	const char *name = orr_step_name(step);

	if (kind_of(folder, name) != S_IFDIR ||
	    renameat(folder->fd, name, folder->fd, orr_step_spare_name()))
		orr_step_drop(folder, step);
}

void orr_steps_sweep(const struct orr_folder *folder, bool spares)
{
	const char *spare = orr_step_spare_name();
	DIR *names = orr_folder_names(folder);
	struct dirent *entry;

	while (names && (entry = readdir(names)))
		if (number_in(entry->d_name, UNFINISHED) >= 0 &&
		    !(spares && kind_of(folder, entry->d_name) == S_IFDIR &&
		      /* fails where there is one with files */
		      !renameat(folder->fd, entry->d_name, folder->fd, spare)))
			orr_step_remove(folder, entry->d_name);
	if (names)
		closedir(names);
}
