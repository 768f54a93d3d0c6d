#pragma once
/* How a thread waits that has to look, again and again, whether there is something to do. After
 * half a millisecond, where others want its core, else after a tenth of a second, it sleeps between
 * two looks for a hundredth of what it has waited: what it waits for comes so much later. To call sched_yield alone starves
 * whatever else the machine does where more threads than cores call it (Linux 6.18, where who
 * yields gives up a whole slice). */

void orr_spin_wait(void); /* this thread found nothing; called after each look */
void orr_spin_end(void);  /* it found something */
