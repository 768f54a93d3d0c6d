#include "checkpoint.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FORMAT "orrery checkpoint"
#define VERSION 1
#define MANIFEST "manifest.json"

struct orr_checkpoint {
	int64_t step;
	char *path; /* of its folder */
	json_t *manifest;
	struct orr_safetensors **shards;
	int n_shards;
};

/* ---- names ---- */

/* A path; too long a one is cut, and then is no file. */
static void join(char path[PATH_MAX], const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void join(char path[PATH_MAX], const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(path, PATH_MAX, format, arguments);
	va_end(arguments);
}

static void step_path(char path[PATH_MAX], const char *folder, int64_t step)
{
	join(path, "%s/step-%08lld", folder, (long long)step);
}

static void unfinished_path(char path[PATH_MAX], const char *folder, int64_t step)
{
	join(path, "%s/.step-%08lld.tmp", folder, (long long)step);
}

/* The number in step-00000120, or -1 for any other name. */
static int64_t step_of(const char *name)
{
	const char *digits = name + 5;
	char *end;
	long long step;

	if (strncmp(name, "step-", 5) != 0 || strlen(digits) < 8 ||
	    !isdigit((unsigned char)*digits))
		return -1;
	errno = 0;
	step = strtoll(digits, &end, 10);
	return errno || *end ? -1 : step;
}

static bool is_unfinished(const char *name)
{
	size_t length = strlen(name);

	return strncmp(name, ".step-", 6) == 0 && length > 4 && !strcmp(name + length - 4, ".tmp");
}

static bool is_shard(const char *name)
{
	return strncmp(name, "shard-", 6) == 0;
}

/* ---- folders ---- */

/* A checkpoint's folder and what is ours in it; what somebody else put there stays. */
static void remove_folder(const char *path)
{
	char file[PATH_MAX];
	DIR *folder = opendir(path);
	struct dirent *entry;

	while (folder && (entry = readdir(folder)))
		if (is_shard(entry->d_name) || !strcmp(entry->d_name, MANIFEST)) {
			join(file, "%s/%s", path, entry->d_name);
			unlink(file);
		}
	if (folder)
		closedir(folder);
	rmdir(path);
}

/* So that it is gone at once, whatever happens while its files are removed. */
static void remove_step(const char *folder, int64_t step)
{
	char path[PATH_MAX], unfinished[PATH_MAX];

	step_path(path, folder, step);
	unfinished_path(unfinished, folder, step);
	if (!rename(path, unfinished))
		remove_folder(unfinished);
}

static int newest_first(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x < *y) - (*x > *y);
}

/* The steps in a folder, the newest first; *steps is the caller's. */
static int list_steps(const char *folder, int64_t **steps, int *n, struct orr_error *err)
{
	DIR *names = opendir(folder);
	struct dirent *entry;
	int room = 0, code = 0;

	*steps = NULL;
	*n = 0;
	if (!names)
		return orr_fail(err, ORR_E_INPUT, "%s: cannot be read: %s", folder,
				strerror(errno));
	while (!code && (entry = readdir(names))) {
		int64_t step = step_of(entry->d_name), *longer;

		if (step < 0)
			continue;
		if (*n == room) {
			room = 2 * room + 16;
			if (!(longer = realloc(*steps, (size_t)room * sizeof(**steps)))) {
				code = orr_fail(err, ORR_E_NOMEM, "%s: no memory to list it",
						folder);
				break;
			}
			*steps = longer;
		}
		(*steps)[(*n)++] = step;
	}
	closedir(names);
	if (*n)
		qsort(*steps, (size_t)*n, sizeof(**steps), newest_first);
	return code;
}

static int make_folder(const char *folder, struct orr_error *err)
{
	struct stat about;

	if (mkdir(folder, 0777) && errno != EEXIST)
		return orr_fail(err, ORR_E_INPUT, "%s: cannot be made: %s", folder,
				strerror(errno));
	if (!stat(folder, &about) && !S_ISDIR(about.st_mode))
		return orr_fail(err, ORR_E_INPUT, "%s: is no folder: name another", folder);
	if (access(folder, W_OK | X_OK))
		return orr_fail(err, ORR_E_INPUT, "%s: nothing can be written there: %s", folder,
				strerror(errno));
	return 0;
}

int orr_checkpoint_lock(const char *folder, struct orr_error *err)
{
	char path[PATH_MAX];
	int fd, code = make_folder(folder, err);

	if (code)
		return code;
	join(path, "%s/.lock", folder);
	if ((fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666)) < 0)
		return orr_fail(err, ORR_E_INPUT, "%s: cannot be made: %s", path, strerror(errno));
	/* where a file system has no locks, it goes without one */
	if (!flock(fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK)
		return 0;
	close(fd);
	return orr_fail(err, ORR_E_INPUT,
			"%s: another run writes its checkpoints there: name another folder, or "
			"wait for it to end",
			folder);
}

