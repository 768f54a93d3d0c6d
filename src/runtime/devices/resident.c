#include "hardware.h"

#include <stdio.h>

static int64_t read_status(const char *format)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[256];
	long long kib = -1;

	while (file && fgets(line, sizeof(line), file) && sscanf(line, format, &kib) != 1)
		continue;
	if (file)
		fclose(file);
	return kib < 0 ? -1 : (int64_t)kib * 1024;
}

int64_t orr_resident_bytes(void)
{
	return read_status("VmRSS: %lld kB");
}

int64_t orr_resident_peak(void)
{
	return read_status("VmHWM: %lld kB");
}

void orr_resident_reset(void)
{
	FILE *file = fopen("/proc/self/clear_refs", "w");

	if (!file)
		return;
	fputs("5", file); /* proc(5): the peak of the resident set */
	fclose(file);
}
