#include "output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/input_file.h"

#define BUFFER (1 << 16)

/* ---- paths ---- */

static bool starts(const char *text, const char *start)
{
	return !strncmp(text, start, strlen(start));
}

static bool is_standard_output(const char *path)
{
	static const char *const names[] = {"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(path, names[i]))
			return true;
	return false;
}

/* Open files by another name, devices, FIFOs: there is nothing to put in their place. */
static bool is_direct(const char *path)
{
	struct stat status;

	return starts(path, "/dev/fd/") || starts(path, "/dev/std") ||
	       (starts(path, "/proc/") && strstr(path, "/fd/")) ||
	       (!stat(path, &status) && !S_ISREG(status.st_mode));
}

static int cannot_write(const char *path, const char *why, struct orr_error *err)
{
	return orr_fail(err, ORR_E_INPUT, "%s: cannot write it: %s; name another file", path, why);
}

/* The absolute path without links, of a file that is there or could be made. The caller frees it.
 */
static int resolve(char **real, const char *path, struct orr_error *err)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	struct stat status;
	char *folder = NULL, *real_folder = NULL;
	int code = 0;

	if ((*real = realpath(path, NULL)))
		return 0;
	if (!lstat(path, &status))
		return cannot_write(path, "a link to a file that is not there", err);
	if (errno != ENOENT || !*name)
		return cannot_write(path, strerror(*name ? errno : EISDIR), err);
	if (asprintf(&folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".") < 0)
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory for its path", path);
	if (!(real_folder = realpath(folder, NULL)))
		code = cannot_write(path, strerror(errno), err);
	else if (asprintf(real, "%s/%s", strcmp(real_folder, "/") ? real_folder : "", name) < 0)
		code = orr_fail(err, ORR_E_NOMEM, "%s: no memory for its path", path);
	free(folder);
	free(real_folder);
	return code;
}

/* ---- files that are read, and files that are written ---- */

struct known {
	const char *option; /* that names an output; NULL: it is read */
	char *path, *real;  /* owned */
	bool there, folder;
	dev_t device;
	ino_t inode;
};

static struct known *known; /* by this command, to its end */
static int n_known;

static bool is_same(const struct known *a, const struct known *b)
{
	if (a->there && b->there)
		return a->device == b->device && a->inode == b->inode;
	return !strcmp(a->real, b->real);
}

/* What of the path is behind this folder, with the slash; NULL: it is not there. */
static const char *behind(const char *path, const char *folder)
{
	size_t length = strlen(folder);

	return starts(path, folder) && (!path[length] || path[length] == '/') ? path + length
									      : NULL;
}

/* Checkpoints are folders step-... and .step-..., there and in best; the lock is a file beside
 * them. The folders themselves may be yet to be made. */
static bool is_in_checkpoint(const struct known *file, const struct known *folder)
{
	const char *rest = behind(file->real, folder->real);
	const char *of_best = rest ? behind(rest, "/best") : NULL;

	rest = of_best ? of_best : rest;
	return rest && (!*rest || rest[1] == '.' || starts(rest + 1, "step-"));
}

static int compare(const struct known *a, const struct known *b, struct orr_error *err)
{
	const struct known *output = a->option ? a : b, *other = a->option ? b : a;

	if (!a->option && !b->option)
		return 0;
	if (other->folder ? !is_in_checkpoint(output, other) : !is_same(a, b))
		return 0;
	if (other->option)
		return orr_fail(err, ORR_E_INPUT, "%s %s and %s %s are the same file: name two",
				a->option, a->path, b->option, b->path);
	return orr_fail(err, ORR_E_UNSUPPORTED, "%s %s would overwrite %s%s: name another file",
			output->option, output->path,
			other->folder ? "checkpoints in " : "what is read, ", other->path);
}

/* Takes real. */
static int note(const char *option, const char *path, char *real, bool folder,
		struct orr_error *err)
{
	struct known *more = realloc(known, (size_t)(n_known + 1) * sizeof(*known)), *k;
	struct stat status;
	bool again = false;
	int code = 0;

	known = more ? more : known;
	if (!more || !(more[n_known].path = strdup(path))) {
		free(real);
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory for its path", path);
	}
	k = &known[n_known++];
	k->option = option;
	k->real = real;
	k->folder = folder;
	if ((k->there = !stat(real, &status))) {
		k->device = status.st_dev;
		k->inode = status.st_ino;
	}
	for (int i = 0; i + 1 < n_known && !code && !again; i++) {
		again = !option && !known[i].option && folder == known[i].folder &&
			is_same(&known[i], k);
		code = compare(&known[i], k, err);
	}
	if (code || again) { /* it was compared with all before */
		free(k->path);
		free(k->real);
		n_known--;
	}
	return code;
}

