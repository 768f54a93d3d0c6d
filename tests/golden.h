#pragma once
/* Golden files: what a writer wrote once and a person looked at, kept in golden/. After a change
 * that is meant, ORR_UPDATE_GOLDEN=1 meson test -C build writes them anew; look at the difference
 * before it is committed. */
#include <stddef.h>
#include <stdio.h>

/* Fails the test at the first line in which text differs from golden/name. */
void golden_check(const char *name, const char *text);

/* A file in memory: what a writer wrote. Open, write, take the text, close. */
struct page {
	FILE *file;
	char *text;
	size_t size;
};
void page_open(struct page *page);
const char *page_text(struct page *page);
void page_close(struct page *page);

/* A file whose disk is full: nothing that is written to it stays. Close it with fclose(). */
FILE *full_disk(void);
