#!/bin/sh
# Training that is killed, that meets a full disk or a damaged checkpoint, as a person meets it: it goes on from
# what is whole, and ends with the parameters of a training that nothing disturbed, to the bit.
# Usage: test_resume.sh ORRERY SOURCE [KILLS]
orrery=$(realpath "$1") source=$(realpath "$2") kills=${3:-10}
work=$(mktemp -d) || exit 1
trap 'umount "$work/full" 2>/dev/null; rm -rf "$work"' EXIT
cd "$work" || exit 1
passed=0 failed=0

pass() { passed=$((passed + 1)); }
fail() { failed=$((failed + 1)); printf 'FAILED: %s\n' "$*"; }

cp "$source/graphs/data/digits.csv" images.csv || exit 1
cat >model.dot <<END
digraph {
	data="images.csv"
	left [op=input columns="0:32" scale=0.0625]
	l1 [op=linear features=24]
	l2 [op=relu]
	right [op=input columns="32:64" scale=0.0625]
	r1 [op=linear features=24]
	r2 [op=gelu]
	join [op=concat]
	norm [op=layernorm]
	scores [op=linear features=10]
	digit [op=input columns="64"]
	loss [op=softmax_cross_entropy]
	left -> l1 -> l2 -> join -> norm -> scores -> loss
	right -> r1 -> r2 -> join
	digit -> loss
}
END

# (train FOLDER OPTION...): 120 steps with a checkpoint in every 4; takes the shell's place
train() {
	folder=$1
	shift
	exec "$orrery" train model.dot --batch 48 --steps 120 --checkpoint "$folder" --every 4 --keep 2 "$@"
}

# whole FOLDER WHAT: it ends with what the undisturbed training came to, and no other checkpoint than it has
whole() {
	if ! cmp -s "$1/step-00000120/shard-0.safetensors" calm/step-00000120/shard-0.safetensors; then
		fail "$2: the parameters differ"
	elif ! cmp -s "$1/step-00000120/manifest.json" calm/step-00000120/manifest.json; then
		fail "$2: the manifest differs"
	elif [ -n "$(find "$1" -name '.step-*')" ]; then
		fail "$2: something unfinished is left"
	else
		pass
	fi
}

# one_line TEXT FILE WHAT
one_line() {
	if [ "$(grep -c '^orrery: ' "$2")" -ne 1 ]; then
		fail "$3: not one line: $(cat "$2")"
	elif ! grep -qF -- "$1" "$2"; then
		fail "$3: '$1' is not in: $(cat "$2")"
	else
		pass
	fi
}

started=$(date +%s%N)
(train calm -w 2 --stages 3) >/dev/null 2>err || fail "the undisturbed training: $(cat err)"
lasted=$((($(date +%s%N) - started) / 1000000)) # milliseconds
whole calm 'the undisturbed training'
[ "$(find calm -name 'step-*' | wc -l)" -eq 2 ] || fail "not two checkpoints: $(ls calm)"

# --- killed at any time, each time under another schedule, on other workers, with another cut ---
try() {
	folder=$1
	shift
	case $try in
	0) train "$folder" "$@" -w 2 --stages 4 --schedule 1f1b ;;
	1) train "$folder" "$@" -w 3 --stages 3 --schedule gpipe ;;
	2) train "$folder" "$@" -w 2 --stages 2 --schedule fsdp ;;
	3) train "$folder" "$@" -w 4 --stages 4 --schedule zb-h1 ;;
	*) train "$folder" "$@" -w 1 --stages 1 --schedule 1f1b ;;
	esac
}

resume() { find "$1" -maxdepth 1 -name 'step-*' 2>/dev/null | grep -q . && echo --resume; }

kill_one() {
	# shellcheck disable=SC2046 # no word where there is nothing to go on from
	try killed $(resume killed) >/dev/null 2>err &
	pid=$!
	sleep "$1"
	kill -9 $pid 2>/dev/null
	wait $pid 2>/dev/null
}

n=0 try=0 resumed=0
while [ "$n" -lt "$kills" ]; do
	rm -rf killed
	try=$((n % 5))
	for again in 1 2; do
		kill_one "$(awk -v n="$n$again" -v ms="$lasted" 'BEGIN { srand(n); printf "%.3f", rand() * ms / 1000 }')"
		try=$(((try + 1) % 5))
	done
	n=$((n + 1))
	[ -z "$(resume killed)" ] || resumed=$((resumed + 1))
	# shellcheck disable=SC2046
	if (try killed $(resume killed)) >/dev/null 2>err; then
		whole killed "kill $n"
	else
		fail "kill $n: does not go on: $(cat err)"
	fi
done
echo "$n trainings were killed twice each; $resumed had a checkpoint to go on from"
try=0

# --- nothing left to train ---
if (try calm --resume --json) >out 2>err && grep -q '"steps": 120' out; then
	pass
else
	fail "at the end: $(cat err)"
fi

