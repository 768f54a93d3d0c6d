#include "keep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/quantity.h"

#define PREFIX "orrery-keep-"

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *at)
{
	(void)about;
	(void)kind;
	(void)at;
	return remove(path) && errno != ENOENT;
}

static void remove_all(const char *folder)
{
	(void)nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* Open, and locked by nobody else: its launcher has ended. -1: else. */
static int lock(const char *folder)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat about;

	if (fd < 0 ||
	    (!fstat(fd, &about) && about.st_uid == geteuid() && !flock(fd, LOCK_EX | LOCK_NB)))
		return fd;
	close(fd);
	return -1;
}

static void sweep(const char *root)
{
	DIR *names = opendir(root);
	struct dirent *entry;

	while (names && (entry = readdir(names))) {
		char *folder = NULL;
		int fd = -1;

		if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) ||
		    asprintf(&folder, "%s/%s", root, entry->d_name) < 0)
			continue;
		if ((fd = lock(folder)) >= 0) {
			remove_all(folder);
			close(fd);
		}
		free(folder);
	}
	if (names)
		closedir(names);
}

int orr_keep_make(char **folder, int *fd, const char *root, struct orr_error *err)
{
	struct statfs about;
	char *made = NULL;

	*folder = NULL;
	*fd = -1;
	if (statfs(root, &about))
		return orr_fail(err, ORR_E_INPUT, "[memory] %s: cannot be read: %s", root,
				strerror(errno));
	if (about.f_type != TMPFS_MAGIC)
		return orr_fail(err, ORR_E_INPUT,
				"%s: is not in memory: name a folder of a tmpfs, such as /dev/shm",
				root);
	sweep(root);
	/* others that begin now see the name only once it is locked */
	if (asprintf(&made, "%s/.orrery-XXXXXX", root) < 0)
		made = NULL;
	if (made && mkdtemp(made) && (*fd = lock(made)) >= 0 &&
	    asprintf(folder, "%s/" PREFIX "%s", root, made + strlen(made) - 6) >= 0 &&
	    !rename(made, *folder)) {
		free(made);
		return 0;
	}
	(void)orr_fail(err, ORR_E_INPUT, "%s: no folder can be made there ([memory]): %s", root,
		       strerror(errno));
	free(made);
	*folder = NULL;
	return ORR_E_INPUT;
}

void orr_keep_remove(char *folder, int fd)
{
	if (folder)
		remove_all(folder);
	if (fd >= 0)
		close(fd);
	free(folder);
}

int orr_keep_check(const char *folder, int64_t n_bytes, struct orr_error *err)
{
	struct statvfs about;
	int64_t free_bytes;

	if (statvfs(folder, &about))
		return orr_fail(err, ORR_E_INPUT, "%s: cannot be read: %s", folder,
				strerror(errno));
	if (!about.f_blocks || /* a tmpfs without a limit */
	    __builtin_mul_overflow((int64_t)about.f_bavail, (int64_t)about.f_frsize, &free_bytes) ||
	    free_bytes >= n_bytes)
		return 0;
	return orr_fail(
		err, ORR_E_INPUT,
		"two sets of the training's state ([copy-every]) take %s, and %s has %s free: make "
		"room there, or name another folder in memory ([memory])",
		orr_size_text(n_bytes), folder, orr_size_text(free_bytes));
}
