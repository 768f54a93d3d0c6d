#pragma once
struct orr_operator;

/* Free what o owns. */
void orr_operator_fini(struct orr_operator *o);
