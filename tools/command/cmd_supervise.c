/* orrery supervise: starts a training, and starts it again when a process of it dies or hangs. */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arrays.h"
#include "base/quantity.h"
#include "command.h"
#include "keep/keep.h"
#include "launch.h"
#include "options.h"

#define MOST_RANKS 1024
#define TICK_MS 20
#define WORD_NS \
	(INT64_C(60) * 1000000000) /* for the first rank to say a word, and 10 times as long \
				    * as in the first start at least */
#define PROBE_NS (INT64_C(10) * 1000000000) /* for a host to start something, or to ask again */
#define LEAVE_NS (INT64_C(1500) * 1000000)  /* for mpirun to see that its ranks are gone */
#define END_NS (INT64_C(10) * 1000000000)   /* for all to be gone */

struct peer {
	int fd, rank;
	pid_t pid;
	int64_t step, heard_ns; /* the last beat */
	int64_t until_ns;       /* the next beat comes before */
};

static struct {
	struct supervise_options options;
	struct launch launch;
	char *folder;
	int lock, listener;
	pid_t child;
	struct peer peers[MOST_RANKS];
	int n_peers, n_starts;
	int64_t started_ns, first_ns; /* this start; of the first one, until a rank spoke */
	int64_t hung_ns;              /* the last beat of a rank that hangs; 0: none does */
	int64_t lost_ns;              /* since when no steps run, or none did before this start */
	int64_t furthest;             /* of the steps from which it went on; -1: not said yet */
	int64_t n_same;               /* restarts from no later a step */
	bool begun;                   /* training goes on in this start */
	bool ever, spoke;             /* a rank has spoken: of any start, of this one */
	bool over;                    /* it ends by itself */
	pid_t probe;                  /* of a host that was gone, while training goes on; or 0 */
	int probed;                   /* its number */
	int64_t probed_ns;            /* since when; or since when training goes on */
	bool back;                    /* it is back: the training is to end and start again */
	int killed;                   /* by the signal that was passed on to it; 0: it was not */
	int status;                   /* of the child, once it has ended */
	char why[160];
} job = {.furthest = -1};

static volatile sig_atomic_t asked;

static void ask(int number)
{
	asked = number == SIGHUP ? SIGTERM : number; /* which a training knows */
}

/* ---- all processes below this one ---- */

static pid_t parent_of(pid_t pid, char *state)
{
	FILE *file = fopen(orr_text("/proc/%d/stat", (int)pid), "re");
	char text[512], *end;
	size_t n = 0;
	int parent;

	if (file) {
		n = fread(text, 1, sizeof(text) - 1, file);
		(void)fclose(file);
	}
	text[n] = '\0';
	/* behind the name, which may have brackets of its own */
	end = strrchr(text, ')');
	return end && sscanf(end + 1, " %c %d", state, &parent) == 2 ? parent : -1;
}

static bool is_below(pid_t pid)
{
	char state;

	for (int depth = 0; pid > 1 && depth < 100; depth++)
		if ((pid = parent_of(pid, &state)) == getpid())
			return true;
	return false;
}

/* Kills all but `spared`; how many there were. */
static int kill_below(pid_t spared)
{
	DIR *names = opendir("/proc");
	struct dirent *entry;
	int n = 0;

	while (names && (entry = readdir(names))) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (pid < 2 || pid == spared || !is_below(pid))
			continue;
		n++;
		kill(pid, SIGKILL); /* which ends those that are stopped, too */
	}
	if (names)
		closedir(names);
	return n;
}

static void reap(void)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0)
		if (pid == job.probe && !WIFSTOPPED(status)) {
			job.probe = 0;
			job.back = !status && !job.over && job.child && !*job.why;
		} else if (pid == job.child && WIFSTOPPED(status)) {
			(void)snprintf(job.why, sizeof(job.why), "%.80s is stopped",
				       job.launch.words[0]);
		} else if (pid == job.child) {
			job.child = 0;
			job.status =
				WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		}
}

/* What ranks that were killed leave of Open MPI's shared memory would fill it, start by start. */
static void remove_shared(void)
{
	DIR *names = opendir(job.folder);
	struct dirent *entry;

	while (names && (entry = readdir(names)))
		if (!strncmp(entry->d_name, "vader_segment", strlen("vader_segment")))
			(void)unlinkat(dirfd(names), entry->d_name, 0);
	if (names)
		closedir(names);
}

