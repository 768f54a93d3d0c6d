/* Streams, events, errors and counts of the emulated device. */
#include "cuda_emulation.h"

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <set>

#include "emulated.h"

/* Recorded so many times, and so many of these have run: then at what time. */
struct CUevent_st {
	uint64_t recorded, done;
	int64_t time;
};
using event = std::shared_ptr<CUevent_st>;

struct queued {
	emulation_operation what;
	event recorded, awaited; /* or one of these alone, */
	uint64_t time;           /* the recorded-th time */
};

struct CUstream_st {
	bool apart; /* from the default stream */
	std::deque<queued> queue;
	bool captures, spoilt; /* what is started is recorded; and cannot be any more */
	std::vector<emulation_operation> captured;
};

struct CUgraph_st {
	std::vector<emulation_operation> operations;
};
struct CUgraphExec_st {
	std::vector<emulation_operation> operations;
};

static std::set<CUstream_st *> streams;
static std::map<cudaEvent_t, event> events;
static CUstream_st default_stream;
static uint64_t draw_state = 1;
static int64_t now; /* operations that have run */
static int64_t fails_in;
static cudaError_t last, lost; /* lost: told by every call from then on */
static bool counts_only;
static struct emulated_counts counts;
static std::map<std::string, int64_t> kernels;
static bool recorded; /* what was queued last: it is not counted as started */
static bool fails_capture;

/* ---- errors ---- */

void emulation_fail(const std::string &what)
{
	std::fprintf(stderr, "emulated CUDA: %s\n", what.c_str());
	std::abort();
}

cudaError_t emulation_refuse(cudaError_t code)
{
	code = lost ? lost : code;
	last = code ? code : last;
	return code;
}

/* ---- running ---- */

static uint64_t draw(uint64_t below)
{
	draw_state = draw_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (draw_state >> 33) % below;
}

static bool waits(const CUstream_st *s)
{
	const queued &first = s->queue.front();

	return first.awaited && first.awaited->done < first.time;
}

static void run_first(CUstream_st *s)
{
	queued first = std::move(s->queue.front());

	s->queue.pop_front();
	if (first.recorded) {
		first.recorded->done = first.time;
		first.recorded->time = now;
	}
	if (!first.what.run || lost)
		return;
	now++;
	if (fails_in && now >= fails_in) {
		fails_in = 0;
		lost = cudaErrorIllegalAddress;
		return;
	}
	emulation_check(first.what.name, first.what.pointers, "before this ran");
	first.what.run();
}

/* An operation of any stream that has one and need not wait. False: there is none. */
static bool run_any()
{
	std::vector<CUstream_st *> ready;

	for (CUstream_st *s : streams)
		if (!s->queue.empty() && !waits(s))
			ready.push_back(s);
	if (ready.empty())
		return false;
	run_first(ready[draw(ready.size())]);
	return true;
}

/* Until `done`. */
template <class F> static cudaError_t run_until(F done)
{
	if (!done()) {
		emulation_open(true);
		while (!done())
			if (!run_any())
				emulation_fail("every stream waits for an event");
		emulation_open(false);
	}
	return emulation_refuse(cudaSuccess);
}

/* A few, as time goes by. */
static void run_some()
{
	emulation_open(true);
	for (uint64_t n = draw(4); n && run_any(); n--)
		;
	emulation_open(false);
}

static cudaError_t run_all(bool apart)
{
	return run_until([=]() {
		for (CUstream_st *s : streams)
			if (!s->queue.empty() && (apart || !s->apart))
				return false;
		return true;
	});
}

static bool push(cudaStream_t stream, queued &&what)
{
	if (emulation_refuse(cudaSuccess))
		return false;
	if (emulation_spoils(stream))
		return false;
	if (!stream) { /* which waits for the others, and they for it */
		run_all(false);
		stream = &default_stream;
	} else if (!streams.count(stream)) {
		emulation_fail(what.what.name + ": not a stream");
	}
	stream->queue.push_back(std::move(what));
	if (stream != &default_stream)
		return true;
	emulation_open(true);
	while (waits(stream) && run_any())
		;
	run_first(stream);
	emulation_open(false);
	return true;
}

