# Every figure of graphs/MODELS.md is what the table gives. Where one changes for a reason:
# tools/table models build/tools/orrery > graphs/MODELS.md
"$source/tools/table" models "$orrery" > MODELS.md
diff MODELS.md "$source/graphs/MODELS.md"
