#!/bin/sh
# 30 steps on digits by `mpirun -n N orrery train` end with bitwise the parameters, and what the optimizer keeps, of
# the same command without mpirun. Usage: test_mpi_digits.sh ORRERY SOURCE 'RANKS ...' [SCHEDULE...]
# Without schedules: every one that `orrery schedules` lists, and lpp and fslpp with replicas.
orrery=$(realpath "$1") source=$(realpath "$2") counts=$3
shift 3
# shellcheck source=tests/mpi.sh
. "$source/tests/mpi.sh"
# shellcheck disable=SC2046
[ $# -gt 0 ] || set -- $("$orrery" schedules | sed -n 's/^\([a-z0-9-][a-z0-9-]*\).*/\1/p') lpp:G=2,R=2 fslpp:G=2,R=2
trained=0

# train FOLDER [COMMAND...]: under $schedule and $cut, in place of or after the command
train() {
	folder=$1
	shift
	# shellcheck disable=SC2086
	"$@" "$orrery" train $cut --schedule "$schedule" -w 4 -m 8 --batch 24 --steps 30 --checkpoint "$folder" \
		>/dev/null 2>"$work/err" || fail "$schedule, $*: $(cat "$work/err")"
}

# choose_cut: its own six stages, or eight, or four: what the schedule serves
choose_cut() {
	for cut in "$source/graphs/digits.dot" "$work/digits.dot --stages 8" "$work/digits.dot --stages 4"; do
		# shellcheck disable=SC2086
		"$orrery" simulate $cut --schedule "$schedule" -w 4 -m 8 --json >/dev/null 2>&1 && return
	done
	fail "$schedule: serves none of the cuts"
	return 1
}

for schedule in "$@"; do
	choose_cut || continue
	rm -rf "$work/alone"
	train "$work/alone" env
	for count in $counts; do
		rm -rf "$work/ranks"
		train "$work/ranks" ranks "$count"
		same_tensors "$work/alone" "$work/ranks" || fail "$schedule on $count ranks: the parameters differ"
		trained=$((trained + 1))
	done
	printf '%s: %s\n' "$schedule" "$(sha256sum "$work/tensors.1" | cut -c 1-16)"
done
printf '%d schedules, %d trainings on %s ranks\n' $# "$trained" "$counts"
[ "$trained" -gt 0 ] && exit $failed
