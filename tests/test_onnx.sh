#!/bin/bash
# Models in ONNX with their weights: they begin with the losses that ONNX's own evaluator gives, as themselves, as the DOT that
# `show` writes, and with a loss that was added to it; they train, and resume; weights that are missing or damaged are refused in
# one line with exit code 2. Usage: test_onnx.sh ORRERY SOURCE
orrery=$(realpath "$1") source=$(realpath "$2")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
cp "$source"/tests/onnx/*.onnx "$source"/tests/onnx/numbers.bin . || exit 1
passed=0 failed=0

pass() { passed=$((passed + 1)); }
fail() { failed=1; printf 'FAILED: %s\n' "$*"; }
train() { "$orrery" train "$@" --data "$source/graphs/data/digits.csv" --json >out 2>err; }
loss() { sed -n 's/^  "loss": \([0-9.e-]*\).*/\1/p' out; }
near() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && b != "" && a - b < 2e-5 && b - a < 2e-5) }'; }
wanted() { sed -n "s/^$1 //p" "$source/tests/onnx/losses"; }

# begins NAME GRAPH OPTION...: with the loss of tests/onnx/losses
begins() {
	name=$1
	shift
	train "$@" --steps 0 || { fail "$*: $(cat err)"; return; }
	if near "$(loss)" "$(wanted "$name")"; then pass; else fail "$*: loss $(loss), not $(wanted "$name")"; fi
}

# refused TEXT GRAPH OPTION...
refused() {
	text=$1 code=0
	shift
	train "$@" --steps 0 || code=$?
	grep '^orrery: ' err >lines
	if [ $code -eq 2 ] && grep -qF -- "$text" lines && [ "$(wc -l <lines)" -eq 1 ]; then pass; else fail "$*: exit code $code: $(cat err)"; fi
}

for name in numbers decoder written; do
	begins $name $name.onnx
	grep -qF "begins with the weights of $name.onnx" err && pass || fail "$name: does not say whose weights it begins with"
	"$orrery" show $name.onnx --dot >$name.dot
	begins $name $name.dot --init $name.onnx
	train $name.onnx --steps 60 --save-weights $name.safetensors || fail "$name: $(cat err)"
	after=$(loss)
	awk -v a="$after" -v b="$(wanted $name)" 'BEGIN { exit !(a < b - 0.1) }' && pass || fail "$name: 60 steps end at $after"
	train $name.onnx --init $name.safetensors --steps 0
	[ "$(loss)" = "$after" ] && pass || fail "$name: its weights of after 60 steps give $(loss), not $after"
	# a resumed training goes on from its checkpoint, not from the file
	train $name.onnx --steps 30 --checkpoint $name.run && train $name.onnx --steps 60 --checkpoint $name.run --resume
	[ "$(loss)" = "$after" ] && ! grep -q 'begins with' err && pass || fail "$name: resumed it ends at $(loss), not $after"
done

# a loss added by hand, as the page on graphs has it
"$orrery" show inference.onnx --dot >mine.dot
sed -i -e 's/"scores" \[op=opaque.*/"scores" [op=softmax_cross_entropy];/' -e '$i y [op=input, columns=64]; y -> "scores";' mine.dot
begins inference mine.dot --init inference.onnx
refused 'scores (an output: it needs a loss) is opaque' inference.onnx

# from elsewhere, and with a model that is another
refused 'lacks 13 of the model' decoder.onnx --init inference.onnx
train decoder.onnx --init inference.onnx --init-partly --steps 0 && pass || fail "--init-partly: $(cat err)"
refused 'weights w1 lie in weights.bin beside it: No such file' mlp.onnx
mkdir apart && cp numbers.onnx apart
refused 'No such file or directory: put that file there' apart/numbers.onnx
ln -s ../numbers.bin apart/numbers.bin
refused 'not in the folder of the model: put that file there' apart/numbers.onnx
rm apart/numbers.bin && mkdir apart/numbers.bin
refused 'a directory' apart/numbers.onnx
rmdir apart/numbers.bin && mkfifo apart/numbers.bin
refused 'no file but a FIFO or a device' apart/numbers.onnx
rm apart/numbers.bin && cp numbers.bin apart/kept && ln -s kept apart/numbers.bin
train apart/numbers.onnx --steps 0 && near "$(loss)" "$(wanted numbers)" && pass || fail "a link inside: $(cat err)"
rm apart/numbers.bin && head -c 900 numbers.bin >apart/numbers.bin
refused 'beyond the end of the file beside it' apart/numbers.onnx
cp numbers.bin bers.bin
ln -s /etc apart/dl
for name in ../bers.bin /etc/passwd dl/./passwd; do
	LC_ALL=C sed "s,numbers.bin,$name," numbers.onnx >apart/other.onnx
	refused 'not in the folder of the model: put that file there' apart/other.onnx
done
LC_ALL=C sed 's/offset/ofFset/' numbers.onnx >apart/other.onnx # other numbers, and no harm
cp numbers.bin apart && train apart/other.onnx --steps 0 && ! near "$(loss)" "$(wanted numbers)" && pass || fail "offset: $(cat err)"
printf '%d passed\n' $passed
[ $passed -eq 33 ] || fail "$passed of 33"
exit $failed
