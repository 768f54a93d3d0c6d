# Where a cut into --stages leaves a worker with less than half of the mean work, simulate says so and names plan.
cat >embedding.dot <<'END'
digraph {
	e [forward="1ms" backward="1ms"]
	a [forward="50ms" backward="100ms"]
	b [forward="50ms" backward="100ms"]
	c [forward="50ms" backward="100ms"]
	d [forward="50ms" backward="100ms"]
	f [forward="50ms" backward="100ms"]
	e -> d
	a -> b -> c -> d -> f
}
END
"$orrery" simulate embedding.dot --stages 5 >out
grep -q '^uneven: worker . is busy for 16 ms, and the mean is .*orrery plan' out
"$orrery" simulate chain:8 --stages 4 >even
if grep -q '^uneven' even; then exit 1; fi
"$orrery" simulate embedding.dot >given
if grep -q '^uneven' given; then exit 1; fi
