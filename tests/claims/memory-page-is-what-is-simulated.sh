# graphs/MEMORY.md is what tools/table memory writes.
"$source/tools/table" memory "$orrery" | cmp - "$source/graphs/MEMORY.md"
