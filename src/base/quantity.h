#pragma once
/* Durations, sizes and rates as people write them: 1.2ms, 12MB, 25GB/s. Decimal prefixes (kB, MB,
 * GB, TB = powers of 1000) and binary ones (KiB, MiB, GiB, TiB). Read and printed here and nowhere
 * else. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "orrery/orrery.h"

ORR_BEGIN

/* what: the place for the message, such as "file.dot:3: node a: forward". 0 or ORR_E_INPUT.
 * Negative values and overflow are refused. A plain number is a unit of time (one second) and sets
 * *units. */
int orr_duration_parse(int64_t *ns, bool *units, const char *text, const char *what,
		       struct orr_error *err);
/* A plain number is bytes. */
int orr_size_parse(int64_t *bytes, const char *text, const char *what, struct orr_error *err);
/* The memory of a worker: a size above 0, with its unit. */
int orr_memory_parse(int64_t *bytes, const char *text, const char *what, struct orr_error *err);
/* Bytes per second: "25GB/s". */
int orr_rate_parse(double *bytes_per_s, const char *text, const char *what, struct orr_error *err);
/* A whole number in [low, high]. */
int orr_count_parse(int64_t *value, const char *text, int64_t low, int64_t high, const char *what,
		    struct orr_error *err);
/* The first of "8,16,32", each as above; *list moves to the rest, NULL after the last. */
int orr_count_next(int64_t *value, const char **list, char separator, int64_t low, int64_t high,
		   const char *what, struct orr_error *err);
/* A finite number in [low, high]. */
int orr_real_parse(double *value, const char *text, double low, double high, const char *what,
		   struct orr_error *err);

/* Text in the thread's own memory, for a line that shows several, until 64 more are asked for. */
#define ORR_TEXT 512
const char *orr_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The first part of a list, which has few; *list moves to the rest, NULL after the last. */
const char *orr_part_next(const char **list, char separator);
/* The same of these: "1.2 ms", or "12.5" in a study with units; */
const char *orr_duration_text(int64_t ns, bool units);
const char *orr_time_text(int64_t ns, bool units); /* "1.2 ms", or "12.5 units"; */
const char *orr_size_text(int64_t bytes);          /* "57.3 GB"; */
const char *orr_size_exact(int64_t bytes); /* "8GB", to the byte, as orr_size_parse() reads it; */
const char *orr_count_text(int64_t n, const char *noun); /* "1 stage", "3 stages", "2 stashes" */

ORR_END
