#pragma once
/* A folder that is open. Files and folders are opened by their names in it: a link is never
 * followed and only plain files are opened, so that nothing outside of the folder is read, written
 * or removed, and nothing waits for the other end of a pipe. Messages name the kind of file found
 * instead. */
#include <dirent.h>
#include <limits.h>
#include "orrery/orrery.h"

struct orr_folder {
	int fd;              /* -1: closed */
	char path[PATH_MAX]; /* for messages; too long a one is cut */
};

/* A folder that the user names; the path may lead over links. But the best checkpoint's lies in
 * another, and is entered as that. */
#define ORR_FOLDER_BEST "best"
int orr_folder_open(struct orr_folder *f, const char *path, struct orr_error *err);
/* One that is in another. */
int orr_folder_enter(struct orr_folder *f, const struct orr_folder *outer, const char *name,
		     struct orr_error *err);
void orr_folder_close(struct orr_folder *f);
/* The path of a name in it, for messages; the caller frees it. NULL: no memory. */
char *orr_folder_path(const struct orr_folder *f, const char *name);

/* A plain file, opened with these flags; *fd is the caller's. n_bytes: its size, or NULL. */
int orr_folder_file(const struct orr_folder *f, const char *name, int flags, int *fd,
		    int64_t *n_bytes, struct orr_error *err);

/* The names in it, from the first one on; the caller closes them. NULL: errno says why. */
DIR *orr_folder_names(const struct orr_folder *f);
/* Its names are on the disk. */
int orr_folder_settle(const struct orr_folder *f, struct orr_error *err);
