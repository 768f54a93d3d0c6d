/* A built-in schedule as a plug-in: FILE is its source and SCHEDULE its symbol. */
#include FILE /* NOLINT(bugprone-suspicious-include) */
ORR_PLUGIN(SCHEDULE);
