"""What an operator's cost grows with.

`orrery profile` measures a graph at four sizes, each twice the one before, on a core; a table has an operator's times
(forward, backward and weight), how many times as long it takes for each doubling, as a power of two, and that power in the
mathematics. 1: twice the size takes twice the time; a line ends in ! where the last doubling is above the mathematics by
more than --most."""
import argparse
import math
import os
import re
import tempfile

from common import row, run

N_SIZES = 4

TOKENS = '''digraph tokens {{
    t [op=input, columns="0:{n}", rows={n}]  embedding [op=embedding, vocabulary=1000, features=64]
    positions [op=positions]  layernorm [op=layernorm]  q [op=linear, features=64]  k [op=linear, features=64]
    v [op=linear, features=64]  rotary [op=rotary, heads=2]  attention [op=attention, heads=2, causal=true]
    add [op=add]  linear [op=linear, features=256]  gelu [op=gelu]  head [op=linear, features=100]
    c [op=input, columns="{n}:{n2}", rows={n}]  softmax_cross_entropy [op=softmax_cross_entropy]
    t -> embedding -> positions -> layernorm -> {{q k v}}  q -> rotary -> attention  k -> attention  v -> attention
    positions -> add  attention -> add -> linear -> gelu -> head -> softmax_cross_entropy  c -> softmax_cross_entropy
}}'''
WORDS = '''digraph words {{
    t [op=input, columns="0:64", rows=64]  embedding [op=embedding, vocabulary={n}, features=64]
    head [op=linear, features={n}]  c [op=input, columns="64:128", rows=64]  softmax_cross_entropy [op=softmax_cross_entropy]
    t -> embedding -> head -> softmax_cross_entropy  c -> softmax_cross_entropy
}}'''
CLASSES = '''digraph classes {{
    x [op=input, columns="0:64"]  linear [op=linear, features={n}]  softmax [op=softmax]
    logits [op=linear, features=8]  c [op=input, columns="64"]  softmax_cross_entropy [op=softmax_cross_entropy]
    x -> linear -> softmax -> logits -> softmax_cross_entropy  c -> softmax_cross_entropy
}}'''
IMAGES = '''digraph images {{
    x [op=input, columns="0:{n3}", rows={n}]  conv2d [op=conv2d, features=16, kernel=3, padding=1, image_height={side}]
    batchnorm [op=batchnorm]  relu [op=relu]  max_pool [op=max_pool, kernel=2, image_height={side}]
    mean [op=mean]  linear [op=linear, features=10]  c [op=input, columns="{n3}"]  loss [op=softmax_cross_entropy]
    x -> conv2d -> batchnorm -> relu -> max_pool -> mean -> linear -> loss  c -> loss
}}'''

# The first size, the graph, and powers that are not 1; 0: the axis is none of its sizes.
AXES = {
    'tokens': (128, TOKENS, {'attention': 2}),
    'words': (4096, WORDS, {}),
    'classes': (4096, CLASSES, {'softmax_cross_entropy': 0}),
    'images': (32 * 32, IMAGES, {'linear': 0, 'loss': 0}),  # pixels of one
}


def profile(options, graph, folder):
    """Nanoseconds of every operator."""
    path = os.path.join(folder, 'graph.dot')
    with open(path, 'w', encoding='utf-8') as file:
        file.write(graph)
    told = run(options.orrery, 'profile', path, '-w', 1, '-m', 1, '--batch', options.batch, '--device', 'cpu', '-o', '-')
    times = {}
    for name, attributes in re.findall(r'^\s*"(\w+)" \[(.*)\];$', told, re.MULTILINE):
        if 'op=input' not in attributes:
            times[name] = sum(float(ms) for ms in re.findall(r'\b(?:forward|backward|weight)="([0-9.e+-]+)ms"', attributes)) * 1e6
    return times


def text(ns):
    for unit in ('ns', 'us', 'ms', 's'):
        if ns < 1000 or unit == 's':
            return f'{ns:.3g} {unit}'
        ns /= 1000
    return None


def table(options, axis):
    """Prints it; how many operators grow faster than their mathematics."""
    first, graph, powers = AXES[axis]
    first = options.first or first
    sizes = [first << i for i in range(N_SIZES)]
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        # an image whose side is no whole number is as high as the last one whose side is
        found = [profile(options, graph.format(n=n, n2=2 * n, n3=3 * n, side=1 << (n.bit_length() - 1) // 2), folder) for n in sizes]
    print(row(axis, *sizes, 'a doubling', 'the last', 'mathematics'))
    print('|---|' + '---|' * (N_SIZES + 3))
    for name in found[0]:
        times = [of[name] for of in found]
        mean, last = math.log2(times[-1] / times[0]) / (N_SIZES - 1), math.log2(times[-1] / times[-2])
        power = powers.get(name, 1)
        fault = min(mean, last) > power + options.most
        faults += fault
        print(row(name, *map(text, times), f'{mean:.2f}', f'{last:.2f}', power) + ' !' * fault)
    print()
    return faults


def axis_of(name):
    if name not in AXES:
        raise argparse.ArgumentTypeError(f'{name} is no axis: {", ".join(AXES)}')
    return name


def arguments(parser):
    parser.add_argument('axes', nargs='*', metavar='AXIS', type=axis_of, help=f'of {", ".join(AXES)}; all')
    parser.add_argument('--first', type=int, help='the first size (128 tokens, 4096 words or classes, 1024 pixels)')
    parser.add_argument('--batch', type=int, default=4, help='samples (4)')
    parser.add_argument('--most', type=float, default=0.5, help='by which a power may be above the mathematics: caches (0.5)')


def main(options):
    return sum(table(options, axis) for axis in options.axes or AXES) > 0
