#!/bin/bash
# Kernels at this processor's width of vectors have the bits of the plain text. Usage: test_vector.sh VECTORS PLAIN
set -euo pipefail
diff <("$1") <("$2") || { echo "FAILED: the kernels' bits depend on the width of vectors"; exit 1; }
[ "$("$1" | wc -l)" -ge 30 ] || { echo "FAILED: too few kernels were compared"; exit 1; }
echo "$("$1" | wc -l) digests, 0 differ"
