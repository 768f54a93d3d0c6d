#pragma once
/* The header of a safetensors file: its length in 8 bytes, little-endian; JSON, which gives every
 * tensor's dtype, shape and place; behind it the data. Data sets and checkpoints share it. */
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include "orrery/orrery.h"

#define ORR_TENSOR_MOST_HEADER 100000000 /* bytes, as the format says */
#define ORR_TENSOR_MOST_DIMS 8

struct orr_tensor_entry {
	const char *name; /* without control characters */
	enum orr_element element;
	int n_dims; /* 0: a single number */
	int64_t dims[ORR_TENSOR_MOST_DIMS];
	int64_t at, end; /* bytes of the data: the size that its shape and dtype say */
};

struct orr_tensor_header {
	json_t *json; /* owned: from names to entries */
	int n;
	struct orr_tensor_entry *entries; /* owned; one behind the other they fill the data */
};

/* One that is elsewhere: who reads it, as orr_read_at does. */
struct orr_tensor_reader {
	int (*read)(const struct orr_tensor_reader *reader, void *to, size_t n, int64_t at);
	void *user;
	int number; /* of the file, among those of one user */
};

/* One that is open. */
struct orr_tensor_file {
	int fd;                          /* -1: it is not; owned, as is the path */
	struct orr_tensor_reader reader; /* where there is one, fd is -1 */
	char *path;                      /* for messages */
	struct orr_tensor_header header;
	int64_t data_at, data_bytes;
};

/* Its first data_at bytes, all up to the data, as text that the caller frees. */
int orr_tensor_file_begin(struct orr_tensor_file *file, int64_t file_bytes, char **text,
			  struct orr_error *err);
void orr_tensor_file_close(struct orr_tensor_file *file);
/* Read n bytes from offset `at` of the file; as orr_read_at. */
int orr_tensor_file_read(const struct orr_tensor_file *file, void *to, size_t n, int64_t at);

/* Bytes of the header that follows a file's first eight. path is for messages. */
int orr_tensor_header_bytes(int64_t *n_bytes, const char *path, const void *first,
			    int64_t file_bytes, struct orr_error *err);
/* Read it: n bytes, behind which lie data_bytes. Refuses tensors that overlap or leave gaps. */
int orr_tensor_header_read(struct orr_tensor_header *header, const char *path, const char *text,
			   size_t n, int64_t data_bytes, struct orr_error *err);
void orr_tensor_header_fini(struct orr_tensor_header *header); /* zeros are fine */
/* By its name; NULL: there is none. */
const struct orr_tensor_entry *orr_tensor_header_find(const struct orr_tensor_header *header,
						      const char *name);

/* What is no safetensors file, and why. */
int orr_tensor_header_fail(const char *path, const char *what, struct orr_error *err);
