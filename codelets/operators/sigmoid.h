#pragma once
#include "../elements.h"

ORR_ELEMENT float orr_sigmoid_of(float x)
{
	return 1.0f / (1.0f + orr_exp_of(-x));
}

ORR_ELEMENT float orr_sigmoid_slope(float y, float dy)
{
	return dy * (y * (1.0f - y));
}
