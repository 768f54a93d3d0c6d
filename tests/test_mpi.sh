#!/bin/sh
# Training across ranks. Usage: test_mpi.sh CHECK ORRERY TEST_MPI_TRAIN SOURCE
#   bits   the bytes that one process writes for some schedules are those of 2, 3 and 4 ranks, and what crosses is what
#          the simulator derives, of every rank and kind
#   all    the same for every schedule
#   pairs  the same of a model whose loss reads the whole minibatch
#   kill   a rank that is killed, stopped, or that does not start, ends all of them in time, with a message that says which
#   resume a run goes on from its checkpoint, past one that is damaged, on another number of ranks, to the same parameters;
#          no rank holds more of the data than the columns that its stages read
#   stops  a signal to one rank, and what is not finite on one, stops all of them at the same step; a checkpoint is written
#          at the one, and never of the other
#   refuse what is wrong is said once, whichever ranks see it, with exit code 2; and what is no training is done once
#   links  what is measured between every two ranks is what simulate takes, and no more than the wire can carry
#   bound  ranks that mpirun has bound to a core each keep to it, instead of all to the first
#   measures  of several ranks on a host one measures it, before StarPU starts anywhere, and the others take that; no two
#          processes do so at a time, and what one left empty is measured again
# Exit code 77: there is no mpirun, or the build has no MPI.
check=$1 orrery=$(realpath "$2") train=$(realpath "$3") source=$4
# shellcheck source=tests/mpi.sh
. "$source/tests/mpi.sh"

# bits WORKERS MICROBATCHES BATCH FROZEN RANKS [SCHEDULE...], of $model
model=
bits() {
	sizes="$1 $2 $3" frozen=$4 counts=$5
	shift 5
	# shellcheck disable=SC2086
	"$train" $model "$work/alone" $sizes "$frozen" "$@" >"$work/names" || fail "$sizes $*: one process"
	for n in $counts; do
		# shellcheck disable=SC2086
		ranks "$n" "$train" $model "$work/ranks" $sizes "$frozen" "$@" >"$work/log" 2>&1 ||
			fail "$sizes on $n ranks: $(grep -a FAILED "$work/log" | head -n 5)"
		cmp "$work/alone" "$work/ranks" || fail "$sizes on $n ranks differ"
	done
	printf '%s schedules, %s, on %s ranks\n' "$(wc -l <"$work/names")" "$sizes" "$counts"
}

# find_rank RANK MARK: its process, by a word of its command line, once it is there; slow machines take their time
find_rank() {
	for _ in $(seq 600); do
		for pid in $(pgrep -f "^$orrery train .*$2"); do
			tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -qx "OMPI_COMM_WORLD_RANK=$1" && echo "$pid" && return
		done
		sleep 0.1
	done
}

# hurt SIGNAL RANK SECONDS: what a rank that gets the signal, so long after the first checkpoint, leads to. 30 s are promised;
# where many programs run at once it may take longer.
hurt() {
	mark=$work/$1-$2-$3.svg err=$work/$1-$2-$3.err
	(cd "$source" && ranks 3 "$orrery" train graphs/digits.dot -w 4 -m 8 --steps 1000000 \
		--svg "$mark" --checkpoint "$mark.steps" --every 50 >/dev/null 2>"$err") &
	job=$!
	victim=$(find_rank "$2" "$mark")
	until [ -n "$(find "$mark.steps" -maxdepth 1 -name 'step-*' 2>/dev/null)" ]; do
		kill -0 $job 2>/dev/null || break
		sleep 0.1
	done
	sleep "$3"
	if ! kill "-$1" "$victim"; then
		fail "no rank $2: $(cat "$err")"
		kill "$job"
		return
	fi
	begin=$(date +%s)
	wait "$job"
	case $? in
	0) fail "signal $1 to rank $2: exit code 0" ;;
	124) fail "signal $1 to rank $2: the others hang" ;; # of timeout
	esac
	lasted=$(($(date +%s) - begin))
	[ "$(grep -cE "rank $2( with PID| hangs)" "$err")" -eq 1 ] ||
		fail "signal $1 to rank $2: no message, or several: $(cat "$err")"
	[ "$1" != KILL ] ||
		[ "$(grep -cx "orrery: rank $2 is gone: mpirun ends the others, and it has said nothing since" "$err")" -eq 1 ] ||
		fail "rank $2 was killed: no other rank says so: $(cat "$err")"
	pgrep -f "^$orrery train .*$mark" >/dev/null && fail "signal $1 to rank $2: a rank goes on"
	printf 'signal %s to rank %s: all ended after %s s\n' "$1" "$2" "$lasted"
}

