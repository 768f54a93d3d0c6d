#ifndef ORR_PAGE_H
#define ORR_PAGE_H
/* page.html, which the build makes a string of. */
extern const char orr_page_html[];
#endif
