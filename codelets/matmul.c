#include "matmul.h"

#include <assert.h>
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* oneDNN is built with OpenMP, or with none. */
int omp_get_max_threads(void);
void omp_set_num_threads(int n);
#pragma weak omp_get_max_threads
#pragma weak omp_set_num_threads

/* Calls of oneDNN go between these two: one thread computes. Workers already keep every core busy,
 * and a product split over a varying number of threads would not give the same bits twice. */
static int begin(void)
{
	int n_threads = omp_get_max_threads ? omp_get_max_threads() : 1;

	if (n_threads > 1)
		omp_set_num_threads(1);
	return n_threads;
}

static void end(int n_threads) /* what begin returned */
{
	if (n_threads > 1)
		omp_set_num_threads(n_threads);
}

void orr_gemm(char a_form, char b_form, int64_t rows, int64_t columns, int64_t inner, float alpha,
	      const float *a, int64_t a_row, const float *b, int64_t b_row, float beta, float *c,
	      int64_t c_row)
{
	int n_threads = begin();
	dnnl_status_t status = dnnl_sgemm(a_form, b_form, rows, columns, inner, alpha, a, a_row, b,
					  b_row, beta, c, c_row);

	end(n_threads);
	assert(status == dnnl_success);
	(void)status;
}

enum { N_KEPT = 256, N_OPERANDS = 4 }; /* a, b, c and a bias */

/* A shape's primitive, and its operands, which are told their addresses at each product. */
struct made {
	struct orr_matmul shape;
	dnnl_primitive_t primitive; /* NULL: there is none */
	dnnl_memory_t operands[N_OPERANDS];
};

/* A thread's; oneDNN wants a primitive to run where it was made. */
struct own {
	dnnl_engine_t engine;
	dnnl_stream_t stream;
	int n_made, next; /* next: the place of the shape after N_KEPT others */
	struct made made[N_KEPT];
};

static _Thread_local struct own *own;

/* ---- what differs between oneDNN 2 and 3 ---- */

#if DNNL_VERSION_MAJOR >= 3
#define GIVEN(description) (description)

static dnnl_status_t describe(dnnl_memory_desc_t *d, dnnl_data_type_t type, const dnnl_dims_t dims,
			      const dnnl_dims_t strides)
{
	return dnnl_memory_desc_create_with_strides(d, 2, dims, type, strides);
}

static dnnl_status_t choose(dnnl_primitive_desc_t *to, dnnl_memory_desc_t d[N_OPERANDS], bool bias)
{
	return dnnl_matmul_primitive_desc_create(to, own->engine, d[0], d[1], bias ? d[3] : NULL,
						 d[2], NULL);
}

static void forget(dnnl_memory_desc_t d[N_OPERANDS])
{
	for (int i = 0; i < N_OPERANDS; i++)
		dnnl_memory_desc_destroy(d[i]);
}
#else
#define GIVEN(description) (&(description))

static dnnl_status_t describe(dnnl_memory_desc_t *d, dnnl_data_type_t type, const dnnl_dims_t dims,
			      const dnnl_dims_t strides)
{
	return dnnl_memory_desc_init_by_strides(d, 2, dims, type, strides);
}

static dnnl_status_t choose(dnnl_primitive_desc_t *to, dnnl_memory_desc_t d[N_OPERANDS], bool bias)
{
	dnnl_matmul_desc_t matmul;
	dnnl_status_t status =
		dnnl_matmul_desc_init(&matmul, &d[0], &d[1], bias ? &d[3] : NULL, &d[2]);

	return status ? status : dnnl_primitive_desc_create(to, &matmul, NULL, own->engine, NULL);
}

static void forget(dnnl_memory_desc_t d[N_OPERANDS])
{
	(void)d;
}
#endif

/* ---- a thread's primitives ---- */

static void unmake(struct made *m)
{
	dnnl_primitive_destroy(m->primitive);
	for (int i = 0; i < N_OPERANDS; i++)
		dnnl_memory_destroy(m->operands[i]);
	*m = (struct made){.shape = m->shape};
}

static void end_thread(void *ended)
{
	struct own *o = ended;

	for (int i = 0; i < o->n_made; i++)
		unmake(&o->made[i]);
	dnnl_stream_destroy(o->stream);
	dnnl_engine_destroy(o->engine);
	free(o);
}

static pthread_key_t ending;
static bool has_ending;

static void make_ending(void)
{
	has_ending = !pthread_key_create(&ending, end_thread);
}

static bool begin_thread(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (own)
		return true;
	pthread_once(&once, make_ending);
	if (!has_ending || !(own = calloc(1, sizeof(*own))))
		return false;
	if (!dnnl_engine_create(&own->engine, dnnl_cpu, 0) &&
	    !dnnl_stream_create(&own->stream, own->engine, dnnl_stream_default_flags) &&
	    !pthread_setspecific(ending, own))
		return true;
	end_thread(own);
	own = NULL;
	return false;
}

