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
for name in digits two_towers deep tied_towers frozen_towers; do
	set -- "$@" "graphs/$name.dot"
done
shift 2
exec "$python" tools/torch/check "$@"
