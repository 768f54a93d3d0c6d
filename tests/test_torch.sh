#!/bin/sh
# Orrery beside PyTorch: `graphs`, small ones in both (tools/torch/check); `runner` and `models`, the tests of orrery_torch that
# train in several processes, and all others. Skipped where no Python has torch: python3, or the one that ORR_TORCH_PYTHON
# names. Usage: test_torch.sh ORRERY SOURCE graphs|runner|models.
set -eu
ORRERY=$(realpath "$1")
export ORRERY
python=${ORR_TORCH_PYTHON:-python3}
if ! "$python" -W ignore -c 'import torch' 2>/dev/null; then
	echo "SKIP: $python has no torch: ORR_TORCH_PYTHON names another"
	exit 77
fi
cd "$2"
if [ "$3" = graphs ]; then
	"$python" tools/torch/check graphs/digits.dot graphs/two_towers.dot graphs/deep.dot graphs/tied_towers.dot \
		graphs/frozen_towers.dot graphs/moe.dot
	# every operator once
	exec "$python" tools/torch/check tests/torch/*.dot --data graphs/data/digits.csv
fi

if ! "$python" -W ignore -c 'import pytest' 2>/dev/null; then
	echo "SKIP: $python has no pytest"
	exit 77
fi
cd tools/torch
runner=$(grep -lE '^from runs import.*(on_processes|start)' tests/test_*.py)
# shellcheck disable=SC2086 # a list
[ "$3" = runner ] || runner=$(printf -- '--ignore=%s ' $runner)
# shellcheck disable=SC2086
exec "$python" -m pytest -q -p no:cacheprovider --durations 12 $runner
