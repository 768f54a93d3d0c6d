# Where sizes or links are missing, simulate and plan say what was not tested, and a memory needs a unit.
says() { # LINE ARGUMENTS...
	line=$1
	shift
	"$orrery" "$@" >out
	grep -qxF "$line" out || { echo "orrery $*: no line '$line'"; exit 1; }
}

says 'not tested: memory, links (no operator has a size)' simulate chain:4 --memory 16GB --bandwidth 1GB/s
says 'not tested: stashes in memory (no operator has a stash); activations on links (no operator has an activation)' \
	simulate chain:4 --memory 16GB --bandwidth 1GB/s --parameters 1GB
says 'not tested: all-reduce (no operator has a size)' simulate chain:4 --schedule ddp
says 'not tested: all-gather (links are free)' simulate chain:4 --schedule fsdp --parameters 1GB
says 'not tested: all-reduce (no operator has a size)' plan towers:1,1/2 -w 8 -m 8 --costs 1,2
"$orrery" simulate chain:4 --memory 16GB --bandwidth 1GB/s --stash 1GB --parameters 1GB --activation 1MB >out
if grep -q 'not tested' out; then exit 1; fi
"$orrery" simulate chain:4 >out
if grep -q 'not tested' out; then exit 1; fi
"$orrery" simulate chain:4 --memory 16GB --json >json
python3 -c "import json; assert json.load(open('json'))['not_tested'] == ['memory']"
code=0
"$orrery" simulate chain:4 --memory 16 2>err || code=$?
[ $code -eq 2 ]
grep -q 'say 16GB' err
"$orrery" simulate chain:4 --memory 16B >/dev/null
