#!/bin/sh
# graphs/STUDIES.md is what tools/table studies writes, in which no bound is above what was found, and no plan is more than
# 5% above a proven optimum. Usage: test_studies.sh ORRERY SOURCE
orrery=$(realpath "$1") source=$2
folder=$source/../shared/data/layer-graphs
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

fail() { printf 'FAILED: %s\n' "$*" && exit 1; }

if [ -d "$folder" ]; then
	cp "$source/graphs/STUDIES.md" "$work/page.md"
else
	echo "SKIP: no layer graphs in $folder"
	sed '/^## Published layer graphs/,$d' "$source/graphs/STUDIES.md" | sed '$d' >"$work/page.md"
	folder=
fi
"$source/tools/table" studies "$orrery" $folder >"$work/table.md" 2>"$work/faults" || fail "$(cat "$work/faults")"
cmp "$work/table.md" "$work/page.md" || fail "graphs/STUDIES.md is not what tools/table studies writes: $(diff "$work/table.md" "$work/page.md")"
