#pragma once
/* Included before a .cu file that a C++ compiler compiles: a CUDA device that is this process. A
 * kernel runs on the host, a block after the other and every thread of a block as a fiber. Threads
 * meet at barriers and shuffles as on a device; where they cannot meet, the test ends.
 *
 * What is started on a stream is queued, and runs when somebody waits for it; until then operations
 * of several streams run in an order that is drawn, and that keeps to events alone. Memory of the
 * device is its own: the host cannot touch it, and kernels, copies and products are given nothing
 * but it and pinned memory. What is freed is gone at once, since pools do not wait as cudaFree
 * does, and its addresses do not come again. What breaks a rule ends the test, with the name of the
 * kernel and the argument.
 *
 * cuda_emulation.cpp: kernels and cuBLAS. emulated_streams.cpp: queues, events, errors, graphs.
 * emulated_memory.cpp: address spaces. emulated.h: what tests ask for. */
#define ORR_CUDA_EMULATION
#define __global__
#define __device__
#define __host__
#define __grid_constant__
#define __shared__ static
#include <cuda_bf16.h>
#include <cuda_runtime_api.h>
#include <vector_functions.h>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>
#undef __launch_bounds__
#define __launch_bounds__(...)

extern uint3 threadIdx, blockIdx;
extern dim3 gridDim, blockDim;

float *emulation_shared();      /* of the block, of exactly as many bytes as the launch says */
void emulation_meet(bool warp); /* wait for the threads of the warp, or of the block */
extern double emulation_lanes[32][32]; /* [warp][lane] */

/* A pointer that an operation is given, and the number of the argument, from 0. */
struct emulation_pointer {
	const void *at;
	int argument;
};

/* What is queued on a stream. */
struct emulation_operation {
	std::string name;
	std::vector<emulation_pointer> pointers;
	std::function<void()> run;
};
/* False: the stream takes nothing, and the last error says why. */
bool emulation_queue(cudaStream_t stream, const emulation_operation &operation);
/* True: the stream captures, and what is asked for cannot be recorded; NULL: the default stream. */
bool emulation_spoils(cudaStream_t stream);
bool emulation_spoils_all();
cudaError_t emulation_refuse(cudaError_t code); /* becomes the last error, if it is one */
[[noreturn]] void emulation_fail(const std::string &what);

/* All of `pointers` are memory that the device reaches, or the test ends. */
void emulation_check(const std::string &name, const std::vector<emulation_pointer> &pointers,
		     const char *when);
bool emulation_is_pinned(const void *at);
void emulation_open(bool open); /* for the device, or for the host */
/* Might this word of a structure be a pointer? */
bool emulation_may_point(uintptr_t word);

/* Counted by name; 0 bytes unless it is a product's. */
void emulation_count_kernel(const std::string &name);
void emulation_count_product(int64_t bytes);
bool emulation_runs(); /* or counts alone */

void emulation_run(dim3 grid, dim3 block, size_t shared, const std::function<void()> &kernel);
bool emulation_fits(dim3 grid, dim3 block, size_t shared);

/* The pointers in an argument: itself, or words of a structure that look like one. */
template <class T>
static inline void emulation_look(std::vector<emulation_pointer> &all, int argument, const T &value)
{
	if constexpr (std::is_pointer_v<T>) {
		all.push_back({value, argument});
	} else if constexpr (std::is_class_v<T>) {
		T copy = value;
		const char *bytes = reinterpret_cast<const char *>(&copy);
		uintptr_t word;

		__builtin_clear_padding(&copy); /* where pointers of others may be left */

		for (size_t i = 0; i + sizeof(word) <= sizeof(T); i += sizeof(word)) {
			std::memcpy(&word, bytes + i, sizeof(word));
			if (emulation_may_point(word))
				all.push_back({reinterpret_cast<const void *>(word), argument});
		}
	}
}

/* name, or what of a template it is. */
std::string emulation_name(const char *name, const char *function);

template <class... P, class... A>
static inline void emulation_launch(const char *name, const char *function, dim3 grid, dim3 block,
				    size_t shared, cudaStream_t stream, void (*kernel)(P...),
				    const A &...arguments)
{
	std::tuple<std::decay_t<P>...> all(arguments...);
	emulation_operation operation;
	int i = 0;

	operation.name = emulation_name(name, function);
	if (!emulation_fits(grid, block, shared)) {
		emulation_refuse(cudaErrorInvalidConfiguration);
		return;
	}
	std::apply([&](const auto &...a) { (emulation_look(operation.pointers, i++, a), ...); },
		   all);
	operation.run = [=]() {
		emulation_run(grid, block, shared, [&]() { std::apply(kernel, all); });
	};
	if (emulation_queue(stream, operation))
		emulation_count_kernel(operation.name);
}

