# A file, a node or a schedule whose name looks like a marker of the library's messages keeps it in the refusal.
printf 'digraph { "a[stages]" [op=foo] }\n' >'[workers].dot'
for words in 'show [workers].dot' 'simulate chain:4 -s no[memory]' 'show none[microbatches].dot'; do
	code=0
	"$orrery" $words >out 2>err || code=$?
	[ $code -eq 2 ]
	grep -qE '\[(workers|memory|microbatches)\]' err || { cat err; exit 1; }
done
"$orrery" show '[workers].dot' 2>err || true
grep -qF 'a[stages]' err
