#pragma once
/* (private to the drawings) What they have in common. */
#include <stdio.h>

#define ROW_FILL "#f5f5f6"
#define GRID "#dcdce0"
#define INK "#222"
#define QUIET "#666"

void orr_svg_write_escaped(FILE *file, const char *text);
/* style: attributes of the text element; text is escaped. */
void orr_svg_write_text(FILE *file, double x, double y, const char *style, const char *text);
