# shellcheck shell=bash
# Sourced by the other scripts here: what to say, how to fail, what to install, where StarPU 1.4 lies.

[ -n "${tree:-}" ] || { echo 'setup.sh: the script that sources this sets tree' >&2; exit 1; }

say() { printf '==> %s\n' "$*"; }

# fail WHAT HOW_TO_GO_ON
fail() {
	printf '\nFailed: %s\nHow to go on: %s\n' "$1" "$2" >&2
	exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }
have_library() { pkg-config --exists "$1" 2>/dev/null; }

# step WHAT HOW_TO_GO_ON COMMAND...: runs it with its output in a log, and shows the log's end where it fails.
step() {
	local what=$1 cure=$2 log
	shift 2
	say "$what"
	mkdir -p "$tree/build-logs"
	log=$tree/build-logs/$(printf '%s' "$what" | tr -cs 'a-zA-Z0-9.\n' '-' | cut -c1-60).log
	if ! "$@" >"$log" 2>&1 </dev/null; then
		tail -n 25 "$log" >&2
		fail "$what" "$cure The whole log: $log"
	fi
}

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	else
		sudo "$@"
	fi
}

# Installing needs apt, and root or sudo (without a terminal: a sudo that asks nothing).
can_install() {
	have apt-get || return 1
	[ "$(id -u)" -eq 0 ] && return 0
	have sudo || return 1
	[ -t 0 ] || sudo -n true 2>/dev/null
}

# Waits for another that installs.
apt_install() {
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=900 install -y -q --no-install-recommends "$@"
}

# Once per script, and only where something has to be installed.
apt_update() {
	[ -z "${apt_is_fresh:-}" ] || return 0
	apt_is_fresh=yes
	# sudo may ask for a password, which a step with its output in a log would hide.
	[ "$(id -u)" -eq 0 ] || { [ -t 0 ] && sudo -v; }
	step 'fetching the list of packages (apt-get update)' \
		'look at the network and at the sources in /etc/apt, then start this again.' \
		as_root apt-get update -q
}

