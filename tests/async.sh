# Shared by the tests of asynchronous trainings: trainings that write checkpoints, and their results. Sourced, with $orrery and
# $source set to full paths; $work is a folder of the test's own.
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
passed=0 failed=0

fail() { failed=$((failed + 1)); printf 'FAILED: %s\n' "$*"; }

cp "$source/graphs/data/digits.csv" images.csv || exit 1
cat >model.dot <<END
digraph {
	data="images.csv"
	x [op=input columns="0:64" scale=0.0625]
	a [op=linear features=24]
	b [op=relu]
	c [op=linear features=24]
	d [op=gelu]
	norm [op=layernorm]
	scores [op=linear features=10]
	digit [op=input columns="64"]
	loss [op=softmax_cross_entropy]
	x -> a -> b -> c -> d -> norm -> scores -> loss
	digit -> loss
}
END

steps=240

# options WAY: 12 updates from one checkpoint to the next are no whole rounds
options() {
	printf '%s' "--batch 48 -m 8 --steps $steps --every 12 --keep 2 "
	case $1 in
	stashing) echo --stages 3 -w 3 --schedule pipedream ;;
	vertical) echo --stages 3 -w 3 --schedule pipedream --sync vertical ;;
	replicas) echo --stages 2 -w 3 --schedule pipedream:replicas=2-1 ;;
	esac
}

# (train WAY FOLDER [OPTION...]): takes the shell's place
train() {
	stream=$1 folder=$2
	shift 2
	# shellcheck disable=SC2046
	exec "$orrery" train model.dot $(options "$stream") --checkpoint "$folder" "$@"
}

# What it came to: the bits of the test loss, which every parameter is in.
loss() { grep '"loss"' "$1"; }
resume() { find "$1" -maxdepth 1 -name 'step-*' 2>/dev/null | grep -q . && echo --resume; }
