#include "checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/quantity.h"
#include "steps.h"

struct orr_checkpoint {
	int64_t step;
	struct orr_folder folder; /* its own */
	json_t *manifest;
	struct orr_tensor_file *shards;
	int n_shards;
	struct orr_checkpoint_spread spread; /* zeros: all of it is in its folder */
};

/* ---- the folder ---- */

static int make_folder(struct orr_folder *folder, const char *path, struct orr_error *err)
{
	struct stat about;

	if (mkdir(path, 0777) && errno != EEXIST)
		return orr_fail(err, ORR_E_INPUT, "%s: cannot be made: %s", path, strerror(errno));
	if (stat(path, &about) || !S_ISDIR(about.st_mode))
		return orr_fail(err, ORR_E_INPUT, "%s: is no folder: name another", path);
	if (access(path, W_OK | X_OK))
		return orr_fail(err, ORR_E_INPUT, "%s: nothing can be written there: %s", path,
				strerror(errno));
	return orr_folder_open(folder, path, err) ? ORR_E_INPUT : 0;
}

int orr_checkpoint_lock(const char *path, struct orr_error *err)
{
	struct orr_folder folder;
	int fd, code = make_folder(&folder, path, err);

	if (code)
		return code;
	code = orr_folder_file(&folder, ".lock", O_WRONLY | O_CREAT, &fd, NULL, err);
	orr_folder_close(&folder);
	if (code)
		return ORR_E_INPUT;
	/* where a file system has no locks, it goes without one */
	if (!flock(fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK)
		return 0;
	close(fd);
	return orr_fail(err, ORR_E_INPUT,
			"%s: another run writes its checkpoints there: name another folder, or "
			"wait for it to end",
			path);
}

int orr_checkpoint_prepare(const char *path, int64_t *newest, struct orr_error *err)
{
	struct orr_folder folder;
	int64_t *steps;
	int n, code;

	*newest = -1;
	if ((code = make_folder(&folder, path, err)))
		return code;
	if (!(code = orr_steps_list(&folder, &steps, &n, err))) {
		if (n)
			*newest = steps[0];
		orr_steps_sweep(&folder, false);
	}
	free(steps);
	orr_folder_close(&folder);
	return code;
}

/* ---- writing ---- */

/* errno says why. */
static int fail_to_make(const struct orr_folder *folder, const char *name, struct orr_error *err)
{
	bool taken = errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR;

	return orr_fail(err, ORR_E_IO, "%s/%s: cannot be made: %s", folder->path, name,
			taken ? "something that is no checkpoint is in its place: move it away"
			      : strerror(errno));
}

int orr_checkpoint_begin(const char *path, int64_t step, int n_shards, struct orr_error *err)
{
	const char *name = orr_step_unfinished_name(step), *shard;
	struct orr_folder folder;
	int code = orr_folder_open(&folder, path, err);

	if (code)
		return code;
	orr_step_remove(&folder, name);
	if (renameat(folder.fd, orr_step_spare_name(), folder.fd, name) &&
	    mkdirat(folder.fd, name, 0777))
		code = fail_to_make(&folder, name, err);
	do /* those of more ranks, in what an earlier start left */
		shard = orr_text("%s/%s", name, orr_step_shard_name(n_shards++));
	while (!unlinkat(folder.fd, shard, 0));
	orr_folder_close(&folder);
	return code;
}

/* The folder of that name in that of the path. */
static int enter(struct orr_folder *folder, const char *path, const char *name,
		 struct orr_error *err)
{
	struct orr_folder outer;
	int code = orr_folder_open(&outer, path, err);

	folder->fd = -1;
	if (code)
		return code;
	code = orr_folder_enter(folder, &outer, name, err);
	orr_folder_close(&outer);
	return code;
}

int orr_checkpoint_unfinished(struct orr_folder *unfinished, const char *path, int64_t step,
			      struct orr_error *err)
{
	return enter(unfinished, path, orr_step_unfinished_name(step), err);
}

/* Both: the folder of that path, and the one in it where a checkpoint of the step is written. */
static int open_unfinished(struct orr_folder *folder, struct orr_folder *unfinished,
			   const char *path, int64_t step, struct orr_error *err)
{
	int code = orr_folder_open(folder, path, err);

	if (!code &&
	    (code = orr_folder_enter(unfinished, folder, orr_step_unfinished_name(step), err)))
		orr_folder_close(folder);
	return code;
}

int orr_checkpoint_write(const char *path, int64_t step, int number,
			 const struct orr_named_tensor *tensors, int n_tensors,
			 struct orr_shard *shard, struct orr_error *err)
{
	struct orr_folder folder, unfinished;
	int code = open_unfinished(&folder, &unfinished, path, step, err);

	if (code)
		return code;
	memset(shard, 0, sizeof(*shard));
	shard->number = number;
	code = orr_safetensors_write(&unfinished, orr_step_shard_name(number), tensors, n_tensors,
				     orr_text("orrery, after step %lld", (long long)step),
				     &shard->n_bytes, shard->checksum, err);
	orr_folder_close(&unfinished);
	orr_folder_close(&folder);
	return code;
}

static int open_step(struct orr_checkpoint **out, const struct orr_folder *folder, int64_t step,
		     int part, int n_parts, struct orr_error *err);

/* All but the last ones up to this step; those that are cut off take nobody's place. Later steps
 * are of another course that training went. */
static void remove_old(const struct orr_folder *folder, int64_t step, int keep)
{
	int64_t *steps;
	int n, n_kept = 0;

	if (!keep || orr_steps_list(folder, &steps, &n, NULL))
		return;
	for (int i = 0; i < n; i++) {
		struct orr_checkpoint *c = NULL;

		if (steps[i] > step)
			continue;
		if (n_kept == keep)
			orr_step_drop(folder, steps[i]);
		else if (steps[i] == step || !open_step(&c, folder, steps[i], 0, 0, NULL))
			n_kept++;
		orr_checkpoint_close(c);
	}
	free(steps);
}

/* The unfinished step takes its name, for good. */
static int take_name(const struct orr_folder *folder, int64_t step, struct orr_error *err)
{
	const char *name = orr_step_name(step);

	/* One of the same step is there only where it was not whole, and training went on before
	 * it. */
	orr_step_remove(folder, name);
	if (renameat(folder->fd, orr_step_unfinished_name(step), folder->fd, name))
		return fail_to_make(folder, name, err);
	return orr_folder_settle(folder, err);
}

int orr_checkpoint_commit(const char *path, int64_t step, int64_t samples, const json_t *about,
			  const struct orr_shard *shards, int n_shards, int keep,
			  struct orr_error *err)
{
	struct orr_folder folder, unfinished;
	int code = open_unfinished(&folder, &unfinished, path, step, err);

	if (code)
		return code;
	if (!(code = orr_manifest_write(&unfinished, step, samples, about, shards, n_shards,
					err)) &&
	    !(code = orr_folder_settle(&unfinished, err)) &&
	    !(code = take_name(&folder, step, err)))
		remove_old(&folder, step, keep);
	orr_folder_close(&unfinished);
	orr_folder_close(&folder);
	return code;
}

/* Give all steps before, or after, or both, away. */
static void clear(const char *path, int64_t step, bool later, bool drops)
{
	struct orr_folder folder;
	int64_t *steps;
	int n;

	if (orr_folder_open(&folder, path, NULL))
		return;
	if (orr_steps_list(&folder, &steps, &n, NULL))
		n = 0;
	for (int i = 0; i < n; i++)
		if (steps[i] != step && (later || steps[i] < step))
			(drops ? orr_step_drop : orr_step_spare)(&folder, steps[i]);
	free(steps);
	orr_folder_close(&folder);
}

void orr_checkpoint_recycle(const char *path, int64_t step)
{
	clear(path, step, false, false);
}

void orr_checkpoint_keep(const char *path, int64_t step, bool spares)
{
	struct orr_folder folder;

	clear(path, step, true, !spares);
	if (orr_folder_open(&folder, path, NULL))
		return;
	orr_steps_sweep(&folder, spares);
	orr_folder_close(&folder);
}

void orr_checkpoint_drop(const char *path, int64_t step)
{
	struct orr_folder folder;

	if (orr_folder_open(&folder, path, NULL))
		return;
	orr_step_drop(&folder, step);
	orr_folder_close(&folder);
}

void orr_checkpoint_abandon(const char *path, int64_t step)
{
	struct orr_folder folder;

	if (orr_folder_open(&folder, path, NULL))
		return;
	orr_step_remove(&folder, orr_step_unfinished_name(step));
	orr_folder_close(&folder);
}

/* ---- reading ---- */

enum reading { LOOK, NAMES, THROUGH };

/* The one after those that are kept; it is, too. */
static int keep_shard(struct orr_checkpoint *c, struct orr_error *err)
{
	const struct orr_tensor_file *shard = &c->shards[c->n_shards++];
	const char *shared;

	for (int i = 0; i + 1 < c->n_shards; i++)
		if ((shared = orr_safetensors_shared(shard, &c->shards[i])))
			return orr_fail(err, ORR_E_INPUT, "%s: two shards have the tensor '%s'",
					c->folder.path, shared);
	return 0;
}

/* Is the shard as its owner wrote it? It is kept open, unless it is only looked at. */
static int open_shard(struct orr_checkpoint *c, const json_t *entry, enum reading reading,
		      struct orr_error *err)
{
	const char *file = "", *written = "";
	struct orr_tensor_file *shard = &c->shards[c->n_shards];
	json_int_t n_bytes = -1;
	int64_t n_there;
	int fd, code, i = c->n_shards;

	if (json_unpack((json_t *)(uintptr_t)entry, "{s:s,s:I,s:s}", "file", &file, "bytes",
			&n_bytes, "xxh3_128", &written) ||
	    !orr_step_is_shard(file))
		return orr_manifest_fail(&c->folder, "is damaged: it names no shard", err);
	if (c->spread.here && !c->spread.here[i]) {
		if ((code = orr_safetensors_open_elsewhere(
			     shard, file, n_bytes,
			     &(struct orr_tensor_reader){c->spread.read, c->spread.user, i}, err)))
			return code;
		return keep_shard(c, err);
	}
	if ((code = orr_folder_file(&c->folder, file, O_RDONLY, &fd, &n_there, err)))
		return code;
	close(fd);
	if (n_there != n_bytes)
		return orr_fail(err, ORR_E_INPUT, "%s: %s has %lld bytes instead of %lld",
				c->folder.path, file, (long long)n_there, (long long)n_bytes);
	if (reading == LOOK)
		return 0;
	if ((code = orr_safetensors_open(shard, &c->folder, file, reading == THROUGH, written,
					 err)))
		return code;
	return keep_shard(c, err);
}

static int open_shards(struct orr_checkpoint *c, int part, int n_parts, struct orr_error *err)
{
	json_t *shards = json_object_get(c->manifest, "shards");
	int code = 0;

	if (!(c->shards = calloc(json_array_size(shards) + 1, sizeof(*c->shards))))
		code = orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", c->folder.path);
	for (size_t i = 0; i < json_array_size(shards) && !code; i++)
		code = open_shard(c, json_array_get(shards, i),
				  !n_parts                   ? LOOK
				  : (int)i % n_parts == part ? THROUGH
							     : NAMES,
				  err);
	return code;
}

/* Of every n_parts-th shard from number `part` on all is read, of the others the names; n_parts 0:
 * all are only looked at from outside. */
static int open_step(struct orr_checkpoint **out, const struct orr_folder *folder, int64_t step,
		     int part, int n_parts, struct orr_error *err)
{
	struct orr_checkpoint *c = calloc(1, sizeof(*c));
	int code;

	if (!c)
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", folder->path);
	c->step = step;
	c->folder.fd = -1;
	if (!(code = orr_folder_enter(&c->folder, folder, orr_step_name(step), err)) &&
	    !(code = orr_manifest_read(&c->manifest, &c->folder, step, err)))
		code = open_shards(c, part, n_parts, err);
	if (code)
		orr_checkpoint_close(c);
	else
		*out = c;
	return code;
}

int orr_checkpoint_find(const char *path, int64_t last, int64_t *step,
			void (*report)(const char *line), struct orr_error *err)
{
	struct orr_checkpoint *found = NULL;
	struct orr_folder folder;
	struct orr_error wrong;
	int64_t *steps;
	int n, code;

	*step = -1;
	if (orr_folder_open(&folder, path, err))
		return ORR_E_INPUT;
	code = orr_steps_list(&folder, &steps, &n, err);
	for (int i = 0; i < n && !code && !found; i++)
		if (steps[i] <= last && open_step(&found, &folder, steps[i], 0, 0, &wrong) &&
		    report)
			report(wrong.msg);
	if (found)
		*step = found->step;
	orr_checkpoint_close(found);
	free(steps);
	orr_folder_close(&folder);
	return code;
}

int orr_checkpoint_open(struct orr_checkpoint **out, const char *path, int64_t step, int part,
			int n_parts, struct orr_error *err)
{
	struct orr_folder folder;
	int code;

	*out = NULL;
	if (orr_folder_open(&folder, path, err))
		return ORR_E_INPUT;
	code = open_step(out, &folder, step, part, n_parts, err);
	orr_folder_close(&folder);
	return code;
}

/* ---- one whose shards lie in several folders ---- */

int64_t orr_checkpoint_newest(const char *path, int64_t last)
{
	struct orr_folder folder;
	int64_t *steps, newest = -1;
	int n;

	if (orr_folder_open(&folder, path, NULL))
		return -1;
	if (orr_steps_list(&folder, &steps, &n, NULL))
		n = 0;
	for (int i = n - 1; i >= 0; i--)
		newest = steps[i] <= last ? steps[i] : newest;
	free(steps);
	orr_folder_close(&folder);
	return newest;
}

int orr_checkpoint_manifest(json_t **manifest, const char *path, int64_t step,
			    struct orr_error *err)
{
	struct orr_folder folder;
	int code = enter(&folder, path, orr_step_name(step), err);

	*manifest = NULL;
	if (!code && (code = orr_manifest_read(manifest, &folder, step, err))) {
		json_decref(*manifest);
		*manifest = NULL;
	}
	orr_folder_close(&folder);
	return code;
}

int orr_checkpoint_has(const char *path, int64_t step, const json_t *manifest, int i, bool *there,
		       struct orr_error *err)
{
	const json_t *entry = json_array_get(json_object_get(manifest, "shards"), (size_t)i);
	const char *file = json_string_value(json_object_get(entry, "file"));
	struct orr_tensor_file shard;
	struct orr_checkpoint c = {.step = step, .shards = &shard};
	int code = enter(&c.folder, path, orr_step_name(step), err);

	*there = !code && file && !faccessat(c.folder.fd, file, F_OK, 0);
	if (*there && !(code = open_shard(&c, entry, THROUGH, err)))
		orr_tensor_file_close(&shard);
	orr_folder_close(&c.folder);
	return code;
}

int orr_checkpoint_open_spread(struct orr_checkpoint **out, const char *path, int64_t step,
			       json_t *manifest, const struct orr_checkpoint_spread *spread,
			       struct orr_error *err)
{
	struct orr_checkpoint *c = calloc(1, sizeof(*c));
	int code;

	*out = NULL;
	if (!c)
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", path);
	c->step = step;
	c->manifest = json_incref(manifest);
	c->spread = (struct orr_checkpoint_spread){spread->here, spread->read, NULL, spread->user};
	if (enter(&c->folder, path, orr_step_name(step), NULL)) /* all of it is elsewhere */
		(void)snprintf(c->folder.path, sizeof(c->folder.path), "%s/%s", path,
			       orr_step_name(step));
	if ((code = open_shards(c, -1, 1, err))) {
		orr_checkpoint_close(c);
		return code;
	}
	c->spread.end = spread->end;
	*out = c;
	return 0;
}

void orr_checkpoint_close(struct orr_checkpoint *c)
{
	if (!c)
		return;
	if (c->spread.end)
		c->spread.end(c->spread.user);
	for (int i = 0; i < c->n_shards; i++)
		orr_tensor_file_close(&c->shards[i]);
	free(c->shards);
	json_decref(c->manifest);
	orr_folder_close(&c->folder);
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
		if (orr_tensor_header_find(&c->shards[i].header, tensor->name))
			return orr_safetensors_read(&c->shards[i], tensor, err);
	return orr_fail(err, ORR_E_INPUT, "%s: no shard has a tensor '%s'", c->folder.path,
			tensor->name);
}

/* ---- what it belongs to: graph, data, options ---- */

const json_t *orr_checkpoint_about(const struct orr_checkpoint *c)
{
	return json_object_get(c->manifest, "about");
}

/* The first place where two objects differ. */
struct difference {
	char keys[200];             /* that lead there */
	const json_t *there, *here; /* NULL: nothing is */
};

/* false: they are equal. */
static bool find_difference(struct difference *d, const json_t *there, const json_t *here)
{
	json_t *const both[] = {(json_t *)(uintptr_t)there, (json_t *)(uintptr_t)here};
	size_t length = strlen(d->keys);
	const char *key;
	json_t *value;

	d->there = there;
	d->here = here;
	for (int i = 0; i < 2 && json_is_object(there) && json_is_object(here); i++)
		json_object_foreach(both[i], key, value)
		{
			const json_t *a = json_object_get(there, key);
			const json_t *b = json_object_get(here, key);

			if (json_equal(a, b))
				continue;
			(void)snprintf(d->keys + length, sizeof(d->keys) - length, "%s%s",
				       length ? " " : "", key);
			return find_difference(d, a, b);
		}
	return !json_equal(there, here);
}

/* A number in no more digits than it takes to tell it from all others: 0.1, and 30 for 30.0. The
 * caller's to free; NULL: there is nothing, or no memory. */
static char *print_value(const json_t *value)
{
	char text[40];
	int digits = 15;

	if (!json_is_real(value))
		return value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
	do
		(void)snprintf(text, sizeof(text), "%.*g", digits, json_real_value(value));
	while (digits++ < 17 && strtod(text, NULL) != json_real_value(value));
	return strdup(text);
}

int orr_checkpoint_check(const struct orr_checkpoint *c, const json_t *about, struct orr_error *err)
{
	struct difference d = {.keys = ""};
	char *there, *here;

	if (!find_difference(&d, orr_checkpoint_about(c), about))
		return 0;
	there = print_value(d.there);
	here = print_value(d.here);
	orr_fail(err, ORR_E_INPUT,
		 "%s: %s is %.120s there and %.120s here: resume with what it was trained with, or "
		 "train anew in another folder",
		 c->folder.path, d.keys, there ? there : "missing", here ? here : "missing");
	free(there);
	free(here);
	return ORR_E_INPUT;
}
