#ifndef ORR_HARDWARE_H
#define ORR_HARDWARE_H
/* What serves the workers of a run on this rank: CUDA devices if there are any, else CPU cores.
 * Part of engine.h. */
#include "orrery/run.h"

struct starpu_conf;

/* CPU cores that this process may use and this StarPU can. */
int orr_hardware_cores(void);
/* Say in conf, and in the variables that StarPU reads, which cores and devices it takes. */
int orr_hardware_choose(const struct orr_run *run, struct starpu_conf *conf, struct orr_error *err);
/* Of what serves w, which is here: a CUDA device, or with `cores` also a core, so that the two are
 * the same on any rank where the bytes are. False: it is no device. */
bool orr_hardware_identity(const struct orr_run *run, int w, bool cores,
			   unsigned char identity[16]);
/* What StarPU has moved between memories since the last call: add it up, or forget it. */
void orr_hardware_count(struct orr_run *run, bool add);
#endif
