# --loss of a training that a launcher starts again goes on behind its rows: also where the note of where they are leads nowhere,
# since the file has its own name by now; and where the disk has no room for them, the file and its note stay as they are.
needs_training
train() { # STARTS STEPS ROWS
	ORRERY_KEEP=$PWD/keep ORRERY_STARTS=$1 "$orrery" train "$source/graphs/digits.dot" --steps "$2" --loss "$3" --checkpoint run \
		>/dev/null 2>err
}
has() { cut -d, -f1 "$1" | tail -n +2 | tr '\n' ' ' | grep -q "^$2 $"; }
mkdir keep
train 0 3 rows.csv
has rows.csv '1 2 3'
ln -sfn "$PWD/rows.csv.part" keep/losses
train 1 5 rows.csv
has rows.csv '1 2 3 4 5'
[ "$(readlink keep/losses)" = "$PWD/rows.csv" ]
# none was noted: a file that another training left is written anew
rm keep/losses
train 1 6 rows.csv
has rows.csv 6

mkdir full
mount -t tmpfs -o size=64k tmpfs full 2>/dev/null || { echo no file system may be mounted here && exit 77; }
trap 'umount full' EXIT
train 1 8 full/rows.csv
has full/rows.csv '6 7 8'
cat /dev/zero >full/filler 2>/dev/null || true
code=0
train 2 9 full/rows.csv || code=$?
[ $code -eq 1 ]
grep 'the file could not be written: is there room?$' err
has full/rows.csv '6 7 8'
[ "$(readlink keep/losses)" = "$PWD/full/rows.csv" ]
rm full/filler
train 3 10 full/rows.csv
has full/rows.csv '6 7 8 10'
