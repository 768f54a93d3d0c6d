#include "output.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "compare.h"
#include "drawing/diagram.h"
#include "exchange/exchange.h"

static int open_file(FILE **file, const char *path, const char *mode, struct orr_error *err)
{
	if (!(*file = fopen(path, mode)))
		return orr_fail(err, ORR_E_INPUT, "%s: cannot write it: %s; name another file",
				path, strerror(errno));
	return 0;
}

static int close_file(FILE *file, const char *path, int code, struct orr_error *err)
{
	if (fclose(file) && !code)
		return orr_fail(err, ORR_E_IO, "%s: could not be written: %s", path,
				strerror(errno));
	return code;
}

int output_check(const char *path, struct orr_error *err)
{
	bool there;
	FILE *file;
	int code;

	if (!path)
		return 0;
	/* appending nothing leaves what is there */
	there = !access(path, F_OK);
	if ((code = open_file(&file, path, "a", err)))
		return code;
	code = close_file(file, path, 0, err);
	if (!there)
		(void)unlink(path);
	return code;
}

int output_svg(const char *path, const struct orr_timeline *t, struct orr_error *err)
{
	FILE *file;
	int code;

	if (!path)
		return 0;
	if ((code = open_file(&file, path, "w", err)))
		return code;
	return close_file(file, path, orr_diagram_svg(file, t, err), err);
}

int output_csv(const char *path, const struct orr_timeline *t, struct orr_error *err)
{
	FILE *file;
	int code;

	if (!path)
		return 0;
	if ((code = open_file(&file, path, "w", err)))
		return code;
	return close_file(file, path, orr_exchange_write(file, t, err), err);
}

int output_scatter(const char *path, const struct orr_comparison *c, const char *title,
		   struct orr_error *err)
{
	FILE *file;
	int code;

	if (!path)
		return 0;
	if ((code = open_file(&file, path, "w", err)))
		return code;
	return close_file(file, path, orr_comparison_svg(file, c, title, err), err);
}

int output_trace(const char *path, const struct orr_timeline *const *timelines,
		 const char *const *names, int n, struct orr_error *err)
{
	FILE *file;
	int code;

	if (!path)
		return 0;
	if ((code = open_file(&file, path, "w", err)))
		return code;
	return close_file(file, path, orr_diagram_trace(file, timelines, names, n, err), err);
}

int output_columns(void)
{
	struct winsize size;

	if (isatty(STDOUT_FILENO) && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col >= 40)
		return size.ws_col;
	return 100;
}

int output_wants_colour(void)
{
	return isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
}