int orr_checkpoint_prepare(const char *folder, int64_t *newest, struct orr_error *err)
{
	char path[PATH_MAX];
	int64_t *steps = NULL;
	struct dirent *entry;
	int n = 0, code;
	DIR *names;

	*newest = -1;
	if ((code = make_folder(folder, err)))
		return code;
	if ((code = list_steps(folder, &steps, &n, err)))
		goto out;
	if (n)
		*newest = steps[0];
	names = opendir(folder);
	while (names && (entry = readdir(names)))
		if (is_unfinished(entry->d_name)) {
			join(path, "%s/%s", folder, entry->d_name);
			remove_folder(path);
		}
	if (names)
		closedir(names);
out:
	free(steps);
	return code;
}

/* ---- writing ---- */

int orr_checkpoint_begin(const char *folder, int64_t step, struct orr_error *err)
{
	char path[PATH_MAX];

	unfinished_path(path, folder, step);
	remove_folder(path);
	if (mkdir(path, 0777))
		return orr_fail(err, ORR_E_IO, "%s: cannot be made: %s", path, strerror(errno));
	return 0;
}

int orr_checkpoint_write(const char *folder, int64_t step, int number,
			 const struct orr_named_tensor *tensors, int n_tensors,
			 struct orr_shard *shard, struct orr_error *err)
{
	char path[PATH_MAX], note[64];

	join(path, "%s/.step-%08lld.tmp/shard-%d.safetensors", folder, (long long)step, number);
	(void)snprintf(note, sizeof(note), "orrery, after step %lld", (long long)step);
	memset(shard, 0, sizeof(*shard));
	shard->number = number;
	return orr_safetensors_write(path, tensors, n_tensors, note, &shard->n_bytes,
				     shard->checksum, err);
}

/* Of all that a manifest says but its checksum; false: no memory. */
static bool manifest_checksum(char checksum[ORR_CHECKSUM], const json_t *manifest)
{
	json_t *rest = json_copy((json_t *)(uintptr_t)manifest);
	char *text = NULL;

	if (rest) {
		json_object_del(rest, "checksum");
		text = json_dumps(rest, JSON_COMPACT | JSON_SORT_KEYS);
	}
	if (text)
		orr_checksum(checksum, text, strlen(text));
	json_decref(rest);
	free(text);
	return text != NULL;
}

static json_t *make_manifest(int64_t step, int64_t samples, const json_t *about,
			     const struct orr_shard *shards, int n_shards)
{
	char checksum[ORR_CHECKSUM], file[40];
	json_t *list = json_array(), *manifest;

	for (int i = 0; list && i < n_shards; i++) {
		(void)snprintf(file, sizeof(file), "shard-%d.safetensors", shards[i].number);
		if (json_array_append_new(list, json_pack("{s:s,s:I,s:s}", "file", file, "bytes",
							  (json_int_t)shards[i].n_bytes, "xxh3_128",
							  shards[i].checksum))) {
			json_decref(list);
			return NULL;
		}
	}
	manifest = json_pack("{s:s,s:i,s:I,s:I,s:O,s:o}", "format", FORMAT, "version", VERSION,
			     "step", (json_int_t)step, "samples", (json_int_t)samples, "about",
			     about, "shards", list);
	if (manifest && (!manifest_checksum(checksum, manifest) ||
			 json_object_set_new(manifest, "checksum", json_string(checksum)))) {
		json_decref(manifest);
		return NULL;
	}
	return manifest;
}

static int write_manifest(const char *path, const json_t *manifest, struct orr_error *err)
{
	char *text = json_dumps(manifest, JSON_INDENT(2)), checksum[ORR_CHECKSUM];
	struct orr_sink *sink = NULL;
	int64_t n_bytes;
	int code;

	if (!text)
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory to write it", path);
	if ((code = orr_sink_create(&sink, path, err)) ||
	    (code = orr_sink_write(sink, text, strlen(text), err)) ||
	    (code = orr_sink_write(sink, "\n", 1, err)))
		goto out;
	code = orr_sink_finish(sink, &n_bytes, checksum, err);
out:
	orr_sink_destroy(sink);
	free(text);
	return code;
}

static int open_step(struct orr_checkpoint **out, const char *folder, int64_t step, bool whole,
		     struct orr_error *err);

/* All but the last ones up to this step; those that are cut off take nobody's place. Later steps
 * are of another course that training went. */
