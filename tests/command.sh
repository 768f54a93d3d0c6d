# What the tests of the command share. Sourced, with $orrery set to a full path; $work is a folder of the test's own.
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

pass() { passed=$((passed + 1)); }
fail() { failed=$((failed + 1)); printf 'FAILED: %s\n' "$*"; }

# refuse TEXT ARGUMENTS...: exit code 2, nothing on standard output, one line that contains TEXT
refuse() {
	text=$1
	shift
	"$orrery" "$@" >"$work/out" 2>"$work/err" </dev/null
	code=$?
	sed -i '/^[a-z]*: [0-9]* s\(, .*\)*$/d' "$work/err" # that it takes a while
	if [ $code -ne 2 ]; then
		fail "orrery $*: exit code $code instead of 2: $(cat "$work/err")"
	elif [ -s "$work/out" ]; then
		fail "orrery $*: wrote to standard output"
	elif [ "$(wc -l <"$work/err")" -ne 1 ]; then
		fail "orrery $*: not one line: $(cat "$work/err")"
	elif ! grep -qF -- "$text" "$work/err"; then
		fail "orrery $*: '$text' is not in: $(cat "$work/err")"
	else
		pass
	fi
}

# accept TEXT ARGUMENTS...: exit code 0, TEXT on standard output, nothing but progress on standard error
accept() {
	text=$1
	shift
	if ! "$orrery" "$@" >"$work/out" 2>"$work/err" </dev/null; then
		fail "orrery $*: $(cat "$work/err")"
	elif grep -v -e '^step ' -e '^search: ' -e '^found no CUDA device: ' -e '^bf16: this processor (.*) does not multiply it; ' \
		-e ': [0-9]* of [0-9]*$' -e '^[a-z]*: [0-9]* s\(, .*\)*$' "$work/err" | grep -q .; then
		fail "orrery $*: on standard error: $(cat "$work/err")"
	elif ! grep -qF -- "$text" "$work/out"; then
		fail "orrery $*: '$text' is not in the output"
	else
		pass
	fi
}

# finish: how many checks passed, as Check says it
finish() {
	total=$((passed + failed))
	printf '%d%%: Checks: %d, Failures: %d, Errors: 0\n' $((100 * passed / total)) $total "$failed"
	exit $((failed > 0))
}
