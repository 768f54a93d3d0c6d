#pragma once
/* The platform's files of a StarPU for SimGrid, in the place of what StarPU measures of a host:
 * devices without main memory to speak of, joined pair by pair by links that are alike. */

/* Write them into a folder, which is made, and have programs that are started from now on find them
 * there. Any failure fails the test. */
void platform_write(const char *folder, double bytes_per_s, double latency_s);
