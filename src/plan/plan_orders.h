#pragma once
/* Orders in which the stages of a cut may take workers that differ. Private to the planner. */
#include <stdbool.h>
#include "orrery/orrery.h"

struct orr_machine;

struct orr_plan_orders {
	int n, *list; /* owned: [n * n_workers] */
	bool all;     /* every other order is one of these but for workers that are alike */
};

int orr_plan_orders_find(struct orr_plan_orders *found, const struct orr_machine *machine,
			 struct orr_error *err);
void orr_plan_orders_fini(struct orr_plan_orders *orders);
