# What .ci/run installs PyTorch into is taken for whole only where it was finished, with these packages, and still imports
# them. Stand-ins of python3 and pip write down what they are told.
export XDG_CACHE_HOME=$PWD/cache
unset ORR_TORCH_PYTHON
tree=$PWD
. "$source/tools/setup.sh"
can_install() { false; }

mkdir -p bin stub
cat >stub/python <<'STUB'
#!/bin/sh
case $* in
*import*) ! [ -e "$(dirname "$0")/../broken" ] ;;
*pip*) echo "$*" >>"$XDG_CACHE_HOME/asked" && ! [ -e "$XDG_CACHE_HOME/offline" ] ;;
esac
STUB
cat >bin/python3 <<'STUB'
#!/bin/sh
for folder; do :; done
mkdir -p "$folder/bin" && cp stub/python "$folder/bin"
STUB
chmod +x bin/python3 stub/python
PATH=$PWD/bin:$PATH
is() { "${@:2}" || { echo "$1: not so: ${*:2}"; exit 1; }; }
not() { ! "$@"; }
installed() { [ "$(wc -l <cache/asked)" -eq "$1" ]; }
made() { (get_torch >/dev/null && [ "$ORR_TORCH_PYTHON" = "$PWD/cache/orrery/torch/bin/python" ]); }
whole=cache/orrery/torch/whole

is 'there is none' not use_torch
is 'at first' made
is 'at first' installed 1
is kept made
is kept installed 1
rm $whole
touch cache/orrery/torch/left
is interrupted not use_torch
is interrupted made
is interrupted installed 2
is interrupted [ ! -e cache/orrery/torch/left ]
echo torch >$whole
is 'of other packages' made
is 'of other packages' installed 3
touch cache/orrery/torch/broken
is 'imports no longer' made
is 'imports no longer' installed 4
rm $whole
touch cache/offline
is offline not made
is offline installed 5
is offline [ ! -e $whole ]
ORR_TORCH_PYTHON=mine
is named get_torch
is named installed 5
