#!/bin/bash
# G elements/s of the kernels at this processor's width of vectors, and of their plain text. Usage: bench_kernels.sh VECTORS PLAIN
set -euo pipefail
printf '%-22s %9s %9s %7s   G elements/s of one core\n' kernel vectors plain ratio
join <("$1" | sort) <("$2" | sort) | awk '{ printf "%-22s %9.2f %9.2f %7.1f\n", $1, $2, $3, $2 / $3 }'
