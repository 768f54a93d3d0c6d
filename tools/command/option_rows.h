#pragma once
/* A row an option: which verbs have it, how it is read and where to. Rows with nothing but help are
 * the headings of those that follow; the last is that of outputs. */
#include <stddef.h>
#include "options.h"

enum kind {
	KIND_FLAG, /* bool; takes no value */
	KIND_TEXT, /* const char *, as it is given */
	KIND_INT,  /* int */
	KIND_COUNT,
	KIND_REAL,
	KIND_SIZE, /* int64_t */
	KIND_MEMORY,
	KIND_WORD,     /* int: the number of one of words */
	KIND_COUNTS,   /* struct list */
	KIND_TEXTS,    /* struct texts: each time that it is given */
	KIND_READ,     /* by a function */
	KIND_MAY_READ, /* the same, of NULL where the value is left out */
	KIND_ALIAS     /* another name of the row before; never both */
};

struct row {
	const char *name, *value; /* value: what --help says that it takes; NULL: nothing */
	int letter;               /* -w; 0: there is none */
	unsigned verbs;           /* that have it */
	unsigned heard; /* verbs that do not list it: they ignore it, or say what to do instead */
	struct {
		enum kind kind;
		size_t to;                /* offset in struct options */
		double low, high;         /* of numbers; high 0: no limit */
		const char *const *words; /* see orr_word_find() */
		int (*read)(struct options *o, const char *text, struct orr_error *err);
		bool parted; /* a comma ends one value of several, see options_combination() */
	} how;
	size_t given; /* offset of a bool that says that it was given; 0: none */
	const char *help;
};

/* What options mean nothing without another, or beside it; options: any of these, parted by blanks.
 */
struct rule {
	const char *options, *other;
	bool together; /* never both; else never without the other */
	const char *message;
};

/* What a verb only hears, to say why it is not to be given. */
struct refusal {
	unsigned verb;
	const char *options, *message;
};

extern const struct row option_rows[];
extern const int n_option_rows;
extern const struct rule option_rules[]; /* each for the verbs that have its options */
extern const struct refusal option_refusals[];
extern const int n_option_rules, n_option_refusals;
