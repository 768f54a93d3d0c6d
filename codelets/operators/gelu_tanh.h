#pragma once
/* The approximation of gelu by tanh, as GPT-2 has it. */
#include "tanh.h"

#define ORR_GELU_RATE 0.79788456080286536f /* sqrt(2 / pi) */
#define ORR_GELU_CUBE 0.044715f

ORR_ELEMENT float orr_gelu_tanh_of(float x)
{
	return 0.5f * x * (1.0f + orr_tanh_of(ORR_GELU_RATE * (x + ORR_GELU_CUBE * (x * x * x))));
}

ORR_ELEMENT float orr_gelu_tanh_slope(float x, float dy)
{
	float t = orr_tanh_of(ORR_GELU_RATE * (x + ORR_GELU_CUBE * (x * x * x)));
	float inner = ORR_GELU_RATE * (1.0f + 3.0f * ORR_GELU_CUBE * (x * x));

	return dy * (0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner);
}
