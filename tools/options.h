#ifndef ORR_TOOLS_OPTIONS_H
#define ORR_TOOLS_OPTIONS_H
/* A command's options: found among its words, and their values read. What is wrong is refused in
 * one line on standard error, under mpirun by rank 0, with exit code 2. */
#include <argp.h>
#include <stdbool.h>
#include <stdint.h>
#include "orrery/error.h"

/* argp_parse, but unknown options are refused in one line, too. */
void options_parse(const struct argp *argp, int argc, char **argv, void *input);

/* Values, by the option's name, as it is in the message: "--steps". */
int64_t options_count(const char *option, const char *text, int64_t low, int64_t high);
/* Memory of a worker: "8GB". */
int64_t options_memory(const char *option, const char *text);
/* "8,16,32" and "8GB,16GB": counts from 1 and memories, none twice; how many there are. */
int options_counts(int64_t *counts, int most, const char *option, const char *text, int64_t high);
int options_memories(int64_t *bytes, int most, const char *option, const char *text);
/* For a command that takes one value: refuse a list. */
void options_refuse_list(const char *option, const char *text);
double options_real(const char *option, const char *text, double low, double high);
int64_t options_size(const char *option, const char *text);
/* Bytes per second. */
double options_rate(const char *option, const char *text);
/* "1ms" or a plain number, which is units. */
int64_t options_duration(bool *units, const char *option, const char *text);
/* What a function of the library made of a value, which names it in its message. */
void options_check(int code, const struct orr_error *err);

void options_refuse(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
#endif