/* A path that cannot exist is refused when it is opened. */
static int protect(const char *path, bool folder, struct orr_error *err)
{
	char *real;

	return path && !resolve(&real, path, NULL) ? note(NULL, path, real, folder, err) : 0;
}

int output_protect(const char *path, struct orr_error *err)
{
	return protect(path, false, err);
}

void output_each_input(void (*visit)(void *user, const char *path), void *user)
{
	for (int i = 0; i < n_known; i++)
		if (!known[i].option && !known[i].folder)
			visit(user, known[i].path);
}

void output_watch(void)
{
	char *real = realpath("/proc/self/fd/1", NULL);

	if (real && !is_direct(real))
		(void)note("standard output", real, real, false, NULL);
	else
		free(real);
	orr_input_watch(output_protect);
}

int output_protect_checkpoints(const char *folder, struct orr_error *err)
{
	return protect(folder, true, err);
}

/* ---- standard output ---- */

static int standard_output = -1; /* as it was before the report went elsewhere */
static const char *standard_output_option;

/* From here on, printed text goes to standard error. */
static int take_standard_output(const char *option, struct orr_error *err)
{
	if (standard_output_option)
		return orr_fail(
			err, ORR_E_INPUT,
			"%s and %s both write to standard output: name a file for one of them",
			standard_output_option, option);
	standard_output_option = option;
	if (fflush(stdout) || (standard_output = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)) < 0 ||
	    dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		return cannot_write("standard output", strerror(errno), err);
	return 0;
}

int output_check_json(struct orr_error *err)
{
	if (!standard_output_option)
		return 0;
	return orr_fail(err, ORR_E_INPUT,
			"%s and --json both write to standard output: name a file for %s",
			standard_output_option, standard_output_option);
}

/* ---- writing ---- */

static int open_direct(struct output_stream *s, struct orr_error *err)
{
	if (!is_standard_output(s->path))
		s->file = fopen(s->path, "we");
	else if (standard_output_option || !take_standard_output(s->path, err))
		s->file = fdopen(fcntl(standard_output, F_DUPFD_CLOEXEC, 3), "w");
	return s->file ? 0 : cannot_write(s->path, strerror(errno), err);
}

/* A name for the file, PATH.part or, as one that is there is not ours, PATH.part1, ...: of a new
 * file, or of one that is open and has none. Its descriptor, or -1. */