/* The reference is a plain loop: in float32 orr_gemm is faster. */
static bool is_wanted(const_dnnl_primitive_desc_t chosen, bool bf16)
{
	const char *info = NULL;

	return !dnnl_primitive_desc_query(chosen, dnnl_query_impl_info_str, 0, &info) && info &&
	       (bf16 || strncmp(info, "ref", 3) != 0);
}

static void make(struct made *m)
{
	const struct orr_matmul *s = &m->shape;
	dnnl_data_type_t type = s->bf16 ? dnnl_bf16 : dnnl_f32;
	dnnl_data_type_t sum_type = s->half ? dnnl_bf16 : dnnl_f32;
	const struct {
		dnnl_data_type_t type;
		char form;
		int64_t rows, columns, row;
	} all[N_OPERANDS] = {
		{type, s->a_form, s->rows, s->inner, s->a_row},
		{type, s->b_form, s->inner, s->columns, s->b_row},
		{sum_type, 'N', s->rows, s->columns, s->columns},
		{dnnl_f32, 'N', 1, s->columns, s->columns},
	};
	dnnl_memory_desc_t d[N_OPERANDS] = {0};
	dnnl_primitive_desc_t chosen = NULL;
	bool fails = false;

	for (int i = 0; i < N_OPERANDS && !fails; i++) {
		const dnnl_dims_t dims = {all[i].rows, all[i].columns};
		const dnnl_dims_t rows = {all[i].row, 1}, turned = {1, all[i].row};

		fails = describe(&d[i], all[i].type, dims, all[i].form == 'N' ? rows : turned) ||
			dnnl_memory_create(&m->operands[i], GIVEN(d[i]), own->engine,
					   DNNL_MEMORY_NONE);
	}
	if (fails || choose(&chosen, d, s->bias) || !is_wanted(chosen, s->bf16) ||
	    dnnl_primitive_create(&m->primitive, chosen))
		unmake(m);
	dnnl_primitive_desc_destroy(chosen);
	forget(d);
}

static bool alike(const struct orr_matmul *a, const struct orr_matmul *b)
{
	return a->rows == b->rows && a->columns == b->columns && a->inner == b->inner &&
	       a->a_row == b->a_row && a->b_row == b->b_row && a->a_form == b->a_form &&
	       a->b_form == b->b_form && a->bf16 == b->bf16 && a->half == b->half &&
	       a->bias == b->bias;
}

/* Between begin and end: a primitive is made for so many threads as there are. */
static struct made *find(const struct orr_matmul *shape)
{
	struct made *m;

	if (!begin_thread())
		return NULL;
	for (int i = 0; i < own->n_made; i++)
		if (alike(&own->made[i].shape, shape))
			return &own->made[i];
	if (own->n_made < N_KEPT) {
		m = &own->made[own->n_made++];
	} else {
		m = &own->made[own->next++ % N_KEPT];
		unmake(m);
	}
	m->shape = *shape;
	make(m);
	return m;
}

bool orr_matmul(const struct orr_matmul *shape, const void *a, const void *b, const float *bias,
		void *c)
{
	int n_threads = begin();
	struct made *m = find(shape);
	const void *at[N_OPERANDS] = {a, b, c, bias};
	bool computed = m && m->primitive;

	/* oneDNN writes to none but c */
	for (int i = 0; i < N_OPERANDS && computed; i++)
		computed = !dnnl_memory_set_data_handle(m->operands[i], (void *)(uintptr_t)at[i]);
	if (computed) {
		const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, m->operands[0]},
						     {DNNL_ARG_WEIGHTS, m->operands[1]},
						     {DNNL_ARG_DST, m->operands[2]},
						     {DNNL_ARG_BIAS, m->operands[3]}};

		computed = !dnnl_primitive_execute(m->primitive, own->stream, shape->bias ? 4 : 3,
						   arguments) &&
			   !dnnl_stream_wait(own->stream);
	}
	end(n_threads);
	return computed;
}

bool orr_matmul_has_bf16(void)
{
	return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_bf16) ==
	       dnnl_cpu_isa_avx512_core_bf16;
}

const char *orr_matmul_instructions(bool *slow)
{
	static const struct {
		int isa;
		const char *name;
		bool slow;
	} known[] = {
		{dnnl_cpu_isa_avx512_core_amx, "AVX-512 with AMX", false},
		{dnnl_cpu_isa_avx512_core_bf16, "AVX-512 with bfloat16", false},
		{dnnl_cpu_isa_avx512_core, "AVX-512", false},
		{dnnl_cpu_isa_avx2, "AVX2", false},
		{dnnl_cpu_isa_avx, "AVX", true},
		{dnnl_cpu_isa_sse41, "SSE4.1", true},
	};
	int isa = (int)dnnl_get_effective_cpu_isa();

	*slow = false;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if ((isa & known[i].isa) == known[i].isa) {
			*slow = known[i].slow;
			return known[i].name;
		}
	return "what it has";
}

void orr_matmul_library(char *name, size_t size)
{
	const dnnl_version_t *version = dnnl_version();

	(void)snprintf(name, size, "oneDNN %d.%d.%d", version->major, version->minor,
		       version->patch);
}
