#pragma once
#include "sigmoid.h"

ORR_ELEMENT float orr_silu_of(float x)
{
	return x * orr_sigmoid_of(x);
}

ORR_ELEMENT float orr_silu_slope(float x, float dy)
{
	float s = orr_sigmoid_of(x);

	return dy * (s * (1.0f + x * (1.0f - s)));
}
