#pragma once
/* page.html, which the build makes a string of. */
extern const char orr_page_html[];
