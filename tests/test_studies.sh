#!/bin/sh
# graphs/STUDIES.md is what tools/table studies writes, in which no bound is above what was found, and no plan is more than
# 5% above a proven optimum. Usage: test_studies.sh few|all ORRERY SOURCE
# few: of the small graphs every fourth, each of which has its line there.
size=$1 orrery=$(realpath "$2") source=$(realpath "$3")
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
mkdir -p "$work/tools" "$work/graphs/studies"
cp -R "$source/tools/table" "$source/tools/tables" "$work/tools"
cp -R "$source/graphs/studies/small" "$work/graphs/studies"
if [ "$size" = all ]; then
	cp "$source/graphs/studies/best.csv" "$work/graphs/studies"
else
	awk 'NR == 1 || NR % 4 == 3' "$source/graphs/studies/best.csv" >"$work/graphs/studies/best.csv"
fi
"$work/tools/table" studies "$orrery" $folder >"$work/table.md" 2>"$work/faults" || fail "$(cat "$work/faults")"
if [ "$size" = all ]; then
	cmp "$work/table.md" "$work/page.md" || fail "graphs/STUDIES.md is not what tools/table studies writes: $(diff "$work/table.md" "$work/page.md")"
else
	grep -v 'at the optimum' "$work/table.md" | grep -vxFf "$work/page.md" && fail 'not in graphs/STUDIES.md, which tools/table studies writes'
	[ "$(grep -c '^| `small' "$work/table.md")" -ge 10 ] || fail "few rows: $(cat "$work/table.md")"
fi
