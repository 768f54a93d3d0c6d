#ifndef ORR_OPERATOR_H
#define ORR_OPERATOR_H
struct orr_operator;

/* Free what o owns. */
void orr_operator_fini(struct orr_operator *o);
#endif