static void remove_old(const char *folder, int64_t step, int keep)
{
	int64_t *steps;
	int n, n_kept = 0;

	if (keep && !list_steps(folder, &steps, &n, NULL)) {
		for (int i = 0; i < n; i++) {
			struct orr_checkpoint *c = NULL;

			if (steps[i] > step)
				continue;
			if (n_kept == keep)
				remove_step(folder, steps[i]);
			else if (steps[i] == step || !open_step(&c, folder, steps[i], false, NULL))
				n_kept++;
			orr_checkpoint_close(c);
		}
		free(steps);
	}
}

int orr_checkpoint_commit(const char *folder, int64_t step, int64_t samples, const json_t *about,
			  const struct orr_shard *shards, int n_shards, int keep,
			  struct orr_error *err)
{
	char unfinished[PATH_MAX], manifest_path[PATH_MAX], path[PATH_MAX];
	json_t *manifest = make_manifest(step, samples, about, shards, n_shards);
	int code;

	unfinished_path(unfinished, folder, step);
	step_path(path, folder, step);
	join(manifest_path, "%s/" MANIFEST, unfinished);
	if (!manifest) {
		code = orr_fail(err, ORR_E_NOMEM, "%s: no memory for its manifest", path);
		goto out;
	}
	if ((code = write_manifest(manifest_path, manifest, err)) ||
	    (code = orr_folder_settle(unfinished, err)))
		goto out;
	/* One of the same step is there only where it was not whole, and training went on before
	 * it. */
	remove_folder(path);
	if (rename(unfinished, path)) {
		code = orr_fail(err, ORR_E_IO, "%s: cannot be made: %s", path, strerror(errno));
		goto out;
	}
	if (!(code = orr_folder_settle(folder, err)))
		remove_old(folder, step, keep);
out:
	json_decref(manifest);
	return code;
}

void orr_checkpoint_abandon(const char *folder, int64_t step)
{
	char path[PATH_MAX];

	unfinished_path(path, folder, step);
	remove_folder(path);
}

/* ---- reading ---- */

static int open_manifest(struct orr_checkpoint *c, struct orr_error *err)
{
	char path[PATH_MAX], checksum[ORR_CHECKSUM];
	const char *format = "", *written = "";
	json_int_t step = -1, samples = -1;
	json_t *about, *shards;
	json_error_t error;
	int version = -1;

	join(path, "%s/" MANIFEST, c->path);
	if (access(path, R_OK))
		return orr_fail(err, ORR_E_INPUT, "%s: " MANIFEST ": %s", c->path, strerror(errno));
	if (!(c->manifest = json_load_file(path, JSON_REJECT_DUPLICATES, &error)))
		return orr_fail(err, ORR_E_INPUT, "%s: " MANIFEST " is cut off or damaged: %s",
				c->path, error.text);
	if (json_unpack(c->manifest, "{s:s,s:i,s:s,s:I,s:I,s:o,s:o}", "format", &format, "version",
			&version, "checksum", &written, "step", &step, "samples", &samples, "about",
			&about, "shards", &shards) ||
	    !json_is_array(shards) || !manifest_checksum(checksum, c->manifest) ||
	    strcmp(checksum, written) != 0)
		return orr_fail(err, ORR_E_INPUT,
				"%s: " MANIFEST " is damaged: its checksum does not fit", c->path);
	if (strcmp(format, FORMAT) != 0 || version != VERSION)
		return orr_fail(err, ORR_E_INPUT,
				"%s: written in another format, version %d: this build reads %d",
				c->path, version, VERSION);
	if (step != c->step)
		return orr_fail(err, ORR_E_INPUT, "%s: " MANIFEST " is of step %lld", c->path,
				(long long)step);
	return 0;
}

/* Is the shard as its owner wrote it? whole: read it through. */
static int check_shard(const struct orr_checkpoint *c, const json_t *entry, bool whole,
		       char path[PATH_MAX], struct orr_error *err)
{
	const char *file = "", *written = "";
	char checksum[ORR_CHECKSUM];
	json_int_t n_bytes = -1;
	struct stat about;
	int64_t n_read;
	int code = 0;

	if (json_unpack((json_t *)(uintptr_t)entry, "{s:s,s:I,s:s}", "file", &file, "bytes",
			&n_bytes, "xxh3_128", &written) ||
	    !is_shard(file) || strchr(file, '/'))
		return orr_fail(err, ORR_E_INPUT, "%s: " MANIFEST " is damaged: it names no shard",
				c->path);
	join(path, "%s/%s", c->path, file);
	if (stat(path, &about))
		return orr_fail(err, ORR_E_INPUT, "%s: %s: %s", c->path, file, strerror(errno));
	if (about.st_size != n_bytes)
		return orr_fail(err, ORR_E_INPUT, "%s: %s has %lld bytes instead of %lld", c->path,
				file, (long long)about.st_size, (long long)n_bytes);
	if (whole && !(code = orr_checksum_file(path, &n_read, checksum, err)) &&
	    strcmp(checksum, written) != 0)
		code = orr_fail(err, ORR_E_INPUT, "%s: %s is damaged: its checksum does not fit",
				c->path, file);
	return code;
}

