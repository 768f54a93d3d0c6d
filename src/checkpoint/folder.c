#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER (O_RDONLY | O_DIRECTORY | O_CLOEXEC)
#define INSIDE (O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

static const char *kind(mode_t mode)
{
	mode &= S_IFMT;
	return mode == S_IFREG    ? "a file"
	       : mode == S_IFDIR  ? "a folder"
	       : mode == S_IFLNK  ? "a link"
	       : mode == S_IFIFO  ? "a pipe"
	       : mode == S_IFSOCK ? "a socket"
				  : "a device";
}

/* What is of that name and could not be opened as the kind that it is to be. */
static int refuse(const struct orr_folder *f, const char *name, mode_t wanted, int number,
		  struct orr_error *err)
{
	struct stat about;

	if (fstatat(f->fd, name, &about, AT_SYMLINK_NOFOLLOW) || (about.st_mode & S_IFMT) == wanted)
		return orr_fail(err, ORR_E_IO, "%s/%s: cannot be opened: %s", f->path, name,
				strerror(number));
	return orr_fail(err, ORR_E_IO, "%s/%s: is %s instead of %s%s", f->path, name,
			kind(about.st_mode), kind(wanted),
			S_ISLNK(about.st_mode)
				? " and is not followed: put a copy of what it leads to there"
				: ": move it away");
}

/* Without what may follow a folder's name and changes nothing: `best/` and `best/.` are `best`. */
static char *plain_path(const char *path)
{
	size_t n = strlen(path);

	while (n > 1 && (path[n - 1] == '/' || (n > 2 && path[n - 1] == '.' && path[n - 2] == '/')))
		n--;
	return strndup(path, n);
}

static int enter_best(struct orr_folder *f, const char *folder, struct orr_error *err)
{
	struct orr_folder outer;
	int code = orr_folder_open(&outer, folder, err);

	if (!code) {
		code = orr_folder_enter(f, &outer, ORR_FOLDER_BEST, err);
		orr_folder_close(&outer);
	}
	return code;
}

int orr_folder_open(struct orr_folder *f, const char *path, struct orr_error *err)
{
	char *plain = plain_path(path), *name = plain ? strrchr(plain, '/') : NULL;
	int code = 0;

	if (!plain)
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory for its path", path);
	if (!strcmp(name ? name + 1 : plain, ORR_FOLDER_BEST)) {
		if (name)
			*name = '\0';
		code = enter_best(f, !name ? "." : *plain ? plain : "/", err);
	} else {
		(void)snprintf(f->path, sizeof(f->path), "%s", path);
		if ((f->fd = open(path, FOLDER)) < 0)
			code = orr_fail(err, ORR_E_IO, "%s: cannot be read: %s", path,
					strerror(errno));
	}
	free(plain);
	return code;
}

int orr_folder_enter(struct orr_folder *f, const struct orr_folder *outer, const char *name,
		     struct orr_error *err)
{
	if ((f->fd = openat(outer->fd, name, O_RDONLY | O_DIRECTORY | INSIDE)) < 0)
		return refuse(outer, name, S_IFDIR, errno, err);
	if (snprintf(f->path, sizeof(f->path), "%s/%s", outer->path, name) < 0)
		f->path[0] = '\0';
	return 0;
}

void orr_folder_close(struct orr_folder *f)
{
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
}

char *orr_folder_path(const struct orr_folder *f, const char *name)
{
	char *path;

	return asprintf(&path, "%s/%s", f->path, name) < 0 ? NULL : path;
}

int orr_folder_file(const struct orr_folder *f, const char *name, int flags, int *fd,
		    int64_t *n_bytes, struct orr_error *err)
{
	struct stat about;
	int number = 0;

	*fd = openat(f->fd, name, flags | INSIDE, 0666);
	if (*fd < 0 || fstat(*fd, &about)) {
		number = errno;
	} else if (S_ISREG(about.st_mode)) {
		if (n_bytes)
			*n_bytes = about.st_size;
		return 0;
	}
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	return refuse(f, name, S_IFREG, number, err);
}

DIR *orr_folder_names(const struct orr_folder *f)
{
	int fd = openat(f->fd, ".", FOLDER);
	DIR *names = fd < 0 ? NULL : fdopendir(fd);

	if (!names && fd >= 0)
		close(fd);
	return names;
}

int orr_folder_settle(const struct orr_folder *f, struct orr_error *err)
{
	/* a file system that knows no fsync of folders says EINVAL, and has nothing to settle */
	if (!fsync(f->fd) || errno == EINVAL)
		return 0;
	return orr_fail(err, ORR_E_IO, "%s: cannot be written: %s", f->path, strerror(errno));
}
