"""Measured iterations of OPT-350M beside the simulator's: graphs/MEASURED.md is what this writes.

FOLDER has two tables from eth-easl/sailor: layers.csv, the seconds of a layer's passes and update, and measured.csv, the
runs. Each run is simulated with all its replicas (lpp: groups of one worker a stage, each under 1F1B). One constant is read
off measurements, those of two stages, and the figures without it stand beside: the overhead of a job. Where any other comes
from stands with it.
"""
import statistics
import tempfile

from common import ask, row, rows_of

# fp32: neither the launch script nor DeepSpeed's configuration asks for half precision, and what a stage receives is
# put together as float32 (deepspeed/utils.py, reconstruct_tensor)
VALUE_BYTES = 4
VALUES = 8 * 2048 * 1024  # samples, sequence, hidden
# the 4 GPUs of a node to those of another, and one GPU to another of its node, as measured between GH200
# (sailor/providers/gcp/network_coeffs.json: inter, GH-96, 4; half of intra, GH-96, 4, which is two pairs). A node has four
# links of 200 Gbit/s, 100 GB/s
NODE_BYTES_PER_S = 92.55e9
GPU_BYTES_PER_S = 125.28e9


def ns(seconds):
    return f'"{round(seconds * 1e9)}ns"'


def graph(layers, run, links=False, occupied=False, value_bytes=VALUE_BYTES, overhead_s=0):
    """A study whose stages are the run's. With links, the activation is on the edge between two. With occupied, a transfer
    holds up both workers, and is charged where it delays the iteration: to the later stage, which waits for the activation
    and until its gradient is taken; of two stages, the earlier one has the time."""
    size = VALUES * value_bytes
    send = size / NODE_BYTES_PER_S  # a quarter from each GPU to its peer
    gather = size * 3 / 4 / GPU_BYTES_PER_S  # each GPU then gets the other quarters from its node
    lines = ['digraph opt_350m {', f'overhead={ns(overhead_s)};']
    for s, cut in enumerate(run['layers'].split()):
        first, last = map(int, cut.split('-'))
        for i in range(first, last + 1):
            forward, backward = float(layers[i]['forward_s']), float(layers[i]['backward_s'])
            # the profile repeats the time of one whole optimizer step in every row (megatron/training.py)
            update = float(layers[i]['update_s']) + float(run['all_reduce_s']) if i == first else 0
            if occupied and i == first > 0:
                forward, backward = forward + send + gather, backward + send
            if occupied and i == last < len(layers) - 1:
                backward += gather
            lines.append(f'layer_{i} [stage={s}, forward={ns(forward)}, backward={ns(backward)}, update={ns(update)}, '
                         f'activation={size if links and i == last else 0}];')
            if i > 0:
                lines.append(f'layer_{i - 1} -> layer_{i};')
    return '\n'.join(lines + ['}'])


def simulate(orrery, layers, run, **way):
    stages, replicas = int(run['stages']), int(run['replicas'])
    words = ['-w', str(stages * replicas), '-m', str(int(run['microbatches']) * replicas),
             '--schedule', f'lpp:G={replicas},R={stages}']
    if way.get('links'):
        words += ['--bandwidth', f'{NODE_BYTES_PER_S:.0f}B/s']
    with tempfile.NamedTemporaryFile('w', suffix='.dot') as file:
        file.write(graph(layers, run, **way))
        file.flush()
        return ask(orrery, 'simulate', file.name, *words)['makespan']


def nearer(run, simulated):
    return min((float(run[key]) for key in ('measured_1_s', 'measured_2_s')), key=lambda s: abs(s - simulated))


def off(run, simulated):
    return f'{100 * (simulated / nearer(run, simulated) - 1):+.1f}%'


def jobs_in_a_row(run):
    """On the critical path: of two stages, F and B of each microbatch on the later one, F and B of one on the earlier one
    around them, and the update."""
    return 2 * (int(run['microbatches']) + int(run['stages']) - 1) + 1


def lacking(run, simulated):
    """Seconds a job by which the simulated run is shorter than the mean of the two measured ones."""
    return ((float(run['measured_1_s']) + float(run['measured_2_s'])) / 2 - simulated) / jobs_in_a_row(run)


def arguments(parser):
    parser.add_argument('folder', help='of the tables')


