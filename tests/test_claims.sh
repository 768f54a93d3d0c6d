#!/bin/bash
# What the command says must be true: each file in claims/ is one claim, as a script that fails where the claim does not
# hold. It runs in an empty folder with $orrery, $source, $can_train (yes or no) and refused. needs_training ends one here that
# can go no further without StarPU; exit code 77 means that something it needs is not there, and its last line says
# which. Claims that never train run two at a time, the others one by one: they take all cores. An older build can be
# held against the same claims.
# Usage: test_claims.sh ORRERY SOURCE CAN_TRAIN [CLAIM...]
orrery=$(realpath "$1") source=$(realpath "$2") can_train=$3
shift 3
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export orrery source can_train work
passed=0 failed=0

needs_training() { [ "$can_train" = yes ] || { echo 'the build has no StarPU' && exit 77; }; }
refused() { # TEXT ARGUMENTS...: exit code 2, nothing on standard output, one line with TEXT
	text=$1 code=0
	shift
	"$orrery" "$@" >out 2>err || code=$?
	[ $code -eq 2 ] && [ ! -s out ] && [ "$(wc -l <err)" -eq 1 ] && grep -qaF -- "$text" err && return
	printf '%s: exit code %d: ' "$*" $code && cat err
	exit 1
}
try() {
	mkdir "$work/$1" && cd "$work/$1" || exit 1
	bash -eu "$source/tests/claims/$1.sh" >"$work/$1.log" 2>&1 </dev/null
	echo $? >"$work/$1.code"
}
export -f needs_training refused try

cd "$source/tests/claims" || exit 1
[ $# -gt 0 ] && names=("$@") || names=($(basename -s .sh -- *.sh))
for name in "${names[@]}"; do
	grep -qE 'can_train|needs_training' "$name.sh" && list=training || list=calm
	echo "$name" >>"$work/$list"
done
[ ! -f "$work/calm" ] || xargs -P 2 -I{} bash -c 'try {}' <"$work/calm"
[ ! -f "$work/training" ] || xargs -I{} bash -c 'try {}' <"$work/training"

for name in "${names[@]}"; do
	case $(cat "$work/$name.code") in
	0) passed=$((passed + 1)) ;;
	77) printf 'SKIP: %s: %s\n' "$name" "$(tail -n 1 "$work/$name.log")" ;;
	*) failed=$((failed + 1)) && printf 'FAILED: %s\n' "$name" && tail -n 5 "$work/$name.log" ;;
	esac
done

total=$((passed + failed))
[ $total -gt 0 ] || exit 77
printf '%d%%: Checks: %d, Failures: %d, Errors: 0\n' $((100 * passed / total)) $total $failed
[ $failed -eq 0 ]
