#pragma once
#include "../elements.h"

/* x < 0 rather than x > 0: NaN passes, so that a training that diverges shows it. */
ORR_ELEMENT float orr_relu_of(float x)
{
	return x < 0.0f ? 0.0f : x;
}

/* What comes through, y being the relu's output. */
ORR_ELEMENT float orr_relu_slope(float y, float dy)
{
	return y > 0.0f ? dy : 0.0f;
}