static int name_part(struct output_stream *s, int unnamed)
{
	char link[32], number[16] = "";
	int fd = -1;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", unnamed);
	for (int i = 0; i < 1000; i++) {
		if (i)
			(void)snprintf(number, sizeof(number), "%d", i);
		if (asprintf(&s->part, "%s.part%s", s->target, number) < 0)
			break;
		if (unnamed < 0)
			fd = open(s->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		else if (!linkat(AT_FDCWD, link, AT_FDCWD, s->part, AT_SYMLINK_FOLLOW))
			fd = unnamed;
		if (fd >= 0)
			return fd;
		free(s->part);
		if (errno != EEXIST)
			break;
	}
	s->part = NULL;
	return -1;
}

/* A file without a name vanishes with the process, however that ends; not every file system has
 * them, and a name is given to them by way of /proc. */
static int open_unnamed(const char *target)
{
	char *folder = strdup(target);
	int fd = -1;

	if (folder && !access("/proc/self/fd", X_OK)) {
		strrchr(folder, '/')[1] = '\0';
		fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
	}
	free(folder);
	return fd;
}

static void discard(struct output_stream *s)
{
	if (s->file)
		(void)fclose(s->file);
	if (s->part)
		(void)unlink(s->part);
	free(s->part);
	free(s->target);
	free(s->buffer);
	*s = (struct output_stream){0};
}

/* named: other processes can follow it. */
static int open_part(struct output_stream *s, bool named, struct orr_error *err)
{
	int fd, why;

	/* a limit on the size of files is an error of write(), as a full disk is */
	(void)signal(SIGXFSZ, SIG_IGN);
	if (!access(s->target, F_OK) && access(s->target, W_OK))
		return cannot_write(s->path, strerror(errno), err);
	fd = named ? -1 : open_unnamed(s->target);
	if (fd < 0)
		fd = name_part(s, -1);
	if (fd < 0 || !(s->file = fdopen(fd, "w"))) {
		why = errno;
		if (fd >= 0)
			(void)close(fd);
		return cannot_write(s->path, strerror(why), err);
	}
	return 0;
}

static int open_stream(struct output_stream *s, const char *path, bool named, struct orr_error *err)
{
	int code;

	*s = (struct output_stream){.path = path};
	if (is_standard_output(path) || is_direct(path))
		code = open_direct(s, err);
	else if (!(code = resolve(&s->target, path, err)))
		code = open_part(s, named, err);
	if (code)
		discard(s);
	return code;
}

int output_open(struct output_stream *s, const char *path, struct orr_error *err)
{
	int code = open_stream(s, path, true, err);

	if (!code)
		(void)setvbuf(s->file, NULL, _IOLBF, BUFSIZ);
	return code;
}

/* That of the file that it replaces, and the owner, which only root can give it. */
static void take_mode(int fd, const char *target)
{
	struct stat old;
	int ignored;

	if (stat(target, &old))
		return;
	ignored = fchown(fd, old.st_uid, old.st_gid);
	(void)ignored;
	(void)fchmod(fd, old.st_mode & 0777);
}

/* With all of it on the disk, or errno says why not. */
static bool replace(struct output_stream *s)
{
	int fd = fileno(s->file);

	if (fflush(s->file) || ferror(s->file))
		return false;
	if (!s->target)
		return true;
	take_mode(fd, s->target);
	if (fsync(fd) || (!s->part && name_part(s, fd) < 0) || rename(s->part, s->target))
		return false;
	free(s->part);
	s->part = NULL;
	return true;
}

/* Whatever came to lie there since it was looked at first. */
static int spare_inputs(const struct output_stream *s, struct orr_error *err)
{
	struct stat status;

	for (int i = 0; s->target && i < n_known && !stat(s->target, &status); i++)
		if (!known[i].option && known[i].there && known[i].inode == status.st_ino &&
		    known[i].device == status.st_dev)
			return orr_fail(err, ORR_E_INPUT,
					"%s: has become what is read, %s: name another file",
					s->path, known[i].path);
	return 0;
}

int output_close(struct output_stream *s, int code, struct orr_error *err)
{
	if (!s->file)
		return code;
	if (!code && !(code = spare_inputs(s, err)) && !replace(s))
		code = orr_fail(err, ORR_E_IO, "%s: could not be written: %s", s->path,
				strerror(errno ? errno : EIO));
	discard(s);
	return code;
}

int output_begin(struct output_stream *s, const char *path, struct orr_error *err)
{
	int code = open_stream(s, path, false, err);

	if (!code && (s->buffer = malloc(BUFFER))) /* else the C library's, of 1 KB in a page */
		(void)setvbuf(s->file, s->buffer, _IOFBF, BUFFER);
	return code;
}

int output_end(struct output_stream *s, int code, struct orr_error *err)
{
	struct orr_error why = *err;

	if (code == ORR_E_IO) /* the library does not know which file it is */
		(void)orr_fail(err, code, "%s: %s", s->path, why.msg);
	return output_close(s, code, err);
}

int output_check_file(const char *option, const char *path, struct orr_error *err)
{
	struct output_stream s = {.path = path};
	struct stat status;
	bool direct;
	char *real;
	int code;

	if (!path)
		return 0;
	if (!*path)
		return orr_fail(err, ORR_E_INPUT, "%s: no name of a file: give one", option);
	if (is_standard_output(path))
		return take_standard_output(option, err);
	if (!stat(path, &status) && S_ISDIR(status.st_mode))
		return cannot_write(path, strerror(EISDIR), err);
	direct = is_direct(path);
	if (direct && access(path, W_OK))
		return cannot_write(path, strerror(errno), err);
	if (direct && (stat(path, &status) || !S_ISREG(status.st_mode)))
		return 0;
	if ((code = resolve(&real, path, err)) || (code = note(option, path, real, false, err)) ||
	    direct)
		return code;
	if (!(s.target = strdup(real)))
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory for its path", path);
	code = open_part(&s, false, err);
	discard(&s);
	return code;
}

int output_write_json(const char *path, const json_t *json, struct orr_error *err)
{
	struct output_stream s;
	int code;

	if (!path || (code = output_begin(&s, path, err)))
		return path ? code : 0;
	if (json_dumpf(json, s.file, JSON_INDENT(1) | OUTPUT_JSON_DIGITS) ||
	    fputc('\n', s.file) == EOF)
		code = orr_fail(err, ORR_E_IO, "could not be written: is there room?");
	return output_end(&s, code, err);
}
