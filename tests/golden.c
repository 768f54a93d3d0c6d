#include "golden.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

static char *read_all(const char *path)
{
	FILE *file = fopen(path, "rb");
	char *text = NULL;
	size_t size = 0, n;
	FILE *copy = open_memstream(&text, &size);
	char buffer[4096];

	ck_assert_msg(file != NULL, "%s: not there; ORR_UPDATE_GOLDEN=1 writes it", path);
	ck_assert(copy != NULL);
	while ((n = fread(buffer, 1, sizeof(buffer), file)) > 0)
		ck_assert_uint_eq(fwrite(buffer, 1, n, copy), n);
	ck_assert(!ferror(file) && !fclose(copy));
	fclose(file);
	return text;
}

void golden_check(const char *name, const char *text)
{
	const char *update = getenv("ORR_UPDATE_GOLDEN");
	char path[1024], *wanted;
	int line = 1, same = 0;

	snprintf(path, sizeof(path), "%s/tests/golden/%s", ORR_SOURCE, name);
	if (update && *update && strcmp(update, "0")) {
		FILE *file = fopen(path, "wb");

		ck_assert_msg(file && fputs(text, file) >= 0 && !fclose(file), "%s: not written",
			      path);
		return;
	}
	wanted = read_all(path);
	for (const char *t = text, *w = wanted; *t && *t == *w; t++, w++) {
		line += *t == '\n';
		same++;
	}
	ck_assert_msg(!strcmp(text, wanted),
		      "golden/%s, line %d: wanted\n%.100s\nfound\n%.100s\n"
		      "(if that is meant: ORR_UPDATE_GOLDEN=1 writes the file anew)",
		      name, line, wanted + same, text + same);
	free(wanted);
}

void page_open(struct page *page)
{
	*page = (struct page){0};
	page->file = open_memstream(&page->text, &page->size);
	ck_assert(page->file != NULL);
}

const char *page_text(struct page *page)
{
	ck_assert(!fflush(page->file));
	return page->text;
}

void page_close(struct page *page)
{
	fclose(page->file);
	free(page->text);
}

FILE *full_disk(void)
{
	static char room[1];
	FILE *file = fmemopen(room, sizeof(room), "w");

	ck_assert_ptr_nonnull(file);
	return file;
}
