#include "launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arrays.h"
#include "base/quantity.h"
#include "keep/keep.h"

/* Ranks of other hosts get no variables but those that mpirun is told of. */
static char *const exported[] = {"-x", ORR_KEEP_FOLDER, "-x", ORR_KEEP_STARTS,
				 "-x", ORR_KEEP_RANKS};
#define HOSTS " -host --host -H "
#define FILES "-hostfile --hostfile -machinefile --machinefile "
enum { N_EXPORTED = sizeof(exported) / sizeof(*exported) };

/* Where the program is told to train, or the words end. */
static int train_at(char **words)
{
	int i = 0;

	while (words[i] && (!i || strcmp(words[i], "train")))
		i++;
	return i;
}

/* Where the option's value stands before the first program; 0: nowhere, or several times. */
static int find(char **words, const char *names)
{
	int at = 0, n = train_at(words);

	for (int i = 1; i < n && words[i + 1]; i++) {
		const char *found = *words[i] == '-' ? strstr(names, words[i]) : NULL;

		/* two words in a row that are no options: --mca a b, or a program */
		if (at && i > at && *words[i] != '-' && *words[i - 1] != '-' &&
		    !strstr(words[i - 2], "mca"))
			break;
		if (!found || found[-1] != ' ' || found[strlen(words[i])] != ' ')
			continue;
		if (at)
			return 0;
		at = i + 1;
	}
	return at;
}

