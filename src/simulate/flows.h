#pragma once
/* Links that all that is on them shares, max-min fairly. Whenever something starts or ends, the
 * rates of all are set anew: they grow alike until a link is full; what passes that one stays as it
 * is, and the others grow on. A ring counts as often as it passes a link at once. Rates are whole
 * thousandths of bytes per second, rounded down, and what is left of a flow is counted exactly. */
#include <stdbool.h>
#include <stdint.h>

struct orr_error;
struct orr_network;

/* As orr_network_start() and orr_network_release(). */
int orr_flows_start(struct orr_network *net, int64_t now_ns,
		    int (*leaves)(void *user, int index, int64_t free_ns), void *user,
		    struct orr_error *err);
bool orr_flows_release(struct orr_network *net, int index, int64_t now_ns);
