#include <mpi.h>

#include "base/spin.h"

/* StarPU's thread for MPI looks for each message that is to come, again and again, with this. MPI
 * lets a program put a function of its own before each of its functions (MPI 3.1, section 14.2).
 * Sleeps once a round over all messages: when the one comes again that was first. */
__attribute__((visibility("default"))) int MPI_Test(MPI_Request *request, int *done,
						    MPI_Status *status)
{
	static _Thread_local const MPI_Request *first;
	int code = PMPI_Test(request, done, status);

	if (code || *done) {
		first = NULL;
		orr_spin_end();
	} else if (!first || first == request) {
		first = request;
		orr_spin_wait();
	}
	return code;
}
