#include "layout.h"

#include <string.h>

#include "base/utf8.h"

void orr_svg_write_escaped(FILE *file, const char *text)
{
	size_t left = strlen(text), length;

	for (; left; text += length, left -= length) {
		const char *instead = *text == '<'                 ? "&lt;"
				      : *text == '>'               ? "&gt;"
				      : *text == '&'               ? "&amp;"
				      : (unsigned char)*text < ' ' ? " " /* XML knows no others */
								   : NULL;

		if (!(length = orr_utf8_length(text, left))) {
			length = 1;
			instead = ORR_UTF8_REPLACEMENT;
		}
		(void)fwrite(instead ? instead : text, 1, instead ? strlen(instead) : length, file);
	}
}

void orr_svg_write_text(FILE *file, double x, double y, const char *style, const char *text)
{
	fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, style);
	orr_svg_write_escaped(file, text);
	fputs("</text>\n", file);
}