# signalled RANK SIGNAL STATUS: sent once training goes on; the checkpoint is of the step that the line says, and goes on to
# what an undisturbed training comes to
signalled() {
	rm -rf "$work/stopped"
	(cd "$source" && ranks 3 "$orrery" train graphs/digits.dot -w 3 -m 6 --steps 20000 --every 7 \
		--checkpoint "$work/stopped" --loss "$work/stopped.csv" >"$work/out" 2>"$work/err") &
	job=$!
	victim=$(find_rank "$1" "$work/stopped")
	until [ -n "$(find "$work/stopped" -maxdepth 1 -name 'step-*' 2>/dev/null)" ]; do
		kill -0 $job || break
		sleep 0.1
	done
	kill "-$2" "$victim"
	wait "$job"
	code=$?
	step=$(sed -n "s/^orrery: SIG$2: stopped after step \\([0-9]*\\) of 20000; .* --resume goes on from there\$/\\1/p" "$work/err")
	[ $code -eq "$3" ] && [ ! -s "$work/out" ] && [ "$(grep -c '^orrery: ' "$work/err")" -eq 1 ] && [ -n "$step" ] ||
		fail "SIG$2 to rank $1: exit code $code: $(cat "$work/out" "$work/err")"
	[ -d "$work/stopped/step-$(printf %08d "$step")" ] || fail "step $step: $(ls "$work/stopped")"
	[ "$(tail -n 1 "$work/stopped.csv" | cut -d, -f1)" = "$step" ] || fail "--loss ends with another step than $step"
	end=$((step + 5))
	(cd "$source" && ranks 2 "$orrery" train graphs/digits.dot -w 3 -m 6 --steps $end --every 7 --resume \
		--checkpoint "$work/stopped" >"$work/out" 2>"$work/err") || fail "does not go on: $(cat "$work/err")"
	rm -rf "$work/calm"
	"$orrery" train "$source/graphs/digits.dot" -w 3 -m 6 --steps $end --every $end --checkpoint "$work/calm" \
		>/dev/null 2>"$work/err" || fail "undisturbed: $(cat "$work/err")"
	same_tensors "$work/calm" "$work/stopped" || fail "SIG$2 to rank $1: the parameters differ"
}

# wild COUNT OPTION...: of a training on data with one wild number, as JSON; or its line
wild() {
	count=$1
	shift
	(cd "$source" && ranks "$count" "$orrery" train graphs/digits.dot --data "$work/wild.csv" -w 4 -m 8 --json "$@")
}