#define ORR_LAUNCH(kernel, grid, block, shared, stream, ...) \
	emulation_launch(#kernel, __PRETTY_FUNCTION__, grid, block, shared, stream, kernel, \
			 __VA_ARGS__)
#define ORR_SHARED_FLOATS(name) float *name = emulation_shared()
#define ORR_UNROLL

/* One thread runs at a time. */
static inline long long atomicMin(long long *at, long long value)
{
	long long before = *at;

	*at = value < before ? value : before;
	return before;
}

static inline unsigned atomicInc(unsigned *at, unsigned most)
{
	unsigned before = *at;

	*at = before >= most ? 0 : before + 1;
	return before;
}

static inline float __ldcg(const float *at)
{
	return *at;
}

/* What a kernel that looks for something reads is counted. */
void emulation_count_look();
template <class T> static inline T __ldg(const T *at)
{
	emulation_count_look();
	return *at;
}

static inline float __fmul_rn(float a, float b)
{
	return a * b;
}

static inline void __threadfence()
{
}

#define __syncthreads() emulation_meet(false)
#define __syncwarp() emulation_meet(true)

template <class T> static inline T __shfl_xor_sync(unsigned, T value, int offset)
{
	unsigned t = threadIdx.x + blockDim.x * threadIdx.y, lane = t % 32;
	double *lanes = emulation_lanes[t / 32];
	T other;

	static_assert(sizeof(T) <= sizeof(double), "a lane has 8 bytes");
	std::memcpy(&lanes[lane], &value, sizeof(value));
	emulation_meet(true);
	std::memcpy(&other, &lanes[lane ^ (unsigned)offset], sizeof(other));
	emulation_meet(true);
	return other;
}

static inline int __any_sync(unsigned, int holds)
{
	double *lanes = emulation_lanes[threadIdx.x / 32];
	bool any = false;

	lanes[threadIdx.x % 32] = holds != 0;
	emulation_meet(true);
	for (int i = 0; i < 32; i++)
		any = any || lanes[i] != 0;
	emulation_meet(true);
	return any;
}

/* Products of tensor cores. One lane of a warp has all of a matrix, by rows, and the others have
 * nothing: the first, which goes first, so that what others had to write before is missed, or the
 * last, so that what it writes is missed by those who do not wait for it. */
namespace nvcuda
{
namespace wmma
{
struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major };

template <class Use, int M, int N, int K, class T, class Layout = row_major> struct fragment {
	static_assert(M == 16 && N == 16 && K == 16, "one of several shapes");
	static const int num_elements = M * N;
	float x[M * N] = {};
};

static inline bool emulation_has_all()
{
	return threadIdx.x % 32 == (blockIdx.x % 2 ? 31 : 0);
}

static inline void emulation_check_tile(const void *at, unsigned row, size_t bytes)
{
	if (reinterpret_cast<uintptr_t>(at) % 32 || row * bytes % 16)
		emulation_fail("a tile of a tensor core is not aligned");
}

static inline float emulation_value(float v)
{
	return v;
}
static inline float emulation_value(__nv_bfloat16 v)
{
	return __bfloat162float(v);
}

template <class F, class T> static inline void load_matrix_sync(F &f, const T *from, unsigned row)
{
	constexpr bool turned =
		std::is_same_v<F, fragment<matrix_b, 16, 16, 16, std::remove_cv_t<T>, col_major>>;

	emulation_check_tile(from, row, sizeof(T));
	for (unsigned i = 0; emulation_has_all() && i < 256; i++)
		f.x[i] = emulation_value(turned ? from[i % 16 * row + i / 16]
						: from[i / 16 * row + i % 16]);
}

template <class F>
static inline void load_matrix_sync(F &f, const float *from, unsigned row, layout_t)
{
	load_matrix_sync(f, from, row);
}

template <class F> static inline void fill_fragment(F &f, float value)
{
	for (float &x : f.x)
		x = value;
}

template <class F>
static inline void store_matrix_sync(float *to, const F &f, unsigned row, layout_t)
{
	emulation_check_tile(to, row, sizeof(float));
	for (unsigned i = 0; emulation_has_all() && i < 256; i++)
		to[i / 16 * row + i % 16] = f.x[i];
}

template <class D, class A, class B, class C>
static inline void mma_sync(D &d, const A &a, const B &b, const C &c)
{
	float sums[256];

	if (!emulation_has_all())
		return;
	for (int i = 0; i < 16; i++)
		for (int j = 0; j < 16; j++) {
			float s = c.x[i * 16 + j];

			for (int k = 0; k < 16; k++)
				s += a.x[i * 16 + k] * b.x[k * 16 + j];
			sums[i * 16 + j] = s;
		}
	std::memcpy(d.x, sums, sizeof(sums));
}
} // namespace wmma
} // namespace nvcuda
