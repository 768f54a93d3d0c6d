# graphs/MEASURED.md is what tools/table measured writes.
tables=$source/../shared/data/sailor
[ -r "$tables/measured.csv" ] || { echo "$tables/measured.csv is not there" && exit 77; }
"$source/tools/table" measured "$orrery" "$tables" | cmp - "$source/graphs/MEASURED.md"
