#!/bin/sh
# Orrery beside PyTorch on small graphs: tools/torch/check. Skipped where no Python has torch: python3, or the one that
# ORR_TORCH_PYTHON names. Usage: test_torch.sh ORRERY SOURCE
set -eu
ORRERY=$(realpath "$1")
export ORRERY
python=${ORR_TORCH_PYTHON:-python3}
if ! "$python" -W ignore -c 'import torch' 2>/dev/null; then
	echo "SKIP: $python has no torch: ORR_TORCH_PYTHON names another"
	exit 77
fi
cd "$2"
"$python" tools/torch/check graphs/digits.dot graphs/two_towers.dot graphs/deep.dot graphs/tied_towers.dot \
	graphs/frozen_towers.dot graphs/moe.dot
# every operator once
"$python" tools/torch/check tests/torch/*.dot --data graphs/data/digits.csv

# the package: pytest has its tests
if "$python" -W ignore -c 'import pytest' 2>/dev/null; then
	library=$(dirname "$ORRERY")/../src/orrery/liborrery.so
	if nm -D --undefined-only "$library" | grep -q __asan_init; then
		echo "SKIP: tools/torch/tests/test_schedule.py: $python cannot load a library with AddressSanitizer"
		"$python" -m pytest -q -p no:cacheprovider tools/torch --ignore tools/torch/tests/test_schedule.py
	else
		"$python" -m pytest -q -p no:cacheprovider tools/torch
	fi
else
	echo "tools/torch/tests are left out: $python has no pytest"
fi