# diverge SCHEDULE: on 3 ranks it stops where one process stops, and leaves out what that leaves out
diverge() {
	for count in 1 3; do
		rm -rf "$work/d$count"
		wild $count --schedule "$1" --every 1 --checkpoint "$work/d$count" --steps 20 >"$work/out" 2>"$work/err"
		code=$?
		[ $code -eq 1 ] && [ ! -s "$work/out" ] && [ "$(grep -c '^orrery: ' "$work/err")" -eq 1 ] ||
			fail "$1 on $count ranks: exit code $code: $(cat "$work/out" "$work/err")"
		grep '^orrery: training diverged in step [0-9]*: .*' "$work/err" >"$work/line$count" ||
			fail "$1 on $count ranks: $(cat "$work/err")"
		rm -rf "$work/s$count"
		wild $count --schedule "$1" --on-nan skip --checkpoint "$work/s$count" --steps 20 >"$work/out" 2>"$work/err" ||
			fail "$1 on $count ranks: $(cat "$work/err")"
		grep '"skipped_steps": [1-9]' "$work/out" >"$work/skipped$count" || fail "$1 on $count ranks leaves nothing out"
	done
	cmp "$work/line1" "$work/line3" || fail "$1: $(cat "$work/line1" "$work/line3")"
	cmp "$work/skipped1" "$work/skipped3" || fail "$1: not the same steps are left out"
	same_tensors "$work/d1" "$work/d3" || fail "$1: another checkpoint is kept"
	same_tensors "$work/s1" "$work/s3" || fail "$1: the parameters differ where a step was left out"
}

# refuse TEXT ARGUMENT...: exit code 2, one line with that text, nothing on standard output
refuse() {
	text=$1
	shift
	(cd "$source" && ranks 3 "$orrery" "$@" -w 4 -m 8 --steps 2) >"$work/out" 2>"$work/err"
	code=$?
	[ $code -eq 2 ] && [ ! -s "$work/out" ] && [ "$(grep -c '^orrery: ' "$work/err")" -eq 1 ] &&
		grep -qF -- "$text" "$work/err" || fail "$*: exit code $code: $(cat "$work/out" "$work/err")"
}

# differ TEXT OPTION OPTION: two ranks that were not given the same
differ() {
	# shellcheck disable=SC2016,SC2086
	(cd "$source" && ranks 2 sh -c 'shift "$OMPI_COMM_WORLD_RANK"; exec $1' 0 \
		"$orrery train $2 -w 2" "$orrery train $3 -w 2") >"$work/out" 2>"$work/err"
	code=$?
	[ $code -eq 2 ] && [ "$(grep -c '^orrery: ' "$work/err")" -eq 1 ] && grep -qF -- "$1" "$work/err" ||
		fail "$2 and $3: exit code $code: $(cat "$work/err")"
}

# once: a command that neither trains nor measures links is for one process; the others leave it to rank 0
once() {
	for arguments in 'show graphs/digits.dot' 'simulate chain:4 -m 8' 'train --help' '--help'; do
		# shellcheck disable=SC2086
		(cd "$source" && "$orrery" $arguments >"$work/one" && ranks 3 "$orrery" $arguments >"$work/three") 2>"$work/err" ||
			fail "$arguments: $(cat "$work/err")"
		cmp -s "$work/one" "$work/three" || fail "$arguments on 3 ranks: $(cat "$work/three")"
	done
	(cd "$source" && ranks 2 "$orrery" train graphs/digits.dot --ranks-workers 3,1 --steps 1) >"$work/out" 2>"$work/err"
	grep -qF '6 stages on 4 workers' "$work/out" || fail "--ranks-workers 3,1 are no 4 workers: $(cat "$work/out" "$work/err")"
	(cd "$source" && ranks 3 "$orrery" profile graphs/digits.dot) >"$work/out" 2>"$work/err"
	[ $? -eq 2 ] && [ ! -s "$work/out" ] && [ "$(grep '^orrery: ' "$work/err")" = 'orrery: one process measures GRAPH, with all its workers: leave out mpirun, or measure the links between ranks with --links' ] || fail "profile: $(cat "$work/out" "$work/err")"
}

# late: a rank that does not even start
late() {
	begin=$(date +%s)
	# shellcheck disable=SC2016
	(cd "$source" && ranks 3 sh -c '[ "$OMPI_COMM_WORLD_RANK" -ne 1 ] || sleep 120; exec "$@"' late \
		"$orrery" train graphs/digits.dot --steps 1) >/dev/null 2>"$work/late" && fail 'a rank is late: exit code 0'
	lasted=$(($(date +%s) - begin))
	[ "$lasted" -le 60 ] || fail "a rank is late: $lasted s until all ended"
	# two of them, where the machine itself stood still
	grep -q '^orrery: rank [02] has waited 25 s for the others to start' "$work/late" ||
		fail "a rank is late: $(cat "$work/late")"
}

