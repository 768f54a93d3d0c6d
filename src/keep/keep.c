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
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/quantity.h"

#define PREFIX "orrery-keep-"
#define BOOT "/proc/sys/kernel/random/boot_id"
#define OLD_S 86400 /* after this a folder of a launcher on another host is one that it left */

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

/* Its launcher on this host is gone, as the lock says; or, where the launcher is on another, ranks
 * have not been here for a day: between two starts it is locked by nobody. */
static bool is_left(int fd)
{
	struct stat about;

	return !faccessat(fd, "beats", F_OK, 0) ||
	       (!fstat(fd, &about) && time(NULL) - about.st_mtime > OLD_S);
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
		if ((fd = lock(folder)) >= 0 && is_left(fd))
			remove_all(folder);
		if (fd >= 0)
			close(fd);
		free(folder);
	}
	if (names)
		closedir(names);
}

static int check_memory(const char *root, struct orr_error *err)
{
	struct statfs about;

	if (statfs(root, &about))
		return orr_fail(err, ORR_E_INPUT, "[memory] %s: cannot be read: %s", root,
				strerror(errno));
	if (about.f_type != TMPFS_MAGIC)
		return orr_fail(err, ORR_E_INPUT,
				"%s: is not in memory: name a folder of a tmpfs, such as /dev/shm",
				root);
	return 0;
}

int orr_keep_make(char **folder, int *fd, const char *root, struct orr_error *err)
{
	char *made = NULL;
	int code = check_memory(root, err);

	*folder = NULL;
	*fd = -1;
	if (code)
		return code;
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

/* ---- on other hosts than the launcher's ---- */

/* The folder that holds this one, the caller's to free; NULL: this is none that a launcher has
 * made. */
static char *root_of(const char *folder)
{
	const char *end = folder ? strrchr(folder, '/') : NULL;

	return end && end > folder && !strncmp(end + 1, PREFIX, strlen(PREFIX))
		       ? strndup(folder, (size_t)(end - folder))
		       : NULL;
}

static int joined = -1; /* locks it until this process ends */

int orr_keep_join(struct orr_error *err)
{
	const char *folder = getenv(ORR_KEEP_FOLDER);
	char *root = root_of(folder);
	struct stat about;
	int code = 0, fd;

	if (root && joined < 0 && !(code = check_memory(root, err))) {
		if (!mkdir(folder, 0700))
			sweep(root);
		fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0 && !fstat(fd, &about) && about.st_uid == geteuid() &&
		    !(about.st_mode & 077)) {
			joined = fd;
			(void)flock(fd, LOCK_SH | LOCK_NB); /* or the launcher does */
		} else {
			code = orr_fail(err, ORR_E_INPUT,
					"[memory] %s: cannot be used as a folder of this user "
					"alone: name another one in memory, which all hosts have",
					folder);
			if (fd >= 0)
				close(fd);
		}
	}
	free(root);
	return code;
}

void orr_keep_leave(void)
{
	if (joined >= 0 && faccessat(joined, "beats", F_OK, 0))
		remove_all(getenv(ORR_KEEP_FOLDER));
}

int64_t orr_keep_identity(const char *folder)
{
	FILE *file = fopen(BOOT, "re");
	struct stat about;
	char boot[64] = ""; /* hosts number their file systems alike */
	uint64_t hash;

	if (file) {
		if (!fgets(boot, sizeof(boot), file))
			boot[0] = '\0';
		(void)fclose(file);
	}
	if (stat(folder, &about))
		return -1;
	hash = orr_hash(ORR_HASH, boot, strlen(boot));
	hash = orr_hash(hash, &about.st_dev, sizeof(about.st_dev));
	hash = orr_hash(hash, &about.st_ino, sizeof(about.st_ino));
	return (int64_t)((hash ^ hash << 32) >> 12);
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