/* a:2,[::1]:2; a host without a number has one slot. */
static int read_hosts(struct launch *l, struct orr_error *err)
{
	char *rest = NULL, *number;
	int code = 0;
	size_t n = strlen(l->words[l->hosts_at]) + 1; /* at most */

	if (!(l->names = strdup(l->words[l->hosts_at])) ||
	    !(l->hosts = calloc(n, sizeof(*l->hosts))))
		return orr_no_memory(err, "--host");
	for (char *name = strtok_r(l->names, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
		struct launch_host *host = &l->hosts[l->n_hosts++];

		number = strrchr(name, ':');
		number = number && !strchr(number, ']') ? number : NULL;
		if (number)
			*number++ = '\0';
		*host = (struct launch_host){name, 1, false};
		if (number && orr_count_parse(&host->slots, number, 1, 1 << 20, "--host", NULL))
			code = orr_fail(err, ORR_E_INPUT,
					"--host: %.80s is no number of slots, and --fewer counts "
					"them: say one from 1 to 1048576",
					number);
	}
	return code;
}

/* NULL: no memory. */
static char *list_hosts(const struct launch *l, bool all)
{
	char *list = NULL;
	size_t size;
	FILE *file = open_memstream(&list, &size);

	for (int k = 0; k < l->n_hosts && file; k++)
		if (all || !l->hosts[k].gone)
			(void)fprintf(file, "%s%s:%lld", ftell(file) ? "," : "", l->hosts[k].name,
				      (long long)l->hosts[k].slots);
	return file && !fclose(file) ? list : NULL;
}

/* Lines such as "node1 slots=4" -> "node1:4,node2:4"; NULL: what they say is left to mpirun. */
static char *read_hostfile(const char *name)
{
	struct stat about;
	FILE *out, *file = !stat(name, &about) && S_ISREG(about.st_mode) ? fopen(name, "re") : NULL;
	char line[512], host[256], more[2], *list = NULL;
	long long slots;
	size_t size;
	int n = 0; /* of what a line has to have: 2, or nothing */

	if (!file)
		return NULL;
	out = open_memstream(&list, &size);
	while (out && n % 2 <= 0 && fgets(line, sizeof(line), file)) {
		bool whole = strchr(line, '\n') || feof(file);

		line[strcspn(line, "#")] = '\0';
		n = sscanf(line, "%255s slots=%lld %1s", host, &slots, more);
		if (!whole || (n == 2 && (slots < 1 || strpbrk(host, ":,@+^"))))
			n = 1;
		if (n == 2)
			(void)fprintf(out, "%s%s:%lld", ftell(out) ? "," : "", host, slots);
	}
	(void)fclose(file);
	if (!out || (!fclose(out) && n % 2 <= 0))
		return list;
	free(list);
	return NULL;
}

/* How many ranks the hosts that are left can have; any number where there were too few slots from
 * the beginning (--oversubscribe). */
static int count_ranks(const struct launch *l)
{
	int64_t all = 0, left = 0;

	for (int k = 0; k < l->n_hosts; k++) {
		all += l->hosts[k].slots;
		left += l->hosts[k].gone ? 0 : l->hosts[k].slots;
	}
	return !l->hosts || left > l->n_most || (left && all < l->n_first) ? l->n_most : (int)left;
}

int launch_settle(struct launch *l, struct orr_error *err)
{
	bool all;

	if (!l->ranks_at)
		return 0;
	l->n_left = count_ranks(l);
	all = l->n_left < l->n_fewest;
	(void)snprintf(l->count, sizeof(l->count), "%d", all ? l->n_most : l->n_left);
	l->words[l->ranks_at] = l->count;
	if (!l->hosts)
		return 0;
	free(l->list);
	if (!(l->list = list_hosts(l, all)))
		return orr_no_memory(err, "--host");
	l->words[l->hosts_at] = l->list;
	return 0;
}

void launch_probe(struct launch *l, int k, char *folder)
{
	int n = train_at(l->words);

	l->words[l->ranks_at] = "1";
	l->hosts[k].slots = 1;
	for (int i = 0; i < l->n_hosts; i++)
		l->hosts[i].gone = i != k;
	l->words[l->hosts_at] = list_hosts(l, false);
	/* what may stand before the program's name, such as numactl, stays */
	l->words[n - 1] = folder ? "rm" : "true";
	l->words[n] = folder ? "-rf" : NULL;
	l->words[n + 1] = folder;
	l->words[n + 2] = NULL;
}

int launch_missed(const struct launch *l, int k)
{
	bool wanted = l->keeps && l->n_left >= l->n_fewest && l->n_left < l->n_most;
	int next = -1;

	for (int i = l->n_hosts; i > 0 && wanted; i--)
		if (l->hosts[(k + i) % l->n_hosts].gone)
			next = (k + i) % l->n_hosts;
	return next;
}

/* Of hosts the list stands beside a number of ranks, or is left to mpirun. */
static int check(struct launch *l, char **command, int64_t fewest, struct orr_error *err)
{
	int64_t ranks = 0;

	l->ranks_at = find(command, " -n --n -np --np -c ");
	for (char **word = command; *word; word++)
		if (!strcmp(*word, ":")) /* there is more than one program */
			l->ranks_at = 0;
	if (l->ranks_at && orr_count_parse(&ranks, command[l->ranks_at], 1, 1 << 20, "-n", NULL))
		l->ranks_at = 0;
	if (fewest && !l->ranks_at)
		return orr_fail(err, ORR_E_INPUT,
				"--fewer: %.80s has no number of ranks, or several: give -- mpirun "
				"-n 4 and a command",
				command[0]);
	if (fewest > ranks && ranks)
		return orr_fail(err, ORR_E_INPUT,
				"--fewer %lld: the command starts %lld ranks: give a number up to "
				"that",
				(long long)fewest, (long long)ranks);
	l->n_first = l->n_left = l->n_most = (int)ranks;
	l->n_fewest = fewest ? (int)fewest : (int)ranks;
	l->hosts_at = l->ranks_at ? find(command, HOSTS) : 0;
	return 0;
}

int launch_init(struct launch *l, char **command, int64_t fewest, struct orr_error *err)
{
	struct orr_error why; /* mpirun may know more ways to write it */
	int n, trains, at, code;

	*l = (struct launch){0};
	if ((code = check(l, command, fewest, err)))
		return code;
	trains = train_at(command);
	for (n = trains; command[n]; n++) {
		l->keeps |= !strncmp(command[n], "--ch", 4) || !strncmp(command[n], "--cop", 5);
	}
	if (!(l->words = calloc((size_t)n + N_EXPORTED + 2, sizeof(*l->words))))
		return orr_no_memory(err, "supervise");
	memcpy(l->words, command, (size_t)n * sizeof(*command));
	if (trains < 2 || trains == n)
		return 0;
	at = l->ranks_at && !l->hosts_at ? find(command, HOSTS FILES) : 0; /* one alone */
	if (at && (l->list = read_hostfile(command[at])) && strchr(l->list, ',')) {
		l->words[at - 1] = "--host";
		l->words[l->hosts_at = at] = l->list;
	}
	if (!l->hosts_at || !strchr(l->words[l->hosts_at], ','))
		return l->hosts_at = 0;
	at = (l->hosts_at < l->ranks_at ? l->hosts_at : l->ranks_at) - 1;
	memmove(l->words + at + N_EXPORTED, l->words + at, (size_t)(n - at) * sizeof(*command));
	memcpy(l->words + at, exported, sizeof(exported));
	l->ranks_at += N_EXPORTED;
	l->hosts_at += N_EXPORTED;
	if (!(code = read_hosts(l, fewest ? err : &why)) || fewest || code != ORR_E_INPUT)
		return code;
	free(l->hosts);
	l->hosts = NULL;
	l->n_hosts = 0;
	return 0;
}

void launch_fini(struct launch *l)
{
	free(l->words);
	free(l->hosts);
	free(l->names);
	free(l->list);
}

bool launch_drop(struct launch *l)
{
	if (l->n_left <= l->n_fewest)
		return false;
	l->n_most = l->n_left - 1;
	return true;
}

const char *launch_gone(const struct launch *l)
{
	const char *list = "";

	for (int k = 0; k < l->n_hosts; k++)
		if (l->hosts[k].gone)
			list = orr_text("%s%s%.60s", list, *list ? ", " : "", l->hosts[k].name);
	return orr_text("%.127s", list);
}

const char *launch_text(const struct launch *l)
{
	const char *gone = launch_gone(l), *text = "";
	bool all = l->n_left < l->n_fewest;
	int n = all ? l->n_most : l->n_left;

	if (n < l->n_first)
		text = orr_text(" on %d of %d ranks", n, l->n_first);
	if (*gone)
		text = orr_text("%s%s host %s", text,
				all ? ", though nothing starts on" : ", without", gone);
	return text;
}
