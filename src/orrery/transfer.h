#ifndef ORR_TRANSFER_H
#define ORR_TRANSFER_H
/* Kinds of transfers between workers. */
#include "error.h"

ORR_BEGIN

enum orr_transfer_kind {
	ORR_TRANSFER_ACTIVATION,      /* to stage s, forward */
	ORR_TRANSFER_GRADIENT,        /* to stage s, backward */
	ORR_TRANSFER_STASH,           /* of stage s, from where F ran to where B runs */
	ORR_TRANSFER_PARAMETER,       /* of stage s, from its owner to where a pass runs */
	ORR_TRANSFER_WEIGHT_GRADIENT, /* of stage s, from where it was computed to its owner */
	ORR_TRANSFER_ALL_REDUCE       /* of stage s or of tied parameters, a ring over all owners */
};
#define ORR_TRANSFER_KINDS 6

/* What goes round the ring of an all-reduce: sums, and then what they are to all owners; or, where
 * each updates a part, the sums of the parts and later the parameters. */
enum orr_ring_part { ORR_RING_ALL_REDUCE, ORR_RING_REDUCE_SCATTER, ORR_RING_ALL_GATHER };

const char *orr_transfer_name(enum orr_transfer_kind kind); /* "weight_gradient" */

ORR_END
#endif
