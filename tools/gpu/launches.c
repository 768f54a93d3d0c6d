/* Counts what a program asks of a CUDA device, by CUPTI, without a word of the program's own: the
 * driver loads this where CUDA_INJECTION64_PATH names it. At the end, as JSON, in the file that
 * ORRERY_LAUNCHES names: calls of the driver, kernels that ran (those of a graph, too), copies and
 * bytes. tools/gpu/gpu-check compiles and reads it. */
#include <cupti.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CALLS 4096
#define BUFFER_BYTES (1 << 20)
#define MOST_COPIES 16

/* The beginning of a copy's record, the same in every version of CUPTI. */
struct copy_start {
	uint32_t kind;
	uint8_t copy_kind, source, destination, flags;
	uint64_t bytes;
};

static uint64_t calls[MOST_CALLS], kernels, sets, copies[MOST_COPIES], bytes[MOST_COPIES], dropped;
static const char *const copy_names[MOST_COPIES] = {
	[0] = "unknown",     [1] = "host to device", [2] = "device to host",
	[8] = "on a device", [9] = "in main memory", [10] = "device to device"};

static void add(uint64_t *count, uint64_t n)
{
	__atomic_fetch_add(count, n, __ATOMIC_RELAXED);
}

static void CUPTIAPI on_call(void *own, CUpti_CallbackDomain domain, CUpti_CallbackId id,
			     const void *data)
{
	const CUpti_CallbackData *call = data;

	(void)own;
	if (domain == CUPTI_CB_DOMAIN_DRIVER_API && id < MOST_CALLS &&
	    call->callbackSite == CUPTI_API_ENTER)
		add(&calls[id], 1);
}

static void CUPTIAPI on_request(uint8_t **buffer, size_t *size, size_t *most)
{
	*buffer = aligned_alloc(8, BUFFER_BYTES);
	*size = *buffer ? BUFFER_BYTES : 0;
	*most = 0;
}

static void count_record(const CUpti_Activity *record)
{
	if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL ||
	    record->kind == CUPTI_ACTIVITY_KIND_KERNEL) {
		add(&kernels, 1);
	} else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
		add(&sets, 1);
	} else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY ||
		   record->kind == CUPTI_ACTIVITY_KIND_MEMCPY2) {
		const struct copy_start *copy = (const void *)record;
		unsigned kind = copy->copy_kind < MOST_COPIES ? copy->copy_kind : 0;

		add(&copies[kind], 1);
		add(&bytes[kind], copy->bytes);
	}
}

static void CUPTIAPI on_complete(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
				 size_t valid)
{
	CUpti_Activity *record = NULL;
	size_t lost = 0;

	(void)size;
	while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
		count_record(record);
	if (cuptiActivityGetNumDroppedRecords(context, stream, &lost) == CUPTI_SUCCESS)
		add(&dropped, lost);
	free(buffer);
}

static void write_all(void)
{
	const char *path = getenv("ORRERY_LAUNCHES"), *comma = "", *name;
	FILE *file = path ? fopen(path, "w") : NULL;

	(void)cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	if (!file)
		return;
	fprintf(file, "{\"kernels\": %llu, \"sets\": %llu, \"dropped\": %llu, \"calls\": {",
		(unsigned long long)kernels, (unsigned long long)sets, (unsigned long long)dropped);
	for (uint32_t id = 0; id < MOST_CALLS; id++) {
		if (!calls[id] ||
		    cuptiGetCallbackName(CUPTI_CB_DOMAIN_DRIVER_API, id, &name) != CUPTI_SUCCESS)
			continue;
		fprintf(file, "%s\"%s\": %llu", comma, name, (unsigned long long)calls[id]);
		comma = ", ";
	}
	fprintf(file, "}, \"copies\": {");
	comma = "";
	for (int kind = 0; kind < MOST_COPIES; kind++) {
		if (!copies[kind])
			continue;
		fprintf(file, "%s\"%s\": [%llu, %llu]", comma,
			copy_names[kind] ? copy_names[kind] : "other",
			(unsigned long long)copies[kind], (unsigned long long)bytes[kind]);
		comma = ", ";
	}
	fprintf(file, "}}\n");
	fclose(file);
}

/* The driver calls it, once, as it starts. What cannot be counted is left out: no kernels say so.
 */
int InitializeInjection(void);
int InitializeInjection(void)
{
	static const CUpti_ActivityKind kinds[] = {
		CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
		CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET};
	CUpti_SubscriberHandle subscriber;

	if (cuptiSubscribe(&subscriber, on_call, NULL) == CUPTI_SUCCESS)
		(void)cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
	if (cuptiActivityRegisterCallbacks(on_request, on_complete) == CUPTI_SUCCESS)
		for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
			(void)cuptiActivityEnable(kinds[i]);
	atexit(write_all);
	return 1;
}
