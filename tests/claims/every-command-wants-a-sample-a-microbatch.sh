# Fewer samples than microbatches are refused by every command in the same words; a batch that is no multiple is said.
words='orrery: --batch 96 is less than a sample for each of -m 97 microbatches: raise --batch or lower -m'
refuses() { # ARGUMENTS...
	code=0
	"$orrery" "$@" >out 2>err || code=$?
	[ $code -eq 2 ] && grep -qxF -- "$words" err || { echo "orrery $*: $code"; cat err; exit 1; }
}

digits=$source/graphs/digits.dot
refuses simulate "$digits" -m 97
refuses compare "$digits" -m 97
refuses compare "$digits" -m 8,97
refuses plan "$digits" -w 2 -m 97
"$orrery" simulate "$digits" -m 97 --batch 97 >out
"$orrery" simulate chain:4 -m 97 >out # its costs are of no samples
"$orrery" simulate "$digits" -m 7 >out
grep -qxF 'samples: 96 in 7 microbatches: train gives 5 of them 14, the others 13; here all have 14' out
"$orrery" simulate "$digits" -m 8 >out
if grep -q '^samples:' out; then exit 1; fi
code=0
"$orrery" simulate "$digits" -m 7 --schedule pipedream 2>err || code=$?
[ $code -eq 2 ]
grep -qF -- '--batch 96 is no multiple of -m 7' err
needs_training
refuses train "$digits" -m 97
