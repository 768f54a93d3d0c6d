#!/bin/sh
# bench_submit on 1, 2 and 4 ranks. Usage: bench_submit.sh BENCH_SUBMIT [SCHEDULE...]. Exit code 77: no mpirun.
command -v mpirun >/dev/null || { echo 'SKIP: there is no mpirun' && exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for n in 1 2 4; do
	mpirun --oversubscribe -n $n "$@" || exit 1
done
