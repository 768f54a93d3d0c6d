#include "calibrate.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MOST_NAPS 6000 /* of 10 ms; measuring takes less */
#define NAME_BYTES 64  /* of which StarPU takes no more */

/* Of this process; n: ranks on the host, 1: StarPU names its measurements as it likes. */
static struct {
	char host[NAME_BYTES];
	int rank, n;
	int lock; /* while it is held; else -1 */
} own = {.n = 1, .lock = -1};

static void name_of(int rank, char name[NAME_BYTES])
{
	if (own.n > 1)
		snprintf(name, NAME_BYTES, "%.35s-rank-%d-of-%d", own.host, rank, own.n);
	else
		snprintf(name, NAME_BYTES, "%s", own.host);
}

void orr_calibrate_apart(int rank, int n_local)
{
	const char *given = getenv("STARPU_HOSTNAME");
	char name[NAME_BYTES], host[HOST_NAME_MAX + 1] = "";

	if (!given || !*given) {
		(void)gethostname(host, sizeof(host) - 1);
		host[strcspn(host, ".")] = '\0'; /* as StarPU does */
		given = host;
	}
	if (!*own.host)
		snprintf(own.host, sizeof(own.host), "%s", given);
	own.rank = n_local > 1 ? rank : 0;
	own.n = n_local;
	name_of(rank, name);
	if (n_local > 1)
		setenv("STARPU_HOSTNAME", name, 1);
}

/* The folder of the user's that StarPU keeps them in, by the variable that names it; NULL: unknown.
 */
static const char *find_home(const char **variable)
{
	static const char *const names[] = {"STARPU_PERF_MODEL_DIR", "XDG_CACHE_HOME",
					    "STARPU_HOME", "HOME", NULL};
	int i = 0;

	while (names[i] && !getenv(names[i]))
		i++;
	*variable = names[i];
	return names[i] ? getenv(names[i]) : NULL;
}

static bool find_folder(char path[PATH_MAX], const char **home)
{
	const char *variable;
	int n;

	if (!(*home = find_home(&variable)))
		return false;
	n = snprintf(path, PATH_MAX, "%s/%s", *home,
		     strcmp(variable, "STARPU_PERF_MODEL_DIR") ? ".starpu/sampling/bus" : "bus");
	return n > 0 && n < PATH_MAX;
}

int orr_calibrate_check(struct orr_error *err)
{
	const char *variable, *home = find_home(&variable);
	char path[PATH_MAX];

	if (!home || !strcmp(variable, "STARPU_PERF_MODEL_DIR"))
		return 0;
	snprintf(path, sizeof(path), "%s/.starpu", home);
	(void)mkdir(home, 0777);
	if (!mkdir(path, 0777) || (errno == EEXIST && !access(path, W_OK)))
		return 0;
	return orr_fail(err, ORR_E_INPUT,
			"%s: StarPU keeps its measurements there, and cannot: %s; set %s to a "
			"folder that can be written",
			path, strerror(errno), strcmp(variable, "HOME") ? variable : "STARPU_HOME");
}

/* StarPU writes into the file that says that all are there, and 1.3 aborts where another sees it
 * empty, as a process that is killed leaves it. The lock ends with the process; where files cannot
 * be locked, or whoever holds it stands still, nobody waits for ever. */
static void lock(const char *home)
{
	const struct timespec nap = {.tv_nsec = 10000000};

	(void)mkdir(home, 0777);
	own.lock = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int left = MOST_NAPS; own.lock >= 0 && left && flock(own.lock, LOCK_EX | LOCK_NB) &&
				   (errno == EWOULDBLOCK || errno == EINTR);
	     left--)
		nanosleep(&nap, NULL);
}

void orr_calibrate_end(void)
{
	if (own.lock >= 0)
		close(own.lock);
	own.lock = -1;
}

static bool is_measured(const char *folder, int rank)
{
	char name[NAME_BYTES], path[PATH_MAX + NAME_BYTES + 16];
	struct stat at;

	name_of(rank, name);
	snprintf(path, sizeof(path), "%s/%s.config", folder, name);
	if (stat(path, &at))
		return false;
	return at.st_size || unlink(path);
}

static int measure(const struct starpu_conf *conf, struct orr_error *err)
{
	struct starpu_conf alone = *conf;
	int code;

	alone.sched_policy = NULL; /* ours is for one start */
	alone.sched_policy_name = "eager";
	if ((code = starpu_init(&alone)))
		return orr_fail(err, ORR_E_RUNTIME, "StarPU does not start: %s", strerror(-code));
	starpu_shutdown();
	return 0;
}

int orr_calibrate_first(const struct starpu_conf *conf, struct orr_error *err)
{
	char folder[PATH_MAX];
	const char *home;
	int code = 0;

	if (!*own.host || own.rank || !find_folder(folder, &home))
		return 0;
	lock(home);
	if (!is_measured(folder, 0))
		code = measure(conf, err);
	return code;
}

/* Under another name first: who sees the file sees all of it. */
static void copy(const char *from, const char *to)
{
	char draft[2 * PATH_MAX];
	int in = open(from, O_RDONLY | O_CLOEXEC), out;
	ssize_t n = -1;

	snprintf(draft, sizeof(draft), "%s.%d", to, (int)getpid());
	out = in < 0 ? -1 : open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	while (out >= 0 && (n = sendfile(out, in, NULL, 1 << 20)) > 0)
		;
	if (in >= 0)
		close(in);
	if (out >= 0 && (close(out) || n || rename(draft, to)))
		unlink(draft);
}

/* The files of the first rank, or of them the one that says that all are there. */
static void copy_all(const char *folder, bool last)
{
	char first[NAME_BYTES], mine[NAME_BYTES];
	char from[PATH_MAX + NAME_MAX + 2], to[PATH_MAX + NAME_BYTES + NAME_MAX + 2];
	DIR *d = opendir(folder);
	struct dirent *entry;
	size_t n;

	name_of(0, first);
	name_of(own.rank, mine);
	n = strlen(first);
	while (d && (entry = readdir(d))) {
		const char *end = entry->d_name + n;

		if (strncmp(entry->d_name, first, n) || *end != '.' ||
		    last != !strcmp(end, ".config"))
			continue;
		snprintf(from, sizeof(from), "%s/%s", folder, entry->d_name);
		snprintf(to, sizeof(to), "%s/%s%s", folder, mine, end);
		copy(from, to); /* what is not there StarPU measures */
	}
	if (d)
		closedir(d);
}

void orr_calibrate_others(void)
{
	char folder[PATH_MAX];
	const char *home;

	if (!*own.host || !own.rank || !find_folder(folder, &home))
		return;
	lock(home);
	if (is_measured(folder, 0) && !is_measured(folder, own.rank)) {
		copy_all(folder, false);
		copy_all(folder, true);
	}
	orr_calibrate_end();
}
