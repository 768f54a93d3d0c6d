#include "messages.h"

#include <string.h>
#include "base/absent.h"

ORR_ABSENT(int, starpu_init(conf), orr_ranks_init_starpu, struct starpu_conf *conf,
	   int (*received)(starpu_data_handle_t handle, struct orr_error *err))

void orr_ranks_shutdown_starpu(void)
{
	starpu_shutdown();
}

/* there is no other rank */
ORR_ABSENT(void, , orr_message_pass, const struct orr_work *work, struct orr_message m, bool sends)

void orr_run_traffic(struct orr_run *run, struct orr_traffic *traffic)
{
	memset(traffic, 0, sizeof(*traffic));
}
