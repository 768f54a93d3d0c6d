#pragma once
/* page.html, which the build makes a string of, and the same with the engine and its panel, empty
 * where the build has none. */
extern const char orr_page_html[], orr_engine_html[];
