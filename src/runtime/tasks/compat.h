#ifndef ORR_COMPAT_H
#define ORR_COMPAT_H
/* What differs between the versions of StarPU, and nothing else. */
#include <starpu.h>

#if STARPU_MAJOR_VERSION == 1 && STARPU_MINOR_VERSION < 4
#define ORR_POLICY_OF_THIS_VERSION
#define orr_fetch_inputs(task, node) starpu_prefetch_task_input_on_node(task, node)
#else
/* 1.4 wants to know that the policy asks for data early by itself. */
#define ORR_POLICY_OF_THIS_VERSION .prefetches = 1,
/* In 1.4.10 the other call counts what the task only writes and never takes it back, so that it
 * cannot be evicted any more; this one does not count. */
#define orr_fetch_inputs(task, node) starpu_idle_prefetch_task_input_on_node(task, node)
#endif
#endif
