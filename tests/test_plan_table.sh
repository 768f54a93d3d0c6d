#!/bin/sh
# graphs/PLANS.md is what tools/table plans writes; in it branches side by side are never slower than the chain, and where
# they take more memory, the next row is no slower in the chain's. Usage: test_plan_table.sh ORRERY SOURCE
orrery=$(realpath "$1") source=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

fail() { printf 'FAILED: %s\n' "$*" && exit 1; }

"$source/tools/table" plans "$orrery" >"$work/table.md" 2>&1
cmp "$work/table.md" "$source/graphs/PLANS.md" || fail "graphs/PLANS.md is not what tools/table plans writes: $(cat "$work/table.md")"
awk -F'|' '/^\| .*[0-9] \|$/ { rows++; if ($6 > $5 || more && $11 > $10) worse = 1; more = $11 > $10 }
	END { exit !(rows > 8 && !worse && !more) }' "$work/table.md" || fail "a plan that is worse than the chain: $(cat "$work/table.md")"