# gave_up CODE WHAT: exit code 2, and nothing on standard output
gave_up() {
	if [ "$1" -eq 2 ] && [ ! -s out ]; then
		pass
	else
		fail "$2: exit code $1: $(cat err)"
	fi
}

# --- damage: the one before is used, with one line; none: exit code 2, with one line ---
cp -r calm damaged
truncate -s -1 damaged/step-00000120/shard-0.safetensors
(train damaged --resume) >/dev/null 2>err || fail "after damage: $(cat err)"
one_line 'damaged/step-00000120: shard-0.safetensors has' err 'after damage'
whole damaged 'after damage'
for manifest in damaged/*/manifest.json; do
	truncate -s 100 "$manifest"
done
(train damaged --resume) >out 2>err
gave_up $? 'nothing whole'
[ "$(tail -n 1 err)" = 'orrery: damaged: no checkpoint there is whole: train anew in another folder, or start without --resume' ] ||
	fail "nothing whole: $(cat err)"

# refuse TEXT OPTION...
refuse() {
	text=$1
	shift
	"$orrery" train model.dot "$@" >out 2>err
	gave_up $? "$*"
	one_line "$text" err "$*"
}
refuse 'calm: has checkpoints, up to step 120' --checkpoint calm
refuse 'say where with --checkpoint' --resume
refuse 'none: cannot be read: No such file' --checkpoint none --resume
refuse 'batch is 48 there and 96 here' --checkpoint calm --resume
refuse 'seed is 1 there and 2 here' --checkpoint calm --resume --batch 48 --seed 2
refuse 'optimizer name is "adamw" there and "sgd" here' --checkpoint calm --resume --batch 48 --optimizer sgd
refuse 'optimizer weight_decay is 0 there and 0.5 here' --checkpoint calm --resume --batch 48 --weight-decay 0.5
sed 's/features=24/features=25/' model.dot >other.dot
"$orrery" train other.dot --batch 48 --checkpoint calm --resume >out 2>err
one_line 'graph l1 is "linear 24 of left" there and "linear 25 of left" here' err 'another graph'

sed '2s/^[0-9]*,/3,/' "$source/graphs/data/digits.csv" >digits.csv
sed 's#data=".*"#data="digits.csv"#' model.dot >other.dot
cmp -s digits.csv "$source/graphs/data/digits.csv" && fail 'the data are the same'
"$orrery" train other.dot --batch 48 --checkpoint calm --resume >out 2>err
one_line 'data checksum is "' err 'other data'
refuse "--checkpoint '': name a folder" --checkpoint ''
refuse 'model.dot: is no folder: name another' --checkpoint model.dot

# --- one folder, one training ---
"$orrery" train model.dot --batch 48 --steps 1000000 --checkpoint busy --every 4 >/dev/null 2>&1 &
pid=$!
until [ -n "$(resume busy)" ]; do
	sleep 0.1
done
refuse 'busy: another run writes its checkpoints there' --checkpoint busy --resume --batch 48
kill -9 $pid
wait $pid 2>/dev/null
refuse 'busy: has checkpoints' --checkpoint busy

# --- a full disk: one line for each, training goes on, the checkpoint before is whole ---
# short STEPS OPTION...
short() {
	steps=$1
	shift
	exec "$orrery" train model.dot --batch 48 --checkpoint full --every 4 --keep 1 --steps "$steps" "$@"
}

# limited WHAT CODE: `full` has step 40; 44 and 48 found no room
limited() {
	if [ "$2" -ne 1 ] || ! grep -q 'Test loss' out; then
		fail "$1: exit code $2: $(cat err)"
	elif [ "$(grep -c '^orrery: ' err)" -ne 2 ] ||
		! grep -q '^orrery: no checkpoint of step 44: .*; training goes on$' err ||
		! grep -q '^orrery: no checkpoint of the last step: ' err; then
		fail "$1: $(cat err)"
	elif [ "$(find full -name '*step-*')" != full/step-00000040 ]; then
		fail "$1: $(ls -A full)"
	else
		pass
	fi
}

# with_room WHAT: there is room again
with_room() {
	(short 120 --resume) >/dev/null 2>err || fail "$1: $(cat err)"
	whole full "$1"
}

(short 40) >/dev/null 2>err || fail "before the full disk: $(cat err)"
# a limit on the size of a file: 12 KB, or 24 in some shells; a shard has 26
# shellcheck disable=SC3045
(ulimit -f 24 && short 48 --resume) >out 2>err
limited 'a limit on the size of files' $?
with_room 'a limit on the size of files'

# a file system with no room left, where one may be mounted
rm -rf full
mkdir full
if mount -t tmpfs -o size=1m tmpfs full 2>/dev/null; then
	(short 40) >/dev/null 2>err || fail "before the full disk: $(cat err)"
	cat /dev/zero >full/filler 2>/dev/null
	truncate -s -12K full/filler # room for half a shard
	(short 48 --resume) >out 2>err
	limited 'a full disk' $?
	rm full/filler
	with_room 'a full disk'
	umount full
else
	echo 'SKIP: no file system may be mounted here: a full one was not tried'
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