# limited: the same on a wire of 1 Gbit/s, of which bursts of 200 kB are free; where such a wire can be had
limited() {
	unshare -n sh -c 'ip link set lo up && tc qdisc add dev lo root tbf rate 1gbit burst 200kb latency 500ms &&
		exec timeout 60 "$@"' limited mpirun --oversubscribe -n 2 --mca btl tcp,self --mca btl_tcp_if_include lo \
		"$orrery" profile --links --json >"$work/out" 2>"$work/err" || {
		echo 'SKIP: no network namespace, or no tc: a slow wire was not tried'
		return
	}
	awk '/"bandwidth"/ { sub(/.*: /, ""); n++; if (!($0 + 0 > 1e6 && $0 + 0 < 1.32e8)) exit 1 } END { exit n != 2 }' \
		"$work/out" || fail "on a wire of 125 MB/s: $(cat "$work/out")"
}

# bound: rank k is on core k, where mpirun can see to that
bound() {
	mpirun -n 2 --bind-to core true >/dev/null 2>&1 || {
		echo 'SKIP: mpirun has not two cores, or cannot bind to them'
		exit 77
	}
	(cd "$source" && mpirun -n 2 --bind-to core "$orrery" train graphs/digits.dot --steps 2) >"$work/out" 2>"$work/err"
	[ "$(grep -cE '^CPU 0 of rank ([01]), core \1, .*: worker \1$' "$work/out")" -eq 2 ] ||
		fail "bound to cores: $(grep '^CPU' "$work/out") $(head -n 5 "$work/err")"
}

case $check in
links)
	ranks 3 "$orrery" profile --links --json >"$work/out" 2>"$work/err" || fail "$(cat "$work/err")"
	[ "$(tr -d ' \n' <"$work/out" | grep -o '"ranks":\[[0-9,]*\]' | tr '\n' ' ')" = \
		'"ranks":[0,1] "ranks":[0,2] "ranks":[1,2] ' ] || fail "not every pair: $(cat "$work/out")"
	awk '/"(latency|bandwidth)"/ { sub(/.*: /, ""); n++; if (!($0 + 0 > 0)) exit 1 } END { exit n != 8 }' "$work/out" ||
		fail "not above 0: $(cat "$work/out")"
	ranks 2 "$orrery" profile --links >"$work/out" 2>"$work/err" || fail "$(cat "$work/err")"
	options=$(sed -n 's/^The slowest, for simulate: //p' "$work/out")
	# shellcheck disable=SC2086
	[ "$(echo $options | wc -w)" -eq 4 ] && "$orrery" simulate chain:4 --costs 1ms,2ms --activation 1MB $options >"$work/out" ||
		fail "simulate does not take '$options'"
	"$orrery" profile --links >"$work/out" 2>"$work/err"
	[ $? -eq 2 ] && grep -q '^orrery: links are between ranks, and this is one' "$work/err" ||
		fail "one rank: $(cat "$work/out" "$work/err")"
	limited
	;;
