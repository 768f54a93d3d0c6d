#!/bin/bash
# Digits from a .safetensors or .npy file, of several types, train to the bits that they train to from their CSV, on one
# process and across ranks, and resume; what does not fit is refused in one line with exit code 2.
# Usage: test_data_files.sh ORRERY SOURCE
orrery=$(realpath "$1") source=$(realpath "$2")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
cp -R "$source/graphs/data" . || exit 1
passed=0 failed=0
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_orte_tmpdir_base=$work

pass() { passed=$((passed + 1)); }
fail() { failed=1; printf 'FAILED: %s\n' "$*"; }
pack() { "$source/tools/pack-data" data/digits.csv "$@" || exit 1; }
train() { timeout 300 "${ranks[@]}" "$orrery" train "$@" -m 4 --batch 24 --steps 12 >out 2>err; }
tensors() { "$source/tests/tensors" "$1" | sort; }

# same NAME GRAPH OPTION...: trains to the parameters and losses of the CSV
same() {
	name=$1
	shift
	rm -rf run
	train "$@" --checkpoint run --loss loss.csv || { fail "$name: $(tail -n 1 err)"; return; }
	tensors run >found
	if [ -s wanted ] && cmp -s wanted found && cmp -s wanted.csv loss.csv; then pass; else fail "$name: other bits"; fi
}

# refused TEXT GRAPH OPTION...
refused() {
	text=$1 code=0
	shift
	train "$@" || code=$?
	grep '^orrery: ' err >lines
	if [ $code -eq 2 ] && grep -qF -- "$text" lines && [ "$(wc -l <lines)" -eq 1 ]; then pass; else fail "$*: exit code $code: $(cat err)"; fi
}

# cut RANKS: one line and exit code 1 where the mapped file is cut while it is trained on; a rank that
# is left may say that the other one is gone, before mpirun ends it, and what the cause was is said once
cut() {
	code=0
	rm -f rows.csv*
	cp data/named.safetensors torn.safetensors
	timeout 120 ${1:+mpirun --oversubscribe -n $1} "$orrery" train named.dot --data torn.safetensors -m 4 --batch 24 \
		--steps 100000000 --loss rows.csv >out 2>err &
	until [ "$(cat rows.csv.part 2>/dev/null | wc -l)" -gt 2 ]; do sleep 0.1; kill -0 $! 2>/dev/null || break; done
	: >torn.safetensors
	wait $! || code=$?
	grep '^orrery: ' err | grep -v 'rank [0-9]* is gone' | sort -u >lines
	if [ $code -eq 1 ] && [ "$(wc -l <lines)" -eq 1 ] && grep -q 'torn.safetensors: became shorter' lines; then
		pass
	else
		fail "cut while it was mapped: exit code $code: $(cat err)"
	fi
}

sed 's/stage=[0-9]*//' "$source/graphs/digits.dot" >plain.dot
# input and class of one tensor each
sed -e 's/columns="64"/columns=0, tensor=label/' -e 's/_pixels \[op=input, /&tensor=image, /' plain.dot >named.dot
sed 's,data="[^"]*",data="data/named.safetensors",' named.dot >inside.dot
[ "$(grep -c 'tensor=' named.dot)" -eq 5 ] || fail 'the graph has other inputs'
pack data/named.safetensors image=0:64/U8 label=64/I64
pack all.npy 0:65/F16
pack mixed.safetensors image=0:64/BF16 label=64/U16
ranks=()
rm -rf run
train plain.dot --checkpoint run --loss wanted.csv || fail "from the CSV: $(cat err)"
tensors run >wanted
same safetensors named.dot --data data/named.safetensors
same 'bfloat16' named.dot --data mixed.safetensors
same npy plain.dot --data all.npy
same "the graph's" inside.dot
mv all.npy all
same 'npy by its content' plain.dot --data all
mv all all.npy

# a profile, and the graph that it writes
"$orrery" profile named.dot -o profiled.dot >/dev/null 2>err || fail "profile: $(cat err)"
[ "$(grep -c 'tensor="\?[il]' profiled.dot)" -eq 5 ] || fail 'the profile forgets tensors'
same 'the graph with its profile' profiled.dot --data data/named.safetensors

# half of the steps from one process, the rest after that
rm -rf run
timeout 300 "$orrery" train named.dot --data data/named.safetensors -m 4 --batch 24 --steps 6 --checkpoint run >out 2>err || fail "$(cat err)"
train named.dot --data data/named.safetensors --checkpoint run --resume || fail "resume: $(cat err)"
tensors run >found
if cmp -s wanted found; then pass; else fail 'resumed to other bits'; fi
rm -rf run
timeout 300 "$orrery" train named.dot --data data/named.safetensors -m 4 --batch 24 --steps 6 --checkpoint run >out 2>err || fail "$(cat err)"
refused 'data checksum is ' named.dot --data mixed.safetensors --checkpoint run --resume

refused "node tl_pixels: takes the tensor 'image', and the data has columns without a name: take tensor= away" named.dot --data data/digits.csv
refused "columns without a name: take tensor= away" named.dot --data all.npy
refused 'node tl_pixels: the data has several tensors: say which one, tensor="image"' plain.dot --data data/named.safetensors
pack other.safetensors images=0:64/U8 label=64
refused "takes the tensor 'image' (did you mean images?), and the data has images, label: correct tensor=" named.dot --data other.safetensors
pack short.safetensors image=0:60/U8 label=64
refused 'takes column 60, and the tensor image has columns 0 to 59: correct columns=' named.dot --data short.safetensors
pack classes.safetensors image=0:64/U8 label=20/F32
refused 'needs whole numbers from 0 to 9' named.dot --data classes.safetensors
printf '300,1\n2,3\n' >large.csv # no heading, though its first line does not fit
if "$source/tools/pack-data" large.csv large.npy 0/U8 2>err; then fail 'a number that no byte holds was dropped'; else pass; fi
if "$source/tools/pack-data" large.csv ./large.csv a=0:2 2>err || [ "$(head -n 1 large.csv)" != 300,1 ]; then fail 'the CSV was overwritten'; else pass; fi
head -c 5000 data/named.safetensors >cut.safetensors
refused 'cut.safetensors: no whole safetensors file' named.dot --data cut.safetensors
head -c 5000 all.npy >cut.npy
cut ''
refused 'cut.npy: no whole .npy file: its array is not as long as its shape and type say' plain.dot --data cut.npy

# each rank keeps the columns of its own stages
if command -v mpirun >/dev/null && ! train_err=$(mpirun --oversubscribe -n 2 "$orrery" train none.dot 2>&1 >/dev/null) &&
	! grep -q 'was not found when it was configured' <<<"$train_err"; then
	ranks=(mpirun --oversubscribe -n 3)
	same 'on 3 ranks' named.dot --data data/named.safetensors
	same 'on 3 ranks, npy' plain.dot --data all.npy
	refused 'takes column 60, and the tensor image has columns 0 to 59' named.dot --data short.safetensors
	refused 'needs whole numbers from 0 to 9' named.dot --data classes.safetensors
	cut 2
else
	echo 'SKIP: across ranks: no mpirun, or a build without MPI'
fi
printf '%d%%: Checks: %d, Failures: %d, Errors: 0\n' $((failed ? 0 : 100)) $passed $failed
[ $failed -eq 0 ]