bool emulation_queue(cudaStream_t stream, const emulation_operation &operation)
{
	emulation_check(operation.name, operation.pointers, "before this was started");
	recorded = stream && stream->captures;
	if (recorded) {
		stream->captured.push_back(operation);
		return true;
	}
	return counts_only || push(stream, {operation, nullptr, nullptr, 0});
}

/* A call that no stream takes while it captures; none but those that are apart may be capturing
 * while the default stream is used. */
bool emulation_spoils(cudaStream_t stream)
{
	bool any = false;

	for (CUstream_st *s : streams)
		if (s->captures && (s == stream || (!stream && !s->apart)))
			any = s->spoilt = true;
	if (any)
		emulation_refuse(cudaErrorStreamCaptureUnsupported);
	return any;
}

/* One that none takes. */
bool emulation_spoils_all()
{
	bool any = false;

	for (CUstream_st *s : streams)
		any = (s->captures && emulation_spoils(s)) || any;
	return any;
}

bool emulation_runs()
{
	return !counts_only;
}

/* ---- counts ---- */

void emulation_count_kernel(const std::string &name)
{
	if (recorded)
		return;
	counts.launches++;
	kernels[name]++;
}

void emulation_count_look()
{
	counts.looks++;
}

void emulation_count_product(int64_t bytes)
{
	if (recorded)
		return;
	counts.products++;
	counts.product_bytes += bytes;
}

/* Where a variable has the kernel, the function that launches it; and the arguments of a template,
 * as the compiler tells them at the end. */
std::string emulation_name(const char *name, const char *function)
{
	std::string text = function, own = name;
	size_t with = text.find(" [with "), end = text.find('(');

	if (own == "kernel" || own == "start_")
		own = text.substr(text.rfind(' ', end) + 1, end - text.rfind(' ', end) - 1);
	if (with == std::string::npos)
		return own;
	text = text.substr(with + 7, text.size() - with - 8);
	return own + " <" + text.substr(0, text.find("; int64_t")) + ">";
}

extern "C" {

struct emulated_counts emulated_counts(void)
{
	return counts;
}

void emulated_reset_counts(void)
{
	counts = {};
	kernels.clear();
}

void emulated_each_kernel(void (*tell)(const char *name, int64_t n, void *data), void *data)
{
	for (auto &[name, n] : kernels)
		tell(name.c_str(), n, data);
}

void emulated_count_only(bool only)
{
	counts_only = only;
}

void emulated_seed(uint64_t seed)
{
	draw_state = seed;
}

void emulated_fail_run(int n)
{
	fails_in = n ? now + n : 0;
}

/* ---- the runtime: errors ---- */

cudaError_t cudaGetLastError(void)
{
	cudaError_t code = emulation_refuse(cudaSuccess) ? lost : last;

	last = cudaSuccess;
	return code;
}

cudaError_t cudaPeekAtLastError(void)
{
	return emulation_refuse(cudaSuccess) ? lost : last;
}

const char *cudaGetErrorString(cudaError_t code)
{
	switch (code) {
	case cudaSuccess:
		return "no error";
	case cudaErrorMemoryAllocation:
		return "out of memory";
	case cudaErrorInvalidConfiguration:
		return "invalid configuration argument";
	case cudaErrorIllegalAddress:
		return "an illegal memory access was encountered";
	default:
		return "emulated error";
	}
}

/* ---- devices ---- */

cudaError_t cudaGetDeviceCount(int *n)
{
	*n = 1;
	return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
	if (emulation_spoils_all())
		return last;
	return run_all(true);
}

/* ---- streams and events ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
	*stream = new CUstream_st{(flags & cudaStreamNonBlocking) != 0, {}, false, false, {}};
	streams.insert(*stream);
	return emulation_refuse(cudaSuccess);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
	return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	if (emulation_spoils(stream))
		return last;
	if (!stream)
		return run_all(false);
	return run_until([=]() { return stream->queue.empty(); });
}

/* What is queued there still runs. */
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	cudaError_t code = cudaStreamSynchronize(stream);

	if (stream && streams.erase(stream))
		delete stream;
	return code;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	if (emulation_spoils(stream))
		return last;
	run_some();
	if (emulation_refuse(cudaSuccess) || !stream || stream->queue.empty())
		return emulation_refuse(cudaSuccess);
	return emulation_refuse(cudaErrorNotReady);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned)
{
	event made = std::make_shared<CUevent_st>();

	*out = made.get();
	events[*out] = made;
	return emulation_refuse(cudaSuccess);
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
	return cudaEventCreateWithFlags(out, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
	events.erase(e);
	return emulation_refuse(cudaSuccess);
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t stream)
{
	uint64_t time = ++e->recorded;

	push(stream, {{"cudaEventRecord", {}, {}}, events.at(e), nullptr, time});
	return emulation_refuse(cudaSuccess);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t e, unsigned)
{
	push(stream, {{"cudaStreamWaitEvent", {}, {}}, nullptr, events.at(e), e->recorded});
	return emulation_refuse(cudaSuccess);
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
	uint64_t time = e->recorded;

	return run_until([=]() { return e->done >= time; });
}

cudaError_t cudaEventQuery(cudaEvent_t e)
{
	run_some();
	return emulation_refuse(e->done >= e->recorded ? cudaSuccess : cudaErrorNotReady);
}

/* A millisecond an operation. */
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
	*ms = (float)(to->time - from->time);
	return emulation_refuse(cudaSuccess);
}

