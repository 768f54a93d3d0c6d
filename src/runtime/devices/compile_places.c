#include "compile_places.h"

#include <string.h>

#include "base/max.h"

int64_t orr_places_take(struct orr_scratch_places *places, int64_t columns)
{
	int64_t first = 0;
	int i = 0;

	while (i < places->n && places->held[i].first - first < columns)
		first = places->held[i++].end;
	memmove(&places->held[i + 1], &places->held[i],
		(size_t)(places->n++ - i) * sizeof(*places->held));
	places->held[i] = (struct orr_held){first, first + columns};
	places->most = larger(places->most, first + columns);
	return first;
}

void orr_places_give_back(struct orr_scratch_places *places, int64_t first)
{
	int i = 0;

	while (places->held[i].first != first)
		i++;
	memmove(&places->held[i], &places->held[i + 1],
		(size_t)(--places->n - i) * sizeof(*places->held));
}
