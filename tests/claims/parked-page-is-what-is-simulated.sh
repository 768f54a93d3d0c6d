# graphs/PARKED.md is what tools/table park writes.
"$source/tools/table" park "$orrery" | cmp - "$source/graphs/PARKED.md"
