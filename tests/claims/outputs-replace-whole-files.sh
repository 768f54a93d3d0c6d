# An output takes the place of an older file when it is whole: a full disk leaves the old one, a link stays a link, and
# what is no regular file is written to directly.
echo old >old.svg
chmod 640 old.svg
cp -p old.svg copy
for option in --svg --csv --trace --html; do
	code=0
	(ulimit -f 1 && trap '' XFSZ && "$orrery" simulate chain:16 -m 64 $option old.svg >/dev/null) 2>err || code=$?
	[ $code -eq 1 ]
	[ "$(wc -l <err)" -eq 1 ]
	grep -q '^orrery: old.svg: ' err
	cmp old.svg copy
	[ "$(stat -c %a old.svg)" = 640 ]
done
code=0
(ulimit -f 1 && trap '' XFSZ && "$orrery" plan chain:16 -w 16 -m 64 -o old.svg >/dev/null) 2>err || code=$?
[ $code -eq 1 ]
cmp old.svg copy
[ "$(ls -A)" = "$(printf 'copy\nerr\nold.svg')" ] # nothing else is left

ln old.svg hard.svg # goes on to be the old one
ln -s old.svg link.svg
"$orrery" simulate chain:2 --svg link.svg >/dev/null
[ -L link.svg ]
grep -q '</svg>' old.svg
[ "$(stat -c %a old.svg)" = 640 ]
cmp hard.svg copy
(umask 027 && "$orrery" simulate chain:2 --svg new.svg >/dev/null)
[ "$(stat -c %a new.svg)" = 640 ]
rm new.svg

# a link to nothing is nobody's to remove, nor what it points to to make
mkdir outside
ln -s outside/new.svg dangling.svg
for graph in chain:4 nosuch.dot; do
	code=0
	"$orrery" simulate $graph --svg dangling.svg >/dev/null 2>err || code=$?
	[ $code -eq 2 ]
	grep -q 'dangling.svg: ' err
	[ -L dangling.svg ]
	[ -z "$(ls -A outside)" ]
done

mkfifo fifo
"$orrery" simulate chain:2 --svg fifo >/dev/null &
grep -q '</svg>' <fifo
wait $!
[ -p fifo ]
"$orrery" simulate chain:2 --svg /dev/null >/dev/null
[ -c /dev/null ]
code=0
"$orrery" simulate chain:2 --svg /dev/full >/dev/null 2>err || code=$?
[ $code -eq 1 ]
grep -q '/dev/full: ' err
"$orrery" simulate chain:2 --svg >(cat >through.svg; touch done) >/dev/null
until [ -e done ]; do sleep 0.05; done
grep -q '</svg>' through.svg

needs_training
"$orrery" train "$source/graphs/digits.dot" --steps 3 --loss losses.csv >/dev/null 2>&1
[ "$(wc -l <losses.csv)" -eq 4 ]
mkfifo losses
"$orrery" train "$source/graphs/digits.dot" --steps 40 --loss losses >/dev/null 2>&1 &
exec 3<losses
read -r heading <&3
[ "$heading" = step,samples,loss ]
cat <&3 >/dev/null
wait $!
if ls -A | grep part; then exit 1; fi
