#include "messages.h"

#include <string.h>
#include "base/absent.h"

static int alone(struct orr_error *err)
{
	return orr_fail(err, ORR_E_UNSUPPORTED, "ranks: there is no other rank");
}

ORR_ABSENT(int, starpu_init(conf), orr_ranks_init_starpu, struct starpu_conf *conf)
ORR_ABSENT(void, , orr_ranks_on_receive,
	   int (*received)(starpu_data_handle_t handle, struct orr_error *err))

void orr_ranks_shutdown_starpu(void)
{
	starpu_shutdown();
}

ORR_ABSENT(int, alone(err), orr_ranks_send_data, const struct orr_message *m, struct orr_error *err)
ORR_ABSENT(int, alone(err), orr_ranks_receive_data, const struct orr_message *m,
	   struct orr_error *err)

void orr_ranks_count_data(struct orr_traffic *traffic)
{
	memset(traffic, 0, sizeof(*traffic));
}