/* The ranks at once; mpirun then has a moment to remove its files; and then whatever is left. */
static int end_all(struct orr_error *err)
{
	int64_t start = orr_ns_now(CLOCK_MONOTONIC);
	int left = kill_below(job.child);

	if (job.child && !left)
		kill(job.child, SIGKILL);
	else if (job.child)
		kill(job.child, SIGTERM);
	for (;;) {
		int64_t now = orr_ns_now(CLOCK_MONOTONIC);

		reap();
		left = kill_below(now - start < LEAVE_NS ? job.child : 0);
		if (!left && !job.child)
			break;
		if (now - start > END_NS)
			return orr_fail(err, ORR_E_RUNTIME,
					"%d processes do not end though they were killed: they are "
					"stuck in the system; the training is not started again",
					left);
		usleep(5000);
	}
	while (job.n_peers)
		close(job.peers[--job.n_peers].fd);
	remove_shared();
	return 0;
}

/* ---- what ranks say ---- */

static void take_beat(struct peer *peer, const struct orr_beat *beat)
{
	int64_t patience = beat->patience_ns;

	if (!job.ever)
		job.first_ns = orr_ns_now(CLOCK_MONOTONIC) - job.started_ns;
	job.ever = job.spoke = true;
	peer->rank = (int)beat->rank;
	peer->pid = (pid_t)beat->pid;
	if (job.options.silence_ns && beat->kind == ORR_BEAT_STEP)
		patience = job.options.silence_ns;
	peer->step = beat->step;
	peer->heard_ns = orr_ns_now(CLOCK_MONOTONIC);
	peer->until_ns = peer->heard_ns + patience;
	if (beat->kind == ORR_BEAT_OVER)
		job.over = true;
	if (beat->kind != ORR_BEAT_BEGIN || beat->rank)
		return;
	if (!job.begun && job.n_starts > 1)
		command_say(orr_text("steps run again after %s",
				     orr_time_text(peer->heard_ns - job.lost_ns, false)));
	job.begun = true;
	job.probed_ns = peer->heard_ns;
	job.n_same = beat->step > job.furthest ? 0 : job.n_same;
	job.furthest = beat->step > job.furthest ? beat->step : job.furthest;
}

/* false: the connection has ended. */
static bool listen_to(struct peer *peer)
{
	struct orr_beat beat;
	int got;

	while ((got = orr_beat_receive(peer->fd, &beat)) > 0)
		take_beat(peer, &beat);
	return !got;
}

