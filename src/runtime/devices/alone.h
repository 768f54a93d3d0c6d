#pragma once
/* A core or device to compute on apart from StarPU, in the calling thread. */
#include "codelets/device.h"
#include "devices.h"
#include "orrery/orrery.h"

struct orr_alone {
	struct orr_device device; /* its workspace is the user's to set, in memory of its own */
	void *stream;             /* (private) */
};

/* The first device that a run would take, or a core. What is refused for a run is refused here. */
int orr_alone_init(struct orr_alone *alone, enum orr_hardware hardware,
		   enum orr_precision precision, struct orr_error *err);
void orr_alone_fini(struct orr_alone *alone);
