# What the tests across ranks share. Sourced, with $orrery and $source set to full paths; leaves with exit code 77
# where there is no mpirun, or the build has no MPI. $work is a folder of the test's own.
# Open MPI has its folder of sessions there: one that tests share may be removed by one while another makes it.
command -v mpirun >/dev/null || { echo 'SKIP: there is no mpirun' && exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 STARPU_HOME=$work OMPI_MCA_orte_tmpdir_base=$work
failed=0

fail() { failed=1; printf 'FAILED: %s\n' "$*"; }
ranks() { n=$1; shift; timeout 400 mpirun --oversubscribe -n "$n" "$@"; }

ranks 2 "$orrery" train "$work/none.dot" >/dev/null 2>"$work/err"
grep -q 'was not found when it was configured' "$work/err" && echo 'SKIP: the build has no MPI' && exit 77

# Digits without pins, so that it can be cut into any number of stages.
sed 's/stage=[0-9]*//' "$source/graphs/digits.dot" >"$work/digits.dot"
# Fewer rows of them: each training ends with the loss of its test rows.
mkdir "$work/data" && head -n 480 "$source/graphs/data/digits.csv" >"$work/data/digits.csv" || exit 1

# same_tensors FOLDER FOLDER: the newest checkpoints have the same tensors, to the bit, in whatever shards.
same_tensors() {
	"$source/tests/tensors" "$1" >"$work/tensors.1" && "$source/tests/tensors" "$2" >"$work/tensors.2" &&
		[ "$(wc -l <"$work/tensors.1")" -gt 1 ] && cmp -s "$work/tensors.1" "$work/tensors.2"
}
