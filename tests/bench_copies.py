#!/usr/bin/env python3
"""What copies in memory cost where nothing fails: steps of large_towers on two ranks, with a copy after each and without any, in
turn. Usage: bench_copies.py ORRERY SOURCE [ROUNDS]. Exit code 77: the build has no MPI, or there is no mpirun."""
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

orrery, source = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
os.environ.update(OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1')
if not shutil.which('mpirun'):
    print('SKIP: there is no mpirun')
    sys.exit(77)


def step(*options):
    """Seconds, in the median of 12."""
    job = subprocess.run([orrery, 'supervise', '--', 'mpirun', '--oversubscribe', '-n', '2', orrery, 'train', source / 'graphs/large_towers.dot',
                          '--schedule', '1f1b', '-w', '2', '-m', '8', '--batch', '64', '--steps', '12', '--json', *options],
                         check=False, capture_output=True, text=True)
    if 'was not found when it was configured' in job.stderr:
        print('SKIP: the build has no MPI')
        sys.exit(77)
    if job.returncode:
        sys.exit(job.stderr)
    return json.loads(job.stdout)['step_seconds']


more = []
for _ in range(int(sys.argv[3]) if len(sys.argv) > 3 else 5):
    without, with_copies = step(), step('--copy-every', '1')
    more.append(100 * (with_copies / without - 1))
    print(f'{without:.3f} s a step, {with_copies:.3f} s with copies: {more[-1]:+.1f}%', flush=True)
print(f'copies take {statistics.median(more):.1f}% of a step in the median, {min(more):.1f} to {max(more):.1f}%')
