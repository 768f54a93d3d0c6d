#include "platform.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "simulated_model.h"
#include "suite.h"

#define FAST 1e15     /* bytes/s of main memory, of which the simulator knows nothing */
#define MOST_NODES 32 /* that tools/build-starpu gives StarPU */

static FILE *create(const char *folder, const char *name)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/bus/" SIMULATED_HOST ".%s", folder, name);
	file = fopen(path, "w");
	ck_assert_msg(file != NULL, "%s cannot be written", path);
	return file;
}

/* StarPU chooses by these from where it copies. */
static void write_matrix(const char *folder, const char *name, double ram, double devices)
{
	FILE *file = create(folder, name);

	for (int from = 0; from < MOST_NODES; from++)
		for (int to = 0; to < MOST_NODES; to++)
			fprintf(file, "%e%s",
				from == to     ? 0
				: !from || !to ? ram
					       : devices,
				to + 1 < MOST_NODES ? "\t" : "\n");
	fclose(file);
}

/* Each direction has a link of its own, as in network.h. */
static void write_link(FILE *file, const char *from, const char *to, double bytes_per_s,
		       double latency_s)
{
	fprintf(file, "  <link id=\"%s-%s\" bandwidth=\"%.17gBps\" latency=\"%.17gs\"/>\n", from,
		to, bytes_per_s, latency_s);
}

static void write_route(FILE *file, const char *from, const char *to)
{
	fprintf(file,
		"  <route src=\"%s\" dst=\"%s\" symmetrical=\"NO\"><link_ctn "
		"id=\"%s-%s\"/></route>\n",
		from, to, from, to);
}

static void name_node(char name[16], int i)
{
	if (i)
		snprintf(name, 16, "CUDA%d", i - 1);
	else
		snprintf(name, 16, "RAM");
}

static void write_links(FILE *file, bool routes, double bytes_per_s, double latency_s)
{
	for (int i = 0; i <= SIMULATED_DEVICES; i++)
		for (int k = 0; k <= SIMULATED_DEVICES; k++) {
			char from[16], to[16];

			name_node(from, i);
			name_node(to, k);
			if (i != k && routes)
				write_route(file, from, to);
			else if (i != k)
				write_link(file, from, to, i && k ? bytes_per_s : FAST,
					   i && k ? latency_s : 0);
		}
}

/* The network's model is made that of pipes: latency, and bytes over bandwidth. */
static void write_devices(const char *folder, double bytes_per_s, double latency_s)
{
	static const char *const props[][2] = {{"TCP-gamma", "-1"},
					       {"latency-factor", "1"},
					       {"bandwidth-factor", "1"},
					       {"crosstraffic", "0"},
					       {"weight-S", "0.0"}};
	FILE *file = create(folder, "platform.v4.xml");

	fputs("<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM "
	      "'https://simgrid.org/simgrid.dtd'>\n<platform version=\"4.1\">\n"
	      " <config id=\"General\">\n",
	      file);
	for (size_t i = 0; i < sizeof(props) / sizeof(*props); i++)
		fprintf(file, "  <prop id=\"network/%s\" value=\"%s\"/>\n", props[i][0],
			props[i][1]);
	fputs(" </config>\n <zone id=\"AS0\" routing=\"Full\">\n"
	      "  <host id=\"MAIN\" speed=\"1f\"/>\n  <host id=\"RAM\" speed=\"1f\"/>\n",
	      file);
	for (int i = 0; i < SIMULATED_DEVICES; i++)
		fprintf(file,
			"  <host id=\"CPU%d\" speed=\"1f\"/>\n"
			"  <host id=\"CUDA%d\" speed=\"1000000000f\">\n"
			"    <prop id=\"model\" value=\"simulated\"/>\n"
			"    <prop id=\"memsize\" value=\"17179869184\"/>\n"
			"    <prop id=\"memcpy_peer\" value=\"1\"/>\n  </host>\n",
			i, i);
	write_links(file, false, bytes_per_s, latency_s);
	write_links(file, true, bytes_per_s, latency_s);
	fputs(" </zone>\n</platform>\n", file);
	fclose(file);
}

void platform_write(const char *folder, double bytes_per_s, double latency_s)
{
	/* What StarPU's own calls cost, which the simulator leaves out. */
	static const char *const costs[] = {"CUDA_MALLOC", "CUDA_QUEUE", "TASK_SUBMIT", "TASK_PUSH",
					    "FETCHING_INPUT"};
	char text[512];

	snprintf(text, sizeof(text), "%s/bus", folder);
	(void)mkdir(folder, 0777);
	(void)mkdir(text, 0777);
	fclose(create(folder, "config")); /* by which StarPU knows the folder */
	write_devices(folder, bytes_per_s, latency_s);
	write_matrix(folder, "bandwidth", FAST / 1e6, bytes_per_s / 1e6);
	write_matrix(folder, "latency", 0, latency_s * 1e6);
	setenv("STARPU_HOSTNAME", SIMULATED_HOST, 1);
	setenv("STARPU_PERF_MODEL_DIR", folder, 1);
	setenv("STARPU_HOME", folder, 1);
	setenv("STARPU_SILENT", "1", 1);
	for (size_t i = 0; i < sizeof(costs) / sizeof(*costs); i++) {
		snprintf(text, sizeof(text), "STARPU_SIMGRID_%s_COST", costs[i]);
		setenv(text, "0", 1);
	}
}
