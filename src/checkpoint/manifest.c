#include "manifest.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arrays.h"
#include "base/json.h"
#include "sink.h"
#include "steps.h"

#define FORMAT "orrery checkpoint"
#define VERSION 1
#define MOST_BYTES 100000000

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
	char checksum[ORR_CHECKSUM];
	json_t *list = json_array(), *manifest;

	for (int i = 0; i < n_shards; i++)
		orr_json_append(&list, json_pack("{s:s,s:I,s:s}", "file",
						 orr_step_shard_name(shards[i].number), "bytes",
						 (json_int_t)shards[i].n_bytes, "xxh3_128",
						 shards[i].checksum));
	manifest = json_pack("{s:s,s:i,s:I,s:I,s:O,s:o}", "format", FORMAT, "version", VERSION,
			     "step", (json_int_t)step, "samples", (json_int_t)samples, "about",
			     about, "shards", list);
	orr_json_keep(&manifest, !manifest_checksum(checksum, manifest));
	if (manifest)
		orr_json_set(&manifest, "checksum", json_string(checksum));
	return manifest;
}

int orr_manifest_write(const struct orr_folder *folder, int64_t step, int64_t samples,
		       const json_t *about, const struct orr_shard *shards, int n_shards,
		       struct orr_error *err)
{
	json_t *manifest = make_manifest(step, samples, about, shards, n_shards);
	char *text = manifest ? json_dumps(manifest, JSON_INDENT(2)) : NULL, checksum[ORR_CHECKSUM];
	struct orr_sink sink;
	int64_t n_bytes;
	int code;

	json_decref(manifest);
	if (!text)
		return orr_no_memory(err, folder->path);
	orr_sink_begin(&sink, folder, ORR_STEP_MANIFEST, err);
	orr_sink_write(&sink, text, strlen(text));
	orr_sink_write(&sink, "\n", 1);
	code = orr_sink_end(&sink, &n_bytes, checksum);
	free(text);
	return code;
}

int orr_manifest_fail(const struct orr_folder *folder, const char *what, struct orr_error *err)
{
	return orr_fail(err, ORR_E_INPUT, "%s: " ORR_STEP_MANIFEST " %s", folder->path, what);
}

static int load(json_t **manifest, const struct orr_folder *folder, struct orr_error *err)
{
	int64_t n_bytes;
	int fd, code = orr_folder_file(folder, ORR_STEP_MANIFEST, O_RDONLY, &fd, &n_bytes, err);

	if (code)
		return code;
	if (n_bytes > MOST_BYTES)
		code = orr_manifest_fail(folder, "is damaged: it has more than 100 MB", err);
	else if (!(*manifest = json_loadfd(fd, JSON_REJECT_DUPLICATES, NULL)))
		code = orr_manifest_fail(folder, "is cut off or damaged: it is no JSON", err);
	close(fd);
	return code;
}

int orr_manifest_read(json_t **manifest, const struct orr_folder *folder, int64_t wanted,
		      struct orr_error *err)
{
	const char *format = "", *written = "";
	json_int_t version = -1, step = -1, samples = -1;
	char checksum[ORR_CHECKSUM];
	json_t *about, *shards;
	int code = load(manifest, folder, err);

	if (code)
		return code;
	if (json_unpack(*manifest, "{s:s,s:I,s:s,s:I,s:I,s:o,s:o}", "format", &format, "version",
			&version, "checksum", &written, "step", &step, "samples", &samples, "about",
			&about, "shards", &shards) ||
	    !json_is_array(shards) || !manifest_checksum(checksum, *manifest) ||
	    strcmp(checksum, written) != 0)
		return orr_manifest_fail(folder, "is damaged: its checksum does not fit", err);
	if (strcmp(format, FORMAT) != 0 || version != VERSION)
		return orr_fail(err, ORR_E_INPUT,
				"%s: written in another format, version %lld: this build reads %d",
				folder->path, (long long)version, VERSION);
	if (step != wanted)
		return orr_fail(err, ORR_E_INPUT, "%s: " ORR_STEP_MANIFEST " is of step %lld",
				folder->path, (long long)step);
	if (step > ORR_CHECKPOINT_MOST || samples < 0 || samples > ORR_CHECKPOINT_MOST)
		return orr_fail(err, ORR_E_INPUT,
				"%s: no training has %lld steps and %lld samples behind it",
				folder->path, (long long)step, (long long)samples);
	return 0;
}
