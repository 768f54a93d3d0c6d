# A mistyped command, option, attribute, operator, schedule or parameter is refused with the word that was meant.
refused() { # MEANT ARGUMENTS...
	meant=$1
	shift
	code=0
	"$orrery" "$@" >out 2>err || code=$?
	[ $code -eq 2 ] && [ ! -s out ] && [ "$(wc -l <err)" -eq 1 ] && grep -qF "did you mean $meant?" err ||
		{ echo "orrery $*: exit code $code: $(cat err)"; exit 1; }
}

refused simulate simulat chain:4
refused --workers simulate chain:4 --num-workers 4
refused --workers compare chain:4 --pp=4
refused --microbatches simulate chain:4 --micro_batches 4
refused 1f1b simulate chain:4 -s 1f2b
refused v-zb simulate chain:4 -s zbvv
refused order simulate chain:4 -s lpp:ordr=breadth
refused breadth simulate chain:4 -s lpp:order=bredth
refused vertical simulate chain:4 -s pipedream --sync vertcal
echo 'digraph { a [forwrad=1] }' >a.dot
refused forward show a.dot
echo 'digraph { a [forward=1 bakward=2] }' >b.dot
refused backward show b.dot
echo 'digraph { a [op=liner features=3] }' >c.dot
refused linear show c.dot
echo 'digraph { dta="x.csv"; a [forward=1] }' >d.dot
refused data show d.dot
needs_training
refused sgd train "$source/graphs/digits.dot" --optimizer sdg
refused cuda train "$source/graphs/digits.dot" --device gpu
