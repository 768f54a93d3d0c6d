#include "page.h"

const char orr_engine_html[] = "";