/* ---- graphs ---- */

void emulated_fail_capture(bool fails)
{
	fails_capture = fails;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode)
{
	if (!stream || stream->captures)
		return emulation_refuse(cudaErrorIllegalState);
	stream->captures = true;
	stream->spoilt = fails_capture;
	return emulation_refuse(cudaSuccess);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
	*graph = NULL;
	if (!stream || !stream->captures)
		return emulation_refuse(cudaErrorIllegalState);
	stream->captures = false;
	if (!stream->spoilt)
		*graph = new CUgraph_st{stream->captured};
	stream->captured.clear();
	return emulation_refuse(*graph ? cudaSuccess : cudaErrorStreamCaptureInvalidated);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph,
					  unsigned long long)
{
	*out = new CUgraphExec_st{graph->operations};
	return emulation_refuse(cudaSuccess);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
	for (const emulation_operation &operation : graph->operations)
		if (!emulation_queue(stream, operation))
			return emulation_refuse(cudaSuccess);
	counts.graphs++;
	return emulation_refuse(cudaSuccess);
}

/* What is under way has what it needs. */
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
	delete graph;
	return emulation_refuse(cudaSuccess);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	delete graph;
	return emulation_refuse(cudaSuccess);
}

/* ---- copies ---- */

static void add_range(std::vector<emulation_pointer> &all, const void *at, size_t size,
		      int argument)
{
	all.push_back({at, argument});
	all.push_back({static_cast<const char *>(at) + size, argument});
}

static cudaError_t copy(const char *name, void *to, const void *from, size_t size,
			enum cudaMemcpyKind kind, cudaStream_t stream, bool waits)
{
	bool from_host = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost;
	bool to_host = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost;
	/* what is not pinned is copied before the call returns */
	bool now_to = to_host && !emulation_is_pinned(to);
	bool now_from = from_host && !emulation_is_pinned(from);
	emulation_operation operation = {name, {}, [=]() { std::memcpy(to, from, size); }};

	if (!now_to)
		add_range(operation.pointers, to, size, 0);
	if (!now_from)
		add_range(operation.pointers, from, size, 1);
	if (!emulation_queue(stream, operation))
		return emulation_refuse(cudaSuccess);
	if (recorded)
		return cudaSuccess;
	counts.copies++;
	counts.copied_bytes += (int64_t)size;
	return waits || now_to || now_from ? cudaStreamSynchronize(stream) : cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind,
			    cudaStream_t stream)
{
	return copy("cudaMemcpyAsync", to, from, size, kind, stream, false);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind)
{
	return copy("cudaMemcpy", to, from, size, kind, NULL, true);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t size, cudaStream_t stream)
{
	if (!emulation_queue(stream, {"cudaMemsetAsync", {{to, 0}}, [=]() {
					      std::memset(to, value, size);
				      }}))
		return emulation_refuse(cudaSuccess);
	if (recorded)
		return cudaSuccess;
	counts.sets++;
	counts.set_bytes += (int64_t)size;
	return cudaSuccess;
}
}
