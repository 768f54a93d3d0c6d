# graphs/MEASURED.md is what tools/measured-table writes.
tables=$source/../shared/data/sailor
[ -r "$tables/measured.csv" ] || { echo "$tables/measured.csv is not there" && exit 77; }
"$source/tools/measured-table" "$orrery" "$tables" | cmp - "$source/graphs/MEASURED.md"
