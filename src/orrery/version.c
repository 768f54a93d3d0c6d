/* What this is, and what it was built with. */
#include "orrery.h"

const char *orr_version(void)
{
	return ORR_VERSION;
}
