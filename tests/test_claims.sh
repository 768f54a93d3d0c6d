#!/bin/bash
# What the command says must be true: each file in claims/ is one claim, as a script that fails where the claim does not
# hold. It runs in an empty folder with $orrery, $source and $can_train (yes or no); exit code 77 means that something it
# needs is not there. An older build can be held against the same claims.
# Usage: test_claims.sh ORRERY SOURCE CAN_TRAIN [CLAIM...]
orrery=$(realpath "$1") source=$(realpath "$2") can_train=$3
shift 3
export orrery source can_train
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0

for claim in "$source"/tests/claims/*.sh; do
	name=$(basename "$claim" .sh)
	[ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
	mkdir "$work/$name" && cd "$work/$name" || exit 1
	bash -eu "$claim" >"$work/log" 2>&1 </dev/null
	case $? in
	0) passed=$((passed + 1)) ;;
	77) skipped=$((skipped + 1)) && printf 'SKIP: %s: %s\n' "$name" "$(tail -n 1 "$work/log")" ;;
	*) failed=$((failed + 1)) && printf 'FAILED: %s\n' "$name" && tail -n 5 "$work/log" ;;
	esac
done

total=$((passed + failed))
[ $total -gt 0 ] || exit 77
printf '%d%%: Checks: %d, Failures: %d, Errors: 0\n' $((100 * passed / total)) $total $failed
[ $failed -eq 0 ]