refuse)
	refuse "'--bogus' is no option" train graphs/digits.dot --bogus
	refuse '--lr' train graphs/digits.dot --lr much
	refuse 'cannot open it' train graphs/digits.dot --data "$work/none.csv"
	# only the rank with the last stage holds the digit
	sed '$s/[0-9]*$/10/' "$source/graphs/data/digits.csv" >"$work/eleven.csv"
	refuse 'has class 10 in digit' train graphs/digits.dot --data "$work/eleven.csv"
	refuse 'memory' train graphs/digits.dot --memory 100kB
	digits=graphs/digits.dot
	differ 'do not have the same options' "$digits --seed 1" "$digits --seed 2"
	differ 'do not have the same schedule' "$digits --schedule gpipe" "$digits --schedule 1f1b"
	# models that read the same data in another way
	data="--data graphs/data/digits.csv"
	sed 's/scale=0.0625/scale=0.125/' "$source/$digits" >"$work/scale.dot"
	differ 'do not have the same model' "$digits $data" "$work/scale.dot $data"
	sed 's/columns="0:4,/columns="1:5,/' "$source/$digits" >"$work/columns.dot"
	differ 'do not have the same model' "$digits $data" "$work/columns.dot $data"
	once
	;;
stops)
	signalled 1 TERM 143
	signalled 0 INT 130
	# a row of the training set, whichever that is
	awk -F, -v OFS=, 'NR == 103 { $3 = "3e38" } 1' "$source/graphs/data/digits.csv" >"$work/wild.csv"
	diverge 1f1b
	diverge fsdp
	;;
bound)
	bound
	;;
bits)
	bits 4 8 24 '' '2 3' ddp fsdp fslpp v-half
	bits 4 8 24 '' '4' ddp fsdp gpipe lpp:G=2,R=2 fslpp:G=2,R=2 1f1b v-half
	bits 4 8 27 '' '4' ddp fsdp gpipe lpp:G=2,R=2 fslpp:G=2,R=2 1f1b v-half
	bits 5 8 19 '' '3' lpp:G=5,R=1 1f1b
	bits 8 8 19 '' '3' gems chimera
	# a tower, a part of a stage, and a stage in the middle of the chain, under a schedule of each kind
	bits 4 8 24 ' r1 t2 t4 ' '4' 1f1b 1f1b-r interleaved hanayo zb-2p dualpipe-v ddp lpp:G=2,R=2 fslpp:G=2,R=2
	bits 8 8 24 ' r1 t2 t4 ' '8' 1f1b zb-h1
	;;
pairs)
	model=-pairs
	bits 4 6 24 '' '2 3 4' gpipe auto:effort=0
	bits 4 6 27 '' '4' gpipe
	bits 4 2 24 '' '4' 1f1b zb-h1 zb-2p
	# a tower, and all but the temperature and the other loss
	bits 4 6 24 ' l1 l3 ' '3 4' gpipe
	bits 4 6 24 ' l1 l3 r1 ' '4' gpipe
	;;
all)
	bits 4 8 24 '' '2 3 4'
	bits 4 8 24 ' l1 r1 t1 t5 ' '2 3 4'
	bits 4 8 24 ' r1 t2 t4 ' '4'
	;;
kill)
	waiting= # what is mostly that
	for test in late 'hurt STOP 1 1' 'hurt STOP 0 1'; do
		(failed=0 && $test && exit $failed) &
		waiting="$waiting $!"
	done
	hurt KILL 1 0.7
	hurt KILL 0 0.3
	hurt KILL 2 1.5
	for test in $waiting; do
		wait "$test" || failed=1
	done
	;;
