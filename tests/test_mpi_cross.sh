#!/bin/sh
# The bytes that a test writes alone are those of 2 and 4 ranks. Usage: test_mpi_cross.sh TEST [each]
# each: it is told how many ranks, when it is alone, too. Exit code 77: there is no mpirun, or the build has no MPI.
test=$(realpath "$1")
command -v mpirun >/dev/null || { echo 'SKIP: there is no mpirun' && exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_orte_tmpdir_base=$work
for n in 2 4; do
	[ -f "$work/alone" ] && [ -z "$2" ] || "$test" "$work/alone" ${2:+$n} >"$work/log" 2>&1 || {
		cat "$work/log"
		exit 1
	}
	timeout 400 mpirun --oversubscribe -n "$n" "$test" "$work/ranks" ${2:+$n} >"$work/log" 2>&1 || {
		grep -q 'was not found when it was configured' "$work/log" && echo 'SKIP: the build has no MPI' && exit 77
		cat "$work/log"
		exit 1
	}
	cmp "$work/alone" "$work/ranks" || exit 1
done