static void accept_peers(void)
{
	int fd;

	while (job.n_peers < MOST_RANKS &&
	       (fd = accept4(job.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
		job.peers[job.n_peers++] = (struct peer){.fd = fd, .rank = -1};
}

/* Of ranks that wait for each other: one that is stopped, or else the last. */
static int find_hanging(void)
{
	struct peer *last = NULL;

	for (int i = 0; i < job.n_peers; i++) {
		struct peer *peer = &job.peers[i];
		char state = 0;

		if (peer->rank < 0)
			continue;
		if (parent_of(peer->pid, &state) > 0 && state == 'T')
			return peer->rank;
		if (!last || peer->step < last->step ||
		    (peer->step == last->step && peer->heard_ns < last->heard_ns))
			last = peer;
	}
	return last ? last->rank : -1;
}

/* Has a rank died, or said nothing for too long? job.why says which. */
static bool look(void)
{
	int64_t now;

	accept_peers();
	for (int i = 0; i < job.n_peers; i++) {
		struct peer *peer = &job.peers[i];

		if (listen_to(peer))
			continue;
		if (peer->rank >= 0 && !job.over)
			(void)snprintf(job.why, sizeof(job.why), "rank %d is gone", peer->rank);
		close(peer->fd);
		*peer = job.peers[--job.n_peers];
		i--;
	}
	now = orr_ns_now(CLOCK_MONOTONIC);
	for (int i = 0; i < job.n_peers && !*job.why; i++)
		if (now > job.peers[i].until_ns && job.peers[i].rank >= 0) { /* no stranger */
			(void)snprintf(job.why, sizeof(job.why), "rank %d hangs", find_hanging());
			job.hung_ns = job.peers[i].heard_ns;
		}
	if (job.ever && !job.spoke && now - job.started_ns > WORD_NS &&
	    now - job.started_ns > 10 * job.first_ns && !*job.why)
		(void)snprintf(job.why, sizeof(job.why), "no rank has said a word");
	return *job.why;
}

/* ---- one start ---- */

/* The command, or a probe of one host of it, which says nothing; or what removes copies there. */
static _Noreturn void become(int probed, bool removes)
{
	char **words = job.launch.words;

	if (probed >= 0)
		launch_probe(&job.launch, probed, removes ? job.folder : NULL);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	setenv(ORR_KEEP_FOLDER, job.folder, 1);
	setenv(ORR_KEEP_STARTS, orr_text("%d", job.n_starts), 1);
	setenv(ORR_KEEP_RANKS, orr_text("%d", job.launch.n_first), 1);
	setenv("OMPI_MCA_btl_vader_backing_directory", job.folder, 0);
	/* a terminal's Ctrl-C comes to the launcher, which passes it on to one rank */
	setpgid(0, 0);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	if (!freopen("/dev/null", "r", stdin) ||
	    (probed >= 0 &&
	     (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))))
		_exit(127);
	execvp(words[0], words);
	fprintf(stderr,
		"orrery: %s: cannot be started: %s: give a command that can be run, such as "
		"mpirun\n",
		words[0], strerror(errno));
	_exit(2);
}

/* One rank is enough: it tells the others, and they end after the same step. */
static void tell(int number)
{
	pid_t to = job.child;

	for (int i = 0; i < job.n_peers; i++)
		if (!job.peers[i].rank || (to == job.child && job.peers[i].rank > 0))
			to = job.peers[i].pid;
	job.over = true;
	if (to > 0)
		kill(to, number);
}

static void pass_on(void)
{
	job.killed = asked;
	if (!job.back || !job.over) /* a second signal would end it at once */
		tell(asked);
	asked = 0;
}

/* From time to time a host that is missed is asked whether it is back; if so the training ends as
 * by a signal, with a checkpoint. */
static void ask_missed(void)
{
	int64_t now = orr_ns_now(CLOCK_MONOTONIC);
	int k = launch_missed(&job.launch, job.probed);

	if (job.back && !job.over)
		tell(SIGTERM);
	if (job.over || !job.begun || k < 0 || now - job.probed_ns < PROBE_NS)
		return;
	job.probed_ns = now;
	if (job.probe) {
		kill(-job.probe, SIGTERM);
		return;
	}
	job.probed = k;
	if (!(job.probe = fork()))
		become(k, false);
	job.probe = job.probe < 0 ? 0 : job.probe;
}

/* Until all has ended, or something is to be ended. */
static int start(struct orr_error *err)
{
	struct pollfd waits = {.fd = job.listener, .events = POLLIN};

	job.over = job.spoke = job.begun = job.back = false;
	job.started_ns = orr_ns_now(CLOCK_MONOTONIC);
	job.hung_ns = 0;
	job.why[0] = '\0';
	if ((job.child = fork()) < 0)
		return orr_fail(err, ORR_E_RUNTIME, "no process can be started: %s",
				strerror(errno));
	if (!job.child)
		become(-1, false);
	job.n_starts++;
	do {
		(void)poll(&waits, 1, TICK_MS);
		if (asked && job.killed) { /* a second signal */
			(void)snprintf(job.why, sizeof(job.why), "a second signal");
			break;
		}
		if (asked)
			pass_on();
		reap();
		ask_missed();
	} while (!look() && job.child);
	if (job.begun || !job.lost_ns)
		job.lost_ns = job.hung_ns ? job.hung_ns : orr_ns_now(CLOCK_MONOTONIC);
	return end_all(err);
}

/* Is this end one of a training that ended by itself? */
static bool is_end(void)
{
	if (job.killed || asked)
		return true;
	if (job.back)
		return !job.status;
	if (job.over)
		return true;
	/* before a rank has spoken, what fails by itself may fail for any reason */
	return !*job.why && (job.ever ? !job.status || job.status == 2 : job.status <= 128);
}

static void explain(void)
{
	if (!*job.why && job.back)
		(void)snprintf(job.why, sizeof(job.why), "host %.80s is back",
			       job.launch.hosts[job.probed].name);
	else if (!*job.why)
		(void)snprintf(job.why, sizeof(job.why), "it ended with exit code %d", job.status);
}

/* On which hosts does anything start? Also those that were gone are asked. Or the copies there are
 * removed. */
static int probe_hosts(bool removes, struct orr_error *err)
{
	int64_t until_ns = orr_ns_now(CLOCK_MONOTONIC) + PROBE_NS;
	struct launch *l = &job.launch;
	int n = l->n_hosts, status, code = 0;
	pid_t pid, *pids = calloc((size_t)n + 1, sizeof(*pids));

	if (!pids)
		return orr_no_memory(err, "supervise");
	for (int k = 0; k < l->n_hosts && !code; k++) {
		l->hosts[k].gone = true;
		if (!(pids[k] = fork()))
			become(k, removes);
		if (pids[k] < 0)
			code = orr_fail(err, ORR_E_RUNTIME, "no process can be started: %s",
					strerror(errno));
	}
	while (n && !code && !asked && orr_ns_now(CLOCK_MONOTONIC) < until_ns) {
		if ((pid = waitpid(-1, &status, WNOHANG)) <= 0)
			usleep(5000);
		for (int k = 0; k < l->n_hosts; k++)
			if (pid > 0 && pids[k] == pid) {
				l->hosts[k].gone = status != 0;
				n--;
			}
	}
	free(pids);
	return code ? code : end_all(err);
}

/* The ranks and hosts of the next start. */
static int choose_ranks(struct orr_error *err)
{
	int code = 0;

	if (job.n_same > job.options.restarts) {
		bool drops = launch_drop(&job.launch);

		if (!drops && job.launch.n_left < job.launch.n_fewest)
			return orr_fail(err, ORR_E_RUNTIME,
					"host %s is gone and leaves room for %s, fewer than %s %d: "
					"the training is not started again",
					launch_gone(&job.launch),
					orr_count_text(job.launch.n_left, "rank"),
					job.options.fewer ? "--fewer" : "-n", job.launch.n_fewest);
		if (!drops)
			return orr_fail(err, ORR_E_RUNTIME,
					"%s, %s without progress: a bug rather than a fault; the "
					"training is not started again (--restarts)",
					job.why, orr_count_text(job.n_same, "time"));
		job.n_same = 0;
	}
	if (job.launch.n_hosts)
		code = probe_hosts(false, err);
	return code ? code : launch_settle(&job.launch, err);
}

static int supervise(struct orr_error *err)
{
	int code;

	while (!(code = start(err)) && !is_end()) {
		job.n_same += !job.back;
		explain();
		if ((code = choose_ranks(err)))
			return code;
		command_say(orr_text("%s: the training is started again%s", job.why,
				     launch_text(&job.launch)));
	}
	if (!code && !job.killed && (*job.why || (!job.ever && job.status && job.status != 2))) {
		explain();
		command_say(orr_text("%s: the training is not started again", job.why));
	}
	return code;
}

int cmd_supervise(int argc, char **argv)
{
	struct sigaction mine = {.sa_handler = ask};
	struct orr_error err;
	int n = 1, code, number;

	while (n < argc && strcmp(argv[n], "--"))
		n++;
	job.options = options_read(VERB_SUPERVISE, "-- COMMAND...",
				   "Start a training, and start it again when one of its processes "
				   "dies or hangs: from the newest copy in memory (orrery train "
				   "--copy-every 1), else from the newest checkpoint, to the same "
				   "bits.",
				   n, argv)
			      .supervise;
	if (n + 1 >= argc)
		options_refuse("supervise: what? give -- and a command, such as mpirun -n 4 orrery "
			       "train ...");
	alarm(0); /* the training tells its time by itself */
	job.lock = job.listener = -1;
	if ((code = launch_init(&job.launch, argv + n + 1, job.options.fewer, &err)) ||
	    (code = orr_keep_make(&job.folder, &job.lock, job.options.memory, &err)) ||
	    (code = orr_beat_listen(&job.listener, job.folder, &err)))
		goto out;
	sigaction(SIGINT, &mine, NULL);
	sigaction(SIGTERM, &mine, NULL);
	if (signal(SIGHUP, ask) == SIG_IGN) /* nohup */
		signal(SIGHUP, SIG_IGN);
	/* processes whose parents die become this one's */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	code = supervise(&err);
	number = asked ? asked : job.killed;
	asked = 0; /* a second signal ends this, too */
	/* a training that ended by itself in its first start has removed them */
	if (job.launch.n_hosts && (job.n_starts > 1 || job.status || number))
		(void)probe_hosts(true, NULL);
	asked = asked ? asked : number;
out:
	if (job.listener >= 0)
		close(job.listener);
	orr_keep_remove(job.folder, job.lock);
	launch_fini(&job.launch);
	number = asked ? asked : job.killed;
	return code ? command_end(code, &err) : number && job.status ? 128 + number : job.status;
}
