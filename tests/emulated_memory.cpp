/* Address spaces of the emulated device: its own memory, which the host cannot touch, and pinned
 * memory, which both do. Every block has pages of its own with others around it that nobody may
 * touch, and no address is used twice. */
#include "cuda_emulation.h"

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define __asan_poison_memory_region(at, size) ((void)(at), (void)(size))
#define __asan_unpoison_memory_region(at, size) ((void)(at), (void)(size))
#endif

#include "emulated.h"

#define PAGE ((size_t)4096)
#define FILLED ((size_t)1 << 20) /* at each end of a block: not a number */

enum kind { DEVICE, PINNED, REGISTERED };

struct block {
	uintptr_t at;
	size_t size;
	enum kind kind;
	bool freed;
	char *pages; /* that it has, with one before and one behind */
	size_t n_bytes;
};

static std::map<uintptr_t, block> blocks; /* by address */
static int fails_in;

/* One past the end belongs to it: pointers there are made, and not read. */
static block *find(uintptr_t at)
{
	auto next = blocks.upper_bound(at);

	if (next == blocks.begin())
		return NULL;
	block *found = &std::prev(next)->second;
	return at - found->at <= found->size ? found : NULL;
}

static void protect(const block &b, bool open)
{
	(void)mprotect(b.pages + PAGE, b.n_bytes - 2 * PAGE,
		       open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void emulation_open(bool open)
{
	for (auto &[at, b] : blocks)
		if (b.kind == DEVICE && !b.freed)
			protect(b, open);
}

/* ---- what breaks the rules ---- */

void emulation_check(const std::string &name, const std::vector<emulation_pointer> &pointers,
		     const char *when)
{
	for (const emulation_pointer &p : pointers) {
		const block *b = find(reinterpret_cast<uintptr_t>(p.at));

		if (!p.at || (b && !b->freed))
			continue;
		emulation_fail(name + ", argument " + std::to_string(p.argument) + ": " +
			       (b ? std::string("freed ") + when
				  : "neither the device's memory nor pinned"));
	}
}

bool emulation_is_pinned(const void *at)
{
	const block *b = find(reinterpret_cast<uintptr_t>(at));

	return b && b->kind != DEVICE;
}

/* Addresses of this process lie far above the numbers that structures hold. */
bool emulation_may_point(uintptr_t word)
{
	unsigned char page;

	if (word < UINT64_C(1) << 44 || word >= UINT64_C(1) << 47)
		return false;
	return find(word) ||
	       mincore(reinterpret_cast<void *>(word / PAGE * PAGE), PAGE, &page) == 0;
}

static void touched(int, siginfo_t *info, void *)
{
	const block *b = find(reinterpret_cast<uintptr_t>(info->si_addr));
	char text[200];

	if (b)
		std::snprintf(text, sizeof(text), "the host touches %s, byte %zu of %zu",
			      b->freed            ? "memory that was freed"
			      : b->kind == DEVICE ? "memory of the device"
						  : "pinned memory",
			      (size_t)(reinterpret_cast<uintptr_t>(info->si_addr) - b->at),
			      b->size);
	else
		std::snprintf(text, sizeof(text), "nothing lies at %p", info->si_addr);
	emulation_fail(text);
}

static void watch()
{
#ifndef __SANITIZE_ADDRESS__ /* which has more to say */
	static char stack[1 << 16];
	static bool watches;
	stack_t own = {};
	struct sigaction action = {};

	if (watches)
		return;
	watches = true;
	own.ss_sp = stack;
	own.ss_size = sizeof(stack);
	action.sa_sigaction = touched;
	action.sa_flags = SA_SIGINFO | SA_ONSTACK;
	sigaltstack(&own, NULL);
	sigaction(SIGSEGV, &action, NULL);
#else
	(void)touched;
#endif
}

/* ---- blocks ---- */

/* Its end lies at the end of its pages, but for what 256 bytes take. */
static bool add(void **p, size_t size, enum kind kind)
{
	size_t whole = (size + 255) / 256 * 256;
	size_t n_bytes = (whole + PAGE - 1) / PAGE * PAGE + 2 * PAGE;
	void *pages =
		mmap(NULL, n_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t filled = size < FILLED ? size : FILLED;

	if (pages == MAP_FAILED)
		return false;
	watch();
	char *first = static_cast<char *>(pages);
	char *at = first + n_bytes - PAGE - whole;
	block b = {reinterpret_cast<uintptr_t>(at), size, kind, false, first, n_bytes};

	protect(b, true);
	if (emulation_runs()) {
		std::memset(at, 0xff, filled);
		std::memset(at + size - filled, 0xff, filled);
	}
	__asan_poison_memory_region(first, n_bytes);
	__asan_unpoison_memory_region(at, size);
	if (kind == DEVICE)
		protect(b, false);
	blocks[b.at] = b;
	*p = at;
	return true;
}

static cudaError_t drop(void *p, bool of_device)
{
	auto found = blocks.find(reinterpret_cast<uintptr_t>(p));

	if (!p)
		return cudaSuccess;
	if (found == blocks.end() || found->second.freed ||
	    found->second.kind != (of_device ? DEVICE : PINNED))
		emulation_fail(std::string(of_device ? "cudaFree" : "cudaFreeHost") +
			       ": nothing that was allocated so, or freed twice");
	found->second.freed = true;
	(void)madvise(found->second.pages, found->second.n_bytes, MADV_DONTNEED);
	protect(found->second, false);
	__asan_poison_memory_region(found->second.pages, found->second.n_bytes);
	return cudaSuccess;
}

extern "C" {

void emulated_fail_malloc(int n)
{
	fails_in = n;
}

cudaError_t cudaMalloc(void **p, size_t size)
{
	bool fails = fails_in > 0 && --fails_in == 0;

	if (emulation_spoils_all())
		return cudaErrorStreamCaptureUnsupported;
	if (fails || !add(p, size, DEVICE))
		return emulation_refuse(cudaErrorMemoryAllocation);
	return cudaSuccess;
}

cudaError_t cudaFree(void *p)
{
	return drop(p, true);
}

cudaError_t cudaHostAlloc(void **p, size_t size, unsigned)
{
	return add(p, size, PINNED) ? cudaSuccess : emulation_refuse(cudaErrorMemoryAllocation);
}

cudaError_t cudaMallocHost(void **p, size_t size)
{
	return cudaHostAlloc(p, size, 0);
}

cudaError_t cudaFreeHost(void *p)
{
	return drop(p, false);
}

cudaError_t cudaHostRegister(void *p, size_t size, unsigned)
{
	uintptr_t at = reinterpret_cast<uintptr_t>(p);

	blocks[at] = {at, size, REGISTERED, false, NULL, 0};
	return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *p)
{
	blocks.erase(reinterpret_cast<uintptr_t>(p));
	return cudaSuccess;
}
}
