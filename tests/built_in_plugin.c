/* A built-in schedule as a plug-in: FILE is its source and SCHEDULE its symbol. */
#include FILE
ORR_PLUGIN(SCHEDULE);
