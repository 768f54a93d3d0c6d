# A copy in memory that takes longer than --timeout ends nothing, neither on the rank that writes it nor on the other, which has
# written its own and waits for jobs of that one. The writer alone calls setpriority, which takes long here on rank 0.
needs_training
command -v mpirun cc >/dev/null && ldd "$orrery-train" | grep -q libstarpumpi || exit 77
cat >slow.c <<'C'
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

int setpriority(__priority_which_t which, id_t who, int priority)
{
	const char *rank = getenv("OMPI_COMM_WORLD_RANK");

	(void)which, (void)who, (void)priority;
	if (rank && !atoi(rank))
		sleep(7);
	return 0;
}
C
cc -shared -fPIC -o slow.so slow.c
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
timeout 100 "$orrery" supervise --restarts 0 -- mpirun --oversubscribe -n 2 -x LD_PRELOAD="$PWD/slow.so" "$orrery" \
	train "$source/graphs/digits.dot" -w 2 -m 4 --steps 3 --copy-every 2 --timeout 3 >out
grep -q '^Copies in memory: 1 of ' out