# install_missing [PACKAGE]: those in the array `missing`; who has to do it by hand is told of PACKAGE, too.
install_missing() {
	[ ${#missing[@]} -gt 0 ] || return 0
	can_install || fail "missing: ${missing[*]}" "as root: apt-get install ${missing[*]}${*:+ $*}; then start this again."
	apt_update
	step "installing ${missing[*]}" "try it by hand: apt-get install ${missing[*]}; then start this again." \
		apt_install "${missing[@]}"
}

# try_install PACKAGE...: for what is good to have. False where it cannot be had.
try_install() {
	can_install || return 1
	apt_update
	say "installing $*"
	mkdir -p "$tree/build-logs"
	apt_install "$@" >"$tree/build-logs/optional.log" 2>&1 </dev/null
}

# It has no module for pkg-config.
have_onednn() {
	echo '#include <oneapi/dnnl/dnnl.h>' | gcc -E -o /dev/null - 2>/dev/null
}

# Adds to `missing` the packages that bring what this machine lacks.
find_missing() {
	missing=()
	have gcc && have make && have g++ && echo 'int main(void) { return 0; }' |
		gcc -x c -o /dev/null - 2>/dev/null || missing+=(build-essential)
	have meson || missing+=(meson)
	have ninja || missing+=(ninja-build)
	have pkg-config || missing+=(pkg-config)
	have dot || missing+=(graphviz)
	have_library jansson || missing+=(libjansson-dev)
	have_library libxxhash || missing+=(libxxhash-dev)
	have_onednn || missing+=(libdnnl-dev)
	have_library hwloc || missing+=(libhwloc-dev)
	have_library check || missing+=(check)
	have_library ompi || have_library mpich || missing+=(libopenmpi-dev openmpi-bin)
}

# The prefix of a StarPU 1.4 that build-starpu made, or nothing. ORRERY_STARPU=distribution passes over it.
starpu_prefix() {
	local place noted=
	[ "${ORRERY_STARPU:-}" != distribution ] || return 1
	[ -r "$tree/prefix/starpu.path" ] && noted=$(cat "$tree/prefix/starpu.path")
	for place in "${ORRERY_PREFIX:-}" "$noted" "$tree/prefix/starpu" "$tree/prefix" "${HOME:-}/.local/orrery"; do
		if [ -n "$place" ] && [ -r "$place/lib/pkgconfig/starpu-1.4.pc" ]; then
			printf '%s\n' "$place"
			return 0
		fi
	done
	return 1
}

# Makes pkg-config, and so Meson, find the best StarPU there is: a 1.4 that is known already, a 1.4 that
# build-starpu made, the distribution's.
use_starpu() {
	local place
	if ! have_library starpu-1.4 && place=$(starpu_prefix); then
		export PKG_CONFIG_PATH=$place/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
	fi
	if ! have_library starpu-1.4 && ! have_library starpu-1.3; then
		try_install libstarpu-dev || true
	fi
	if have_library starpu-1.4; then
		say "StarPU $(pkg-config --modversion starpu-1.4) in $(pkg-config --variable=prefix starpu-1.4)"
	elif have_library starpu-1.3; then
		say "StarPU $(pkg-config --modversion starpu-1.3) of the distribution (tools/build-starpu builds 1.4)"
	else
		say 'no StarPU: simulating works, training does not. Install libstarpu-dev or run tools/build-starpu'
	fi
}

# optional WHAT PACKAGE...: good to have; where it cannot be had, WHAT is left out, and a line says so.
optional() {
	local what=$1
	shift
	try_install "$@" || say "SKIP: $what: $* cannot be installed here (build-logs/optional.log, if it was tried)"
}

# ---- PyTorch ----

# A virtual environment with it is several gigabytes, so it lies outside of the tree and is kept; .ci/run makes it.
torch_folder=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/orrery/torch
torch_packages='torch>=2.6 numpy pytest>=8 transformers>=4.50 onnx>=1.16'

# Its `whole` is written last, so one whose making was interrupted has none. What it has was installed for these packages.
torch_is_whole() {
	[ "$(cat "$torch_folder/whole" 2>/dev/null)" = "$torch_packages" ] &&
		"$torch_folder/bin/python" -W ignore -c 'import numpy, onnx, pytest, torch, transformers' >/dev/null 2>&1
}

# The tests' Python is that of the environment where there is one, unless ORR_TORCH_PYTHON names another.
use_torch() {
	[ -z "${ORR_TORCH_PYTHON:-}" ] || return 0
	torch_is_whole || return 1
	export ORR_TORCH_PYTHON=$torch_folder/bin/python
}

make_torch() {
	rm -rf "$torch_folder"
	python3 -m venv "$torch_folder" || { try_install python3-venv && python3 -m venv --clear "$torch_folder"; } || return 1
	# shellcheck disable=SC2086 # a list
	"$torch_folder/bin/python" -m pip install --no-input $torch_packages || return 1
	printf '%s\n' "$torch_packages" >"$torch_folder/whole"
}

# use_torch, and makes the environment anew where it is not whole. False where PyTorch cannot be had.
get_torch() {
	use_torch && return 0
	mkdir -p "$torch_folder" "$tree/build-logs"
	say "installing PyTorch into $torch_folder"
	# one at a time; who waited finds it made
	(
		flock 9
		torch_is_whole || make_torch
	) 9>"$torch_folder.lock" >"$tree/build-logs/torch.log" 2>&1 </dev/null || return 1
	use_torch
}

have_browser() { have chromium || have chromium-browser || have google-chrome; }

set_up() {
	local other='a C compiler, make, meson 1.0, ninja, pkg-config, graphviz, jansson,'
	other+=' xxhash, oneDNN, hwloc, check 0.15, Open MPI and StarPU, each with its headers'

	say 'looking for what the build needs'
	find_missing
	if [ ${#missing[@]} -gt 0 ] && ! have apt-get; then
		fail "missing, under the names that they have in Debian: ${missing[*]}" \
			"install with this system's package manager $other; then start this again."
	fi
	install_missing libstarpu-dev
	case $(meson --version) in
	0.*) fail "Meson $(meson --version) is too old" 'install 1.0 or later (pip install meson), then start this again.' ;;
	esac
	use_starpu
}

# build_tree FOLDER [MESON OPTION]...: configured anew where StarPU, or the options, changed since this script configured
# it; with `any` set, other options serve as well. A folder that somebody configured by hand is compiled as it is; `targets`
# says what of it, else all.
build_tree() {
	local folder=$1 stamp before
	shift
	stamp="${CC:-} $(pkg-config --modversion starpu-1.4 2>/dev/null || true) ${PKG_CONFIG_PATH:-} | $*"
	before=$(cat "$folder/set-up-as" 2>/dev/null || echo "$stamp")
	[ -z "${any:-}" ] || before="${before%|*}| $*"
	if [ ! -f "$folder/build.ninja" ] || [ "$before" != "$stamp" ]; then
		rm -rf "$folder"
		step "configuring $(basename "$folder")${*:+ ($*)}" \
			'what Meson says above names what it lacks.' meson setup "$folder" "$tree" "$@"
		printf '%s\n' "$stamp" >"$folder/set-up-as"
	fi
	# shellcheck disable=SC2086 # a list
	step "compiling $(basename "$folder")" 'the first error above names the file.' ninja -C "$folder" ${targets:-}
}

# with_scratch COMMAND...: with a TMPDIR of its own, gone afterwards; in memory where 4 GiB are free there. Tests write and
# sync thousands of small files, and while ranks that wait keep all cores busy a virtual machine's disk may not answer.
with_scratch() (
	memory=/dev/shm
	room=$(df -Pk $memory 2>/dev/null | awk 'NR == 2 { print $4 }')
	[ "${room:-0}" -ge 4194304 ] && [ -w $memory ] || memory=${TMPDIR:-/tmp}
	scratch=$(mktemp -d "$memory/orrery-tests-XXXXXX")
	trap 'rm -rf "$scratch"' EXIT
	TMPDIR=$scratch "$@"
)

# test_tree FOLDER [MESON TEST OPTION]...: leaves "passed failed skipped" in the array `counts` and
# returns 1 where a test failed.
test_tree() {
	local folder=$1 code=0
	shift
	say "testing $(basename "$folder")"
	rm -f "$folder/meson-logs/testlog.json"
	# python3 may be a script of a version manager, which takes several times as long to start as what it calls
	local PATH=$PATH
	PATH=$(python3 -c 'import os, sys; print(os.path.dirname(sys.executable))'):$PATH
	# one more than cores: what waits for a rank that was killed or stopped leaves its core idle
	MESON_TESTTHREADS=${MESON_TESTTHREADS:-$(($(nproc) + 1))} with_scratch meson test -C "$folder" --print-errorlogs "$@" </dev/null || code=1
	read -r -a counts <<<"$("$tree/tools/count-tests" "$folder/meson-logs/testlog.json")"
	# A run that failed has a failure, even one that got to no test.
	[ "$code" -eq 0 ] || [ "${counts[1]}" -gt 0 ] || counts[1]=1
	[ -z "${ORRERY_COUNTS:-}" ] ||
		"$tree/tools/count-tests" --failed "$folder/meson-logs/testlog.json" >>"$ORRERY_COUNTS.failed"
	[ "${counts[1]}" -eq 0 ]
}
