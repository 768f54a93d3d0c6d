/* Which cores and devices belong to which rank: a host of two packages, each with a NUMA node, four
 * cores of two threads, and one device on the first and two on the second (host.xml). */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/devices/hardware.h"
#include "runtime/devices/host.h"
#include "suite.h"

static const char *const bus[] = {"0000:8a:00.0", "0000:17:00.0", "0000:8b:00.0"};

static hwloc_topology_t load(const char *synthetic)
{
	hwloc_topology_t t;

	ck_assert_int_eq(hwloc_topology_init(&t), 0);
	ck_assert_int_eq(hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT),
			 0);
	ck_assert_int_eq(synthetic ? hwloc_topology_set_synthetic(t, synthetic)
				   : hwloc_topology_set_xml(t, ORR_SOURCE "/tests/host.xml"),
			 0);
	ck_assert_int_eq(hwloc_topology_load(t), 0);
	return t;
}

struct expected {
	int n_devices, n_pus;
	int devices[3], pus[8];
};

static void assert_share(hwloc_topology_t t, int n_devices, int rank, int n_ranks,
			 const struct expected *e)
{
	struct orr_host_share share;

	ck_assert_int_eq(orr_share_init(&share, t, bus, n_devices, rank, n_ranks, NULL), 0);
	ck_assert_int_eq(share.n_devices, e->n_devices);
	for (int i = 0; i < e->n_devices; i++)
		ck_assert_int_eq(share.devices[i], e->devices[i]);
	ck_assert_int_eq(share.n_pus, e->n_pus);
	for (int i = 0; i < e->n_pus; i++)
		ck_assert_int_eq(share.pus[i], e->pus[i]);
	orr_share_fini(&share);
}

START_TEST(the_numa_node_of_a_device_is_the_one_it_hangs_on)
{
	hwloc_topology_t t = load(NULL);

	ck_assert_int_eq(orr_host_numa_of(t, bus[0]), 1);
	ck_assert_int_eq(orr_host_numa_of(t, bus[1]), 0);
	ck_assert_int_eq(orr_host_numa_of(t, bus[2]), 1);
	ck_assert_int_eq(orr_host_numa_of(t, "0000:99:00.0"), -1);
	ck_assert_int_eq(orr_host_numa_of(t, NULL), -1);
	hwloc_topology_destroy(t);
}
END_TEST

START_TEST(devices_go_to_ranks_in_the_order_of_their_numa_nodes)
{
	/* the cores of a rank are where its first device hangs: package 1 has processing units 8 to
	 * 15, a core every second */
	static const struct expected one = {3, 4, {1, 0, 2}, {0, 2, 4, 6}};
	static const struct expected two[] = {{1, 4, {1}, {0, 2, 4, 6}},
					      {2, 4, {0, 2}, {8, 10, 12, 14}}};
	static const struct expected three[] = {
		{1, 4, {1}, {0, 2, 4, 6}}, {1, 2, {0}, {8, 10}}, {1, 2, {2}, {12, 14}}};
	hwloc_topology_t t = load(NULL);

	assert_share(t, 3, 0, 1, &one);
	for (int r = 0; r < 2; r++)
		assert_share(t, 3, r, 2, &two[r]);
	for (int r = 0; r < 3; r++)
		assert_share(t, 3, r, 3, &three[r]);
	hwloc_topology_destroy(t);
}
END_TEST

START_TEST(more_ranks_than_devices_share_them_and_split_their_cores)
{
	static const struct expected expected[] = {{1, 2, {1}, {0, 2}},
						   {1, 2, {1}, {4, 6}},
						   {1, 2, {0}, {8, 10}},
						   {1, 2, {0}, {12, 14}}};
	hwloc_topology_t t = load(NULL);

	for (int r = 0; r < 4; r++)
		assert_share(t, 2, r, 4, &expected[r]);
	hwloc_topology_destroy(t);
}
END_TEST

START_TEST(without_devices_every_core_has_one_rank)
{
	hwloc_topology_t t = load("pack:2 [numa] core:3 pu:1");

	for (int n = 1; n <= 6; n++) {
		int seen[6] = {0};

		for (int r = 0; r < n; r++) {
			struct orr_host_share share;

			ck_assert_int_eq(orr_share_init(&share, t, NULL, 0, r, n, NULL), 0);
			ck_assert_int_ge(share.n_pus, 6 / n);
			for (int i = 0; i < share.n_pus; i++)
				seen[share.pus[i]]++;
			orr_share_fini(&share);
		}
		for (int i = 0; i < 6; i++)
			ck_assert_int_eq(seen[i], 1);
	}
	hwloc_topology_destroy(t);
}
END_TEST

START_TEST(more_ranks_than_cores_have_one_each)
{
	static const struct expected expected[] = {{0, 1, {0}, {0}},
						   {0, 1, {0}, {0}},
						   {0, 1, {0}, {0}},
						   {0, 1, {0}, {1}},
						   {0, 1, {0}, {1}}};
	hwloc_topology_t t = load("pack:1 core:2 pu:1");

	for (int r = 0; r < 5; r++)
		assert_share(t, 0, r, 5, &expected[r]);
	hwloc_topology_destroy(t);
}
END_TEST

/* A limit on the memory of one run's workers is not one on the next run's. */
START_TEST(a_limit_ends_with_the_start)
{
	static const char *const before[] = {NULL, "700"};
	const char *name = "STARPU_LIMIT_CUDA_MEM", *after;

	(void)unsetenv(name);
	if (before[_i])
		ck_assert_int_eq(setenv(name, before[_i], 1), 0);
	orr_hardware_limit(INT64_C(100) << 20, 3, 2); /* two workers on one of them */
	ck_assert_str_eq(getenv(name), "200");
	orr_hardware_started();
	after = getenv(name);
	ck_assert(before[_i] ? after && !strcmp(after, before[_i]) : !after);
	orr_hardware_limit(0, 3, 2);
	orr_hardware_started();
	after = getenv(name);
	ck_assert(before[_i] ? after && !strcmp(after, before[_i]) : !after);
	(void)unsetenv(name);
}
END_TEST

static const struct suite_test tests[] = {
	ONCE(the_numa_node_of_a_device_is_the_one_it_hangs_on),
	ONCE(devices_go_to_ranks_in_the_order_of_their_numa_nodes),
	ONCE(more_ranks_than_devices_share_them_and_split_their_cores),
	ONCE(without_devices_every_core_has_one_rank),
	ONCE(more_ranks_than_cores_have_one_each),
	EACH(a_limit_ends_with_the_start, 2),
};
SUITE("host")
