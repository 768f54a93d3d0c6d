# Wherever a command writes a file, - is standard output: the file and nothing else, with the report on standard error.
same() { # FILE ARGUMENTS...: with FILE for - they write FILE
	file=$1
	shift
	"$orrery" "$@" - >out 2>report
	"$orrery" "$@" "$file" >report.expected 2>/dev/null
	cmp out "$file"
	[ ! -e ./- ]
}
same a.svg simulate chain:4 --svg
cmp report report.expected
same a.csv simulate chain:4 --csv
same a.json simulate chain:4 --trace
same b.svg compare chain:4 --svg
same c.json plan chain:4 -w 2 -o
cmp report report.expected
"$orrery" simulate chain:4 --csv /dev/stdout --svg a.svg 2>/dev/null | cmp - a.csv

for both in '--svg - --csv -' '--svg - --trace /dev/stdout' '--csv - --json'; do
	code=0
	"$orrery" simulate chain:4 $both >out 2>err || code=$?
	[ $code -eq 2 ]
	[ ! -s out ]
	grep -q 'both write to standard output' err
done
code=0
"$orrery" plan chain:4 -w 2 -o - --json >out 2>err || code=$?
[ $code -eq 2 ]
[ ! -s out ]
code=0
"$orrery" simulate chain:4 --csv - >/dev/full 2>err || code=$?
[ $code -eq 1 ]
tail -n 1 err | grep -q 'could not be written'

needs_training
"$orrery" train "$source/graphs/digits.dot" --steps 2 --loss - >out 2>err
[ "$(head -n 1 out)" = step,samples,loss ]
[ "$(wc -l <out)" -eq 3 ]
grep -q 'Test loss' err
