/* Runs what the fuzzers found worth keeping: every file of a folder. Usage: replay_X FOLDER */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

static uint8_t buffer[1 << 20];

static int replay(const char *folder, const char *name)
{
	char path[4096];
	FILE *file;
	size_t size;
	uint8_t *copy;

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (!(file = fopen(path, "rb"))) {
		perror(path);
		return 1;
	}
	size = fread(buffer, 1, sizeof(buffer), file);
	(void)fclose(file);
	if (!(copy = malloc(size + !size))) /* its own, so that reading past its end is noticed */
		return 1;
	memcpy(copy, buffer, size);
	printf("%s\n", path);
	(void)fflush(stdout);
	(void)LLVMFuzzerTestOneInput(copy, size);
	free(copy);
	return 0;
}

int main(int argc, char **argv)
{
	DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
	struct dirent *entry;
	int n = 0, failed = 0;

	if (!folder) {
		fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
		return 2;
	}
	while ((entry = readdir(folder)))
		if (entry->d_name[0] != '.') {
			failed += replay(argv[1], entry->d_name);
			n++;
		}
	(void)closedir(folder);
	printf("%d files\n", n);
	return failed || !n;
}
