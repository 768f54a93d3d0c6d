#!/usr/bin/env python3
"""Jobs that real models have, by hand: each row derives a figure in closed form, and `orrery simulate` must give it.

test_by_hand.py ORRERY SOURCE

Prints the table in Markdown and fails where a figure is another. Unless a row says otherwise, the schedule is 1f1b and a
forward takes 1 and a backward 2, of which 1 is the input gradient and 1 the weight gradient; a stage that reads data alone
has the backward that is said, as one that is measured has no input gradient in it. m is the number of microbatches, L the
latency. Every row is checked for several sizes, and printed for the last of them.
"""
import json
import os
import subprocess
import sys
import tempfile

GB = 10 ** 9
MB = 10 ** 6


def chain(kinds, more='', first=0):
    """Operators s0 -> s1 -> ..., one a character: f is frozen, t trained."""
    names = [f's{first + i}' for i in range(len(kinds))]
    nodes = ''.join(f'{name} [frozen={"true" if kind == "f" else "false"}];' for name, kind in zip(names, kinds))
    return f'node [forward=1, backward=2{more}]; {nodes} {" -> ".join(names)};'


def number(text):
    """A whole number without a point."""
    return int(float(text)) if float(text).is_integer() else float(text)


def per(size, values):
    """Bytes in larger units, which must be whole numbers of them."""
    return [value // size if value % size == 0 else value / size for value in values]


class Step:
    """What simulate says of a graph: a file of the source, or the inside of a digraph. Other files lie beside it."""
    def __init__(self, orrery, graph, words, files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {'graph.dot': f'digraph {{ {graph} }}', **files}.items():
                with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
                    file.write(text)
            path = os.path.abspath(graph) if graph.endswith('.dot') else 'graph.dot'
            said = subprocess.run([orrery, 'simulate', path, *words.split(), '--json'], cwd=folder, check=True,
                                  stdout=subprocess.PIPE).stdout
        self.report = json.loads(said, parse_float=number)
        self.makespan = self.report['makespan']
        # stage by its first operator's name: file order and stage order may differ
        self.stage_of = {stage['operators'][0]: stage for stage in self.report['stages']}

    def each(self, key):
        return [worker[key] for worker in self.report['worker']]

    def on(self, operator, key):
        return self.report['worker'][self.stage_of[operator]['worker']][key]


ROWS = []


def row(text, *sizes):
    """A row: its function takes each of the sizes and gives the graph, the options, the figures (for each its name, its
    formula, what that gives, and how it is read from a step), and other files where the options name some."""
    return lambda function: ROWS.append((text, sizes, function))


@row('graphs/studies/frozen.dot: two frozen stages, then two trained; m = {}, L = 1', 2, 4, 64, 8)
def _(m):
    # Gradients go from s3 to s2 alone. s2 is the first that trains: its B is W, 1. Stage s2 may hold 2 microbatches, and
    # between F of microbatch b on s2 and F of b + 2 lie F, L, F, B, L, W: 1 + L + 1 + 2 + L + 1 = 5 + 2L, which with L = 1 is
    # 7 for two microbatches, more than the 6 that s3 works on them. So pairs start every 7, after the fill 3 (1 + L) = 6;
    # of the last pair s3 takes 6, and L and W follow.
    return 'graphs/studies/frozen.dot', f'-m {m} --latency 1', [
        ('gradients received, MB', '0, 0, 100m, 0', [0, 0, 100 * m, 0], lambda step: per(MB, step.each('recv_gradient_bytes'))),
        ('memory, GB', '1, 1, 4 + 2, 4 + 1', [1, 1, 6, 5], lambda step: per(GB, step.each('memory_bytes'))),
        ('stashes on each worker', '0, 0, 2, 1', [0, 0, 2, 1], lambda step: step.each('peak_stash')),
        ('makespan', '6 + 7 (m/2 - 1) + 6 + 2', 6 + 7 * (m // 2 - 1) + 6 + 2, lambda step: step.makespan)]


@row('a frozen tower of k = {} stages beside a trained one of 2, a trunk of 2; m = 16', *range(1, 13))
def _(k):
    # The trained tower and the trunk hold 4, 3, 2, 1 microbatches as they do alone: frozen stages wait for no backward, so
    # they are in nobody's warm-up. The trunk's first F waits for the longer tower; the trunk's last stage then works without
    # a pause, 3 a microbatch; last come three backwards of 2, of the trunk's first stage and of the tower.
    graph = (chain('f' * k, first=10) + chain('tttt') + f's{9 + k} -> s2;')
    return graph, '-m 16', [
        ('stashes of the rest', '4, 3, 2, 1', [4, 3, 2, 1], lambda step: [step.on(f's{i}', 'peak_stash') for i in range(4)]),
        ('makespan', 'max(k, 2) + 1 + 3m + 6', max(k, 2) + 1 + 3 * 16 + 6, lambda step: step.makespan)]


@row('k = {} frozen stages, and only the last stage trains (a probe); m = 8, L = 3', 1, 2, 5)
def _(k):
    # No gradient crosses a link, so latency is paid once: k stages of 1 + L, then F and W in turn.
    return chain('f' * k + 't', ', activation="1MB"'), '-m 8 --latency 3', [
        ('gradients received', '0', 0, lambda step: sum(step.each('recv_gradients'))),
        ('makespan', 'k (1 + L) + 2m', k * 4 + 2 * 8, lambda step: step.makespan)]


@row('frozen in the middle: trained, frozen, trained; m = {}', 3, 8, 32)
def _(m):
    # The frozen stage hands the gradient on: B of 1 and no W, a stash as ever, parameters and nothing else. The last stage
    # works without a pause; then come the frozen one's B, 1, and the first one's, 2.
    return chain('tft', ', stash="1GB", parameters="1GB"'), f'-m {m}', [
        ('makespan', '2 + 3m + 1 + 2', 2 + 3 * m + 3, lambda step: step.makespan),
        ('busy', '3m, 2m, 3m', [3 * m, 2 * m, 3 * m], lambda step: step.each('busy')),
        ('memory, GB', '4 + 3, 1 + 2, 4 + 1', [7, 3, 5], lambda step: per(GB, step.each('memory_bytes')))]


@row('a frozen stage, then three trained under zb-h1, F = B = W = 1; m = {}', 4, 8, 32)
def _(m):
    # s1 has no input gradient: F and W, and no B at all. s3 works 3m without a pause, after 3 forwards. Its last two jobs are
    # W that it has put off, and beside them run s2's last B and s1's last W: nothing comes after.
    graph = chain('fttt').replace('backward=2', 'backward=1, weight=1')
    return graph, f'-m {m} --schedule zb-h1', [
        ('busy', 'm, 2m, 3m, 3m', [m, 2 * m, 3 * m, 3 * m], lambda step: step.each('busy')),
        ('makespan', '3 + 3m', 3 + 3 * m, lambda step: step.makespan)]


@row('two frozen stages, then two trained, under gpipe; m = {}', 1, 4, 16)
def _(m):
    # All forwards, 3 + m; then s3's backwards, 2m, and the last W of s2. Frozen stages keep nothing even here.
    return chain('fftt'), f'-m {m} --schedule gpipe', [
        ('makespan', '3 + m + 2m + 1', 3 + 3 * m + 1, lambda step: step.makespan),
        ('stashes on each worker', '0, 0, m, m', [0, 0, m, m], lambda step: step.each('peak_stash'))]


@row('f = {} frozen stages, then t = {} trained, recomputed; m = 16', (1, 2), (4, 3), (2, 4))
def _(f, t):
    # B runs F again where there is a B. The last stage takes 1 + 1 + 2 a microbatch; then come t - 2 backwards of 1 + 2, and
    # that of the first that trains, 1 + 1.
    return chain('f' * f + 't' * t), '-m 16 --recompute all', [
        ('makespan', 'f + t - 1 + 4m + 3 (t - 2) + 2', f + t - 1 + 4 * 16 + 3 * (t - 2) + 2, lambda step: step.makespan)]


@row('two frozen stages, then two trained of 1 GB each, on w = {} replicas under ddp', 1, 2, 8, 4)
def _(w):
    # A ring for the gradients of what trains. A replica's memory: 1 + 1 GB frozen; 4 + 4 of what adamw trains, and with
    # replicas as much again as the parameters for the running sum of the gradients.
    return chain('fftt', ', parameters="1GB"'), f'-w {w} -m {w} --schedule ddp', [
        ('all-reduced, GB', '2 (w - 1)/w 2 each', [2 * (w - 1) / w * 2] * w, lambda step: per(GB, step.each('all_reduce_bytes'))),
        ('memory, GB', '2 + 8 + 2', [10 + (2 if w > 1 else 0)] * w, lambda step: per(GB, step.each('memory_bytes')))]


@row('an update of 5 on every stage: trained, frozen, trained; m = {}', 3, 8)
def _(m):
    # The first stage updates last, and its update alone shows in the makespan; the frozen one has none.
    return chain('tft', ', update=5'), f'-m {m}', [
        ('makespan', '2 + 3m + 3 + 5', 2 + 3 * m + 3 + 5, lambda step: step.makespan),
        ('busy', '3m + 5, 2m, 3m + 5', [3 * m + 5, 2 * m, 3 * m + 5], lambda step: step.each('busy'))]


@row('two frozen stages, then two trained, fully sharded (fsdp) on 4 workers, m = {}', 4, 8)
def _(m):
    # A worker fetches what it does not own for each pass that there is: F of the frozen stages, F and B of the trained, and
    # sends as many gradients as it has weight gradients of others' stages.
    return chain('fftt', ', parameters="1GB"'), f'-w 4 -m {m} --schedule fsdp', [
        ('parameters received', '3m/4 (1 + 1 + 2 + 2)', 3 * m // 4 * 6, lambda step: sum(step.each('recv_parameters'))),
        ('gradients sent to owners', '3m/4 (0 + 0 + 1 + 1)', 3 * m // 4 * 2, lambda step: sum(step.each('sent_weight_gradients')))]


@row('noise of no width; s = {} stages, m = 8', 1, 4)
def _(s):
    # Every sample is the step itself, in strict order and in greedy order alike.
    makespan = 3 * (8 + s - 1)
    return chain('t' * s), '-m 8 --jitter lognormal:0 --samples 20', [
        ('median, p95 and worst, strict and greedy', '3 (m + s - 1)', [makespan] * 6,
         lambda step: [step.report['noise'][order][key] for order in ('strict', 'greedy') for key in ('median', 'p95', 'worst')])]


@row('an edge without a gradient, and one with half as much: a -> b, a -> c, b and c -> d; m = {}', 4, 16)
def _(m):
    # Nothing comes back from c to a, so c's B is W, 1. Activations: 4 + 1 + 1 + 1 MB; gradients: of a -> b half of 4 MB, 1 MB
    # from d to b and to c each. d works without a pause after 2 forwards; then come the backwards of b and a, 2 + 2.
    graph = ('node [forward=1, backward=2, activation="1MB"]; a -> b [bytes="4MB", gradient_bytes="2MB"]; '
             'a -> c [gradient=false]; {b; c} -> d')
    return graph, f'-m {m}', [
        ('activations received, MB', 'm (4 + 1 + 1 + 1)', 7 * m, lambda step: sum(per(MB, step.each('recv_activation_bytes')))),
        ('gradients received, MB', 'm (2 + 1 + 1)', 4 * m, lambda step: sum(per(MB, step.each('recv_gradient_bytes')))),
        ('makespan', '2 + 3m + 4', 2 + 3 * m + 4, lambda step: step.makespan)]


@row('the first and the last of s = {} stages share 1 GB; m = 8, links of 1 GB/s', 2, 3, 6)
def _(s):
    # Two owners add up their gradients in a ring of two, each sent 2 (1/2) 1 GB, after the last backward of all, the first
    # stage's. Each keeps 1 GB for the sum beside 4 of adamw.
    names = [f's{i}' for i in range(s)]
    graph = ('node [forward="1s", backward="2s", parameters="1GB"]; ' + ' -> '.join(names)
             + f'; s0 [share=embedding]; s{s - 1} [share=embedding];')
    return graph, '-m 8 --bandwidth 1GB/s', [
        ('makespan, s', '3 (m + s - 1) + 1', 3 * (8 + s - 1) + 1, lambda step: step.makespan),
        ('all-reduced, GB', '1, 0, ..., 0, 1', [1] + [0] * (s - 2) + [1], lambda step: per(GB, step.each('all_reduce_bytes'))),
        ('memory, GB', '4 + 1, 4, ..., 4, 4 + 1', [5] + [4] * (s - 2) + [5], lambda step: per(GB, step.each('memory_bytes')))]


@row('the same on one worker, where there is one set; s = {}', 2, 6)
def _(s):
    names = [f's{i}' for i in range(s)]
    graph = ('node [forward="1s", backward="2s", parameters="1GB"]; ' + ' -> '.join(names)
             + f'; s0 [share=embedding]; s{s - 1} [share=embedding];')
    return graph, f'-m 8 -w 1 --stages {s} --schedule ddp --bandwidth 1GB/s', [
        ('makespan, s', '3ms', 3 * 8 * s, lambda step: step.makespan),
        ('memory, GB', '4 (s - 1)', [4 * (s - 1)], lambda step: per(GB, step.each('memory_bytes')))]


@row('two workers, the second r = {} times as fast: F = 4, B = 8 at speed 1; m = 16, L = 1', 2, 4)
def _(r):
    # The second stage takes 12/r a microbatch. The first works 12m, but for once: after two forwards it waits for its first
    # gradient, which comes when the second stage is through with F and B and both transfers, 4 + 1 + 12/r + 1; it has worked
    # 8 by then. From there on a gradient lies ready whenever it wants one.
    graph = chain('tt').replace('forward=1, backward=2', 'forward=4, backward=8')
    return graph, '-m 16 --machine machine.dot', [
        ('makespan', '12m + (6 + 12/r) - 8', 12 * 16 + 6 + 12 // r - 8, lambda step: step.makespan)], {
            'machine.dot': f'graph {{ latency=1; slow; fast [speed={r}] }}'}


@row('microbatches of lengths 1, 3, 2, 2 through s = {} stages under gpipe', 1, 3, 8)
def _(s):
    # Costs are those of the mean length, so F takes 0.5, 1.5, 1 and 1. Stages that are alike are a flow shop: its length is
    # the sum over microbatches and the longest once more for each further stage; forwards first, then backwards, twice as long.
    graph = 'length_exponent=1; ' + chain('t' * s)
    return graph, '-m 4 --lengths 1,3,2,2 --schedule gpipe', [
        ('makespan', '3 (4 + 1.5 (s - 1))', 3 * (4 + 1.5 * (s - 1)), lambda step: step.makespan)]


@row('two towers of k = {} stages, then a loss over all pairs (gather=minibatch); m = 8, gpipe', 1, 3)
def _(k):
    # The loss waits for the last forward, which leaves the towers after k - 1 + m; it takes 3m. The first backward waits for
    # the last one of the loss, and leaves the towers after 2 (k - 1) + 2m. So every tower stage holds the whole minibatch.
    graph = (chain('t' * k) + chain('t' * k, first=k) + f' loss [gather=minibatch]; {{s{k - 1}; s{2 * k - 1}}} -> loss')
    return graph, '-m 8 --schedule gpipe', [
        ('makespan', '3 (k - 1) + 6m', 3 * (k - 1) + 6 * 8, lambda step: step.makespan),
        ('stashes of the towers', 'm', [8] * 2 * k, lambda step: [step.on(f's{i}', 'peak_stash') for i in range(2 * k)])]


@row('one stage, then one on both workers at once (gang=2); m = {}, gpipe', 4, 9)
def _(m):
    # The first worker computes all of both stages and is never idle: 3m and 3m. The second has its half of the second stage,
    # and half of its 8 GB of parameters, four times over in training.
    graph = chain('tt') + ' node [parameters="8GB"]; s1 [gang=2, parameters="8GB"];'
    return graph, f'-m {m} -w 2 --schedule gpipe', [
        ('makespan', '6m', 6 * m, lambda step: step.makespan),
        ('busy', '6m, 3m', [6 * m, 3 * m], lambda step: step.each('busy')),
        ('parameters, GB', '4, 4', [4, 4], lambda step: per(GB, step.each('parameter_bytes')))]


@row('attention residuals: each of p v = {} {} stages is read by all later ones, interleaved on p workers; m = 8', (4, 1), (2, 3), (4, 4))
def _(p, v):
    # A value goes once to each other worker that has a later stage: to p - 1, and to fewer from the last p stages. Gradients
    # come back from every stage that is on another worker: of p v stages p v (p v - 1)/2 pairs, less v (v - 1)/2 on each.
    n = p * v
    names = [f's{i}' for i in range(n)]
    graph = ('node [forward=1, backward=2, activation="1MB"]; '
             + ' '.join(f'{name} -> {{{" ".join(names[i + 1:])}}};' for i, name in enumerate(names[:-1])))
    return graph, f'-w {p} -m 8 --stages {n} --schedule {"interleaved" if v > 1 else "1f1b"}', [
        ('activations received, MB', 'm (p - 1) (p v - p/2)', 8 * (p - 1) * (2 * n - p) // 2,
         lambda step: sum(per(MB, step.each('recv_activation_bytes')))),
        ('gradients received, MB', 'm p v (p v - v)/2', 8 * n * (n - v) // 2,
         lambda step: sum(per(MB, step.each('recv_gradient_bytes'))))]


@row('the same as a chain, whose stages hand on all that they have; p v = {} {}', (4, 1), (4, 4))
def _(p, v):
    n = p * v
    graph = 'node [forward=1, backward=2]; ' + ' '.join(f's{i} -> s{i + 1} [bytes="{i + 1}MB"];' for i in range(n - 1))
    return graph, f'-w {p} -m 8 --stages {n} --schedule {"interleaved" if v > 1 else "1f1b"}', [
        (f'{what} received, MB', 'm p v (p v - 1)/2', 8 * n * (n - 1) // 2,
         lambda step, key=key: sum(per(MB, step.each(key))))
        for what, key in (('activations', 'recv_activation_bytes'), ('gradients', 'recv_gradient_bytes'))]


def main(orrery, source):
    orrery = os.path.abspath(orrery)
    os.chdir(source)
    wrong = 0
    print('| case | figure | formula | by hand | simulated |\n|---|---|---|---|---|')
    for text, sizes, function in ROWS:
        for size in sizes:
            size = size if isinstance(size, tuple) else (size,)
            graph, words, figures, *files = function(*size)
            step = Step(orrery, graph, words, *files or [{}])
            for name, formula, by_hand, read in figures:
                simulated = read(step)
                holds = simulated == by_hand
                wrong += not holds
                if not holds or size in (sizes[-1], sizes[-1:]):
                    print(f'| {text.format(*size)} | {name} | {formula} | {by_hand} | {simulated}{"" if holds else " WRONG"} |')
    print(f'\n{len(ROWS)} cases, {wrong} wrong')
    return wrong > 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