/* whole: with every shard read through and open; else only looked at from outside. */
static int open_step(struct orr_checkpoint **out, const char *folder, int64_t step, bool whole,
		     struct orr_error *err)
{
	struct orr_checkpoint *c = calloc(1, sizeof(*c));
	char path[PATH_MAX];
	json_t *shards;
	int code;

	step_path(path, folder, step);
	if (!c || !(c->path = strdup(path))) {
		code = orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", path);
		goto out;
	}
	c->step = step;
	if ((code = open_manifest(c, err)))
		goto out;
	shards = json_object_get(c->manifest, "shards");
	if (!(c->shards = calloc(json_array_size(shards) + 1, sizeof(struct orr_safetensors *)))) {
		code = orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", path);
		goto out;
	}
	for (size_t i = 0; i < json_array_size(shards); i++) {
		if ((code = check_shard(c, json_array_get(shards, i), whole, path, err)) ||
		    (whole && (code = orr_safetensors_open(&c->shards[c->n_shards++], path, err))))
			goto out;
	}
	*out = c;
	c = NULL;
out:
	orr_checkpoint_close(c);
	return code;
}

int orr_checkpoint_open(struct orr_checkpoint **out, const char *folder, int64_t step,
			void (*report)(const char *line), struct orr_error *err)
{
	struct orr_error wrong;
	int64_t *steps = NULL;
	int n = 0, code;

	if (step >= 0)
		return open_step(out, folder, step, true, err);
	if ((code = list_steps(folder, &steps, &n, err)))
		goto out;
	code = ORR_E_INPUT;
	for (int i = 0; i < n && code; i++) {
		code = open_step(out, folder, steps[i], true, &wrong);
		if (code && report)
			report(wrong.msg);
	}
	if (code)
		orr_fail(err, code = ORR_E_INPUT,
			 "%s: no checkpoint there is whole (of %d): start without --resume", folder,
			 n);
out:
	free(steps);
	return code;
}

void orr_checkpoint_close(struct orr_checkpoint *c)
{
	if (!c)
		return;
	for (int i = 0; i < c->n_shards; i++)
		orr_safetensors_close(c->shards[i]);
	free(c->shards);
	json_decref(c->manifest);
	free(c->path);
	free(c);
}

int64_t orr_checkpoint_step(const struct orr_checkpoint *c)
{
	return c->step;
}

int orr_checkpoint_read(const struct orr_checkpoint *c, const struct orr_named_tensor *tensor,
			struct orr_error *err)
{
	for (int i = 0; i < c->n_shards; i++)
		if (orr_safetensors_has(c->shards[i], tensor->name))
			return orr_safetensors_read(c->shards[i], tensor, err);
	return orr_fail(err, ORR_E_INPUT, "%s: no shard has a tensor '%s'", c->path, tensor->name);
}

/* ---- what it is of ---- */

/* The first place where two objects differ: the keys that lead to it, and what is there (NULL:
 * nothing). */
struct difference {
	char place[200];
	json_t *there, *here;
};

static bool find_difference(struct difference *d, json_t *there, json_t *here)
{
	json_t *const both[] = {there, here};
	size_t length = strlen(d->place);
	const char *key;
	json_t *value;

	d->there = there;
	d->here = here;
	for (int i = 0; i < 2 && json_is_object(there) && json_is_object(here); i++)
		json_object_foreach(both[i], key, value)
		{
			json_t *a = json_object_get(there, key), *b = json_object_get(here, key);

			if (json_equal(a, b))
				continue;
			(void)snprintf(d->place + length, sizeof(d->place) - length, "%s%s",
				       length ? " " : "", key);
			return find_difference(d, a, b);
		}
	return !json_equal(there, here);
}

int orr_checkpoint_check(const struct orr_checkpoint *c, const json_t *about, struct orr_error *err)
{
	struct difference d = {"", NULL, NULL};
	char *there, *here;

	if (!find_difference(&d, json_object_get(c->manifest, "about"), (json_t *)(uintptr_t)about))
		return 0;
	there = d.there ? json_dumps(d.there, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
	here = d.here ? json_dumps(d.here, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
	orr_fail(err, ORR_E_INPUT,
		 "%s: %s is %.120s there and %.120s here: resume with what it was trained with, or "
		 "train anew in another folder",
		 c->path, d.place, there ? there : "missing", here ? here : "missing");
	free(there);
	free(here);
	return ORR_E_INPUT;
}
