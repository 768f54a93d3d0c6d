#pragma once
/* (private to codelets.c and workspace.c) The stream of a StarPU worker that is a CUDA device: a
 * cudaStream_t; NULL: of a core. With CUDA (worker_cuda.c) or without (worker_none.c). To be called
 * by the worker's thread. */
void *orr_worker_stream(void);