measures)
	# two memories, so that there is something to measure, and no two measurements are the same
	export STARPU_HOME="$work/home" STARPU_HOSTNAME=here STARPU_USE_NUMA=1
	export HWLOC_SYNTHETIC='pack:2 [numa(memory=1GB)] core:1 pu:1'
	unset XDG_CACHE_HOME STARPU_PERF_MODEL_DIR HWLOC_COMPONENTS
	cd "$source" || exit 1
	for again in first again; do
		ranks 3 "$orrery" train graphs/digits.dot -w 3 --steps 1 >/dev/null 2>"$work/log" || fail "$again: $(cat "$work/log")"
		for file in "$work"/home/.starpu/sampling/bus/here-rank-0-of-3.*; do
			cp "$file" "$work/$again.${file##*of-3.}"
			cmp "$work/first.${file##*of-3.}" "$work/$again.${file##*of-3.}" || fail "$again: measured again"
			for rank in 1 2; do
				cmp "$file" "$(echo "$file" | sed "s/rank-0/rank-$rank/")" || fail "$again: rank $rank measured, too"
			done
		done
	done
	[ -s "$work/first.bandwidth" ] && [ -s "$work/first.config" ] || fail 'nothing was measured'
	# what a process leaves that is killed as it writes
	bus=$work/home/.starpu/sampling/bus
	"$orrery" train graphs/digits.dot --steps 1 >/dev/null 2>"$work/log" || fail "alone: $(cat "$work/log")"
	for name in here-rank-0-of-3 here-rank-2-of-3 here; do
		: >"$bus/$name.config"
	done
	ranks 3 "$orrery" train graphs/digits.dot -w 3 --steps 1 >/dev/null 2>"$work/log" || fail "empty: $(cat "$work/log")"
	"$orrery" train graphs/digits.dot --steps 1 >/dev/null 2>"$work/log" || fail "empty, alone: $(cat "$work/log")"
	for name in here-rank-0-of-3 here-rank-2-of-3 here; do
		[ -s "$bus/$name.config" ] || fail "$name.config stayed empty"
	done
	# another that measures is waited for
	rm "$bus"/here.*
	timeout 60 flock "$work/home" sh -c ': >"$0.held" && sleep 2 && ls "$1"' "$work/lock" "$bus" >"$work/seen" &
	until [ -e "$work/lock.held" ]; do sleep 0.05; done
	"$orrery" train graphs/digits.dot --steps 1 >/dev/null 2>"$work/log" || fail "waits: $(cat "$work/log")"
	wait $!
	[ -s "$bus/here.config" ] || fail 'nothing was measured after a wait'
	! grep -qx 'here\..*' "$work/seen" || fail 'measured beside another that does'
	;;
resume)
	cd "$source" || exit 1
	# the stages are 0 and 4, 1 and 5, 2, 3: a quadrant of the image each, and with stage 5 the digit
	rows=$(grep -c . graphs/data/digits.csv)
	expected="$((rows * 64)) $((rows * 68)) $((rows * 64)) $((rows * 64)) "
	set -- train graphs/digits.dot -w 4 -m 8 --steps 12 --json
	ranks 4 "$orrery" "$@" --checkpoint "$work/whole" >"$work/whole.json" 2>"$work/log" || fail "$(cat "$work/log")"
	held=$(sed -n 's/.*"data_bytes": \([0-9]*\).*/\1/p' "$work/whole.json" | tr '\n' ' ')
	[ "$held" = "$expected" ] || fail "the ranks hold $held bytes of data, not $expected"
	set -- train graphs/digits.dot -w 4 -m 8 --json --every 3 --checkpoint "$work/parts"
	ranks 3 "$orrery" "$@" --steps 6 >/dev/null 2>"$work/log" || fail "$(cat "$work/log")"
	# of the newest, the second rank reads this shard through, and the first has only looked at its size
	printf x | dd of="$work/parts/step-00000006/shard-1.safetensors" bs=1 seek=5000 conv=notrunc 2>/dev/null
	ranks 2 "$orrery" "$@" --steps 12 --resume >"$work/parts.json" 2>"$work/log" || fail "$(cat "$work/log")"
	[ "$(grep -c 'step-00000006/shard-1.safetensors: is damaged.*; the one before it is tried$' "$work/log")" = 1 ] ||
		fail "a shard is damaged: $(cat "$work/log")"
	a=$(grep '"loss"' "$work/whole.json") b=$(grep '"loss"' "$work/parts.json")
	[ -n "$a" ] && [ "$a" = "$b" ] || fail "resumed on other ranks: $b instead of $a"
	same_tensors "$work/whole" "$work/parts" || fail 'resumed on other ranks: the parameters differ'
	;;
esac
exit $failed