def main(options):
    orrery, folder = options.orrery, options.folder
    layers = rows_of(folder, 'layers.csv')
    runs = sorted(rows_of(folder, 'measured.csv'), key=lambda run: (int(run['stages']), int(run['replicas'])))
    ways = {
        'no transfers': {},
        'transfers beside the passes (`--bandwidth`)': {'links': True},
        '**transfers that occupy both workers**': {'occupied': True},
        'the same, 2 bytes a value': {'occupied': True, 'value_bytes': 2},
    }
    plain = [simulate(orrery, layers, run, occupied=True) for run in runs]
    overhead_s = round(statistics.mean(lacking(run, s) for run, s in zip(runs, plain) if run['stages'] == '2'), 4)
    print(ABOVE)
    for run, s in zip(runs, plain):
        more = simulate(orrery, layers, run, occupied=True, overhead_s=overhead_s)
        told = [run[key] for key in ('run', 'stages', 'replicas', 'microbatches', 'all_reduce_s', 'measured_1_s', 'measured_2_s')]
        print(row(*told, f'{s:.5f}', off(run, s), f'{1e3 * lacking(run, s):.2f}', f'{more:.5f}', off(run, more)))
    print(BETWEEN.replace('OVERHEAD', f'{1e6 * overhead_s:.0f}us'))
    print(row('counted', *(run['run'] for run in runs)) + '\n' + '|---' * (len(runs) + 1) + '|')
    for name, way in ways.items():
        print(row(name, *(off(run, simulate(orrery, layers, run, **way)) for run in runs)))
    print(BELOW, end='')


ABOVE = """\
# Measured iterations

OPT-350M on nodes of 4 GH200, measured by the authors of Sailor [Strati25] (`eth-easl/sailor`, MIT), beside the simulator
on their profile: seconds of forward and backward of each of 26 layers, microbatches of 8 samples, tensor parallel inside a
node, so a node is a worker. 1F1B on one stage or two, every stage replicated. Off: from the nearer of the two
measurements.

Written by `tools/table measured ORRERY FOLDER`; FOLDER has the tables of the profile and the measurements. Every run in them
is a row.

| run | stages | replicas | microbatches each | all-reduce, s | measured, s | again, s | simulated, s | off | ms a job short | with overhead, s | off |
|---|---|---|---|---|---|---|---|---|---|---|---|"""
BETWEEN = """
**Simulated** has nothing fitted to these measurements, and is too short in all runs but one.

**With overhead** has one constant, taken from the runs of two stages: `overhead="OVERHEAD"` on the graph, added to every job. A
run of S stages and m microbatches has 2 (m + S - 1) + 1 jobs in a row: F and B of each microbatch on the last stage, F and B
of one on each stage before, and the update. The column *ms a job short* is the difference between the mean of the two
measurements and the simulation, divided by these jobs. For 4 and 16 microbatches and 1 to 16 replicas it is within 4% of its
mean, so it follows the number of jobs, not transfers or the size of the cluster. The runs of one stage are not in that
mean.

The profile does not explain the overhead. It does not time the embedding's backward (1 us: its hook sees no gradient of an
input), loading a batch and broadcasting it in the node (by the host, for each microbatch, on the first and the last stage), or
the copy of a header to the host before each forward and backward that receives, which empties the GPU's queue, so that the
host launches the kernels of each job anew. Each iteration also has a barrier and the average of the loss. The share of each is
not measured. The two measurements of N16_D16 are 3% apart, those of the others 0.1 to 1.5%.

The all-reduce is the measured one; it comes after the last backward, so it is part of the update. Costs of a transfer:

- An activation is 8 x 2048 x 1024 values of 4 bytes, 67.1 MB: their launch script does not change fp32, the
  default.
- Links: 92.55 GB/s from the 4 GPUs of a node to those of another and 125.28 GB/s between two GPUs of a node, both measured
  on this machine by the same authors (four links of 200 Gbit/s a node are 100 GB/s).
- Each GPU sends a quarter to its peer, 0.73 ms; the receivers gather the other quarters from their node, 0.40 ms.
- Sending blocks: DeepSpeed's sends and receives are not asynchronous. Before each forward, the later stage waits until its
  last gradient is received and then receives an activation, so a microbatch costs it 0.73 + 0.73 + 0.40 ms beside its passes.
  The earlier stage has 25 ms per microbatch to spare, and waits.
- The update, once per stage, takes 0.48 ms, that of one whole optimizer step, which the profile repeats for each layer.

Without overhead:
"""
BELOW = """
`studies/opt_350m.dot` is the model on two stages, with these transfers and without overhead.
"""
