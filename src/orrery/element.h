#ifndef ORR_ELEMENT_H
#define ORR_ELEMENT_H
/* What a number of a file of tensors is. */
#include "declare.h"

ORR_BEGIN

/* Little-endian. */
enum orr_element {
	ORR_ELEMENT_F32,
	ORR_ELEMENT_F16,
	ORR_ELEMENT_BF16,
	ORR_ELEMENT_F64,
	ORR_ELEMENT_I8,
	ORR_ELEMENT_I16,
	ORR_ELEMENT_I32,
	ORR_ELEMENT_I64,
	ORR_ELEMENT_U8,
	ORR_ELEMENT_U16,
	ORR_ELEMENT_U32,
	ORR_ELEMENT_U64,
	ORR_ELEMENT_BOOL
};

ORR_END
#endif
