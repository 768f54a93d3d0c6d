"""What a layer of a transformer keeps, and what a parameter takes, beside published figures: graphs/MEMORY.md."""
import os
import tempfile

from common import ask, row

# name, heads, columns: [Korthikanti23, table 3]; all with 2,048 tokens and split among 8
MODELS = (('22B', 64, 6144), ('175B', 96, 12288), ('530B', 128, 20480), ('1T', 160, 25600))
TOKENS, PARTS = 2048, 8
LAYER = ('norm1', 'q', 'k', 'v', 'attend', 'out', 'drop1', 'sum1', 'norm2', 'fc1', 'gelu')   # all that its backward reads
# as the paper counts, bytes of 2 but for masks: operators of one stage here, what it names, bytes for a token and column
TERMS = (('norm1', 'input', 2), ('q k v', 'input', 2), ('attend', 'q, k and v', 6),
         ('out drop1', 'input, and a mask', 3), ('norm2', 'input', 2), ('fc1', 'input', 2), ('gelu', 'input', 8),
         ('fc2 drop2', 'input, and a mask', 9))


def layer(heads, hidden, stage_of=lambda name: 1, again=()):
    """Between an embedding and a head, in stages of their own; the operators in `again` are computed again."""
    def node(name, op, **more):
        words = [f'op={op}', f'stage={stage_of(name)}', *(f'{key}={value}' for key, value in more.items())]
        return f'    {name} [{", ".join(words + ["recompute=true"] * (name in again))}];\n'
    last = stage_of('sum2') + 1
    return f'''digraph layer {{
    x [op=input, columns="0:{TOKENS}", rows={TOKENS}]; y [op=input, columns=0];
    embed [op=embedding, vocabulary=9, features={hidden}, stage=0]; x -> embed;
''' + ''.join([
        node('norm1', 'layernorm'), *(node(name, 'linear', features=hidden) for name in ('q', 'k', 'v', 'out')),
        node('attend', 'attention', heads=heads, causal='true'), node('drop1', 'dropout', rate=0.1), node('sum1', 'add'),
        node('norm2', 'layernorm'), node('fc1', 'linear', features=4 * hidden), node('gelu', 'gelu'),
        node('fc2', 'linear', features=hidden), node('drop2', 'dropout', rate=0.1), node('sum2', 'add')]) + f'''
    embed -> norm1 -> {{q k v}} -> attend -> out -> drop1 -> sum1; embed -> sum1;
    sum1 -> norm2 -> fc1 -> gelu -> fc2 -> drop2 -> sum2; sum1 -> sum2;
    last [op=first, stage={last}]; head [op=linear, features=9, stage={last}];
    loss [op=softmax_cross_entropy, stage={last}]; sum2 -> last -> head -> loss; y -> loss;
}}
'''


def kept(orrery, text, stages, split='1'):
    """Of each worker the bytes that it keeps of a sample, and those that a backward makes again; a stage has
    a worker, or as many as it is split among. Under GPipe the first backward starts when all samples are kept."""
    with open('layer.dot', 'w', encoding='utf-8') as file:
        file.write(text)
    words = ['-s', 'gpipe', '-w', stages * int(split.split(':')[0]), '--precision', 'bf16', '--split', split]
    two, three = ([worker['peak_stash_bytes'] for worker in ask(orrery, 'simulate', 'layer.dot', *words, '-m', m, '--batch', m)
                   ['worker']] for m in (2, 3))
    return [(b - a, 3 * a - 2 * b) for a, b in zip(two, three)]


def per_operator(orrery):
    _, heads, hidden = MODELS[1]
    unit = TOKENS * hidden
    stage_of = {name: i + 1 for i, (names, _, _) in enumerate(TERMS) for name in names.split()}
    stage_of.update(sum1=stage_of['out'], sum2=stage_of['fc2'])
    stashes = kept(orrery, layer(heads, hidden, stage_of.get), len(TERMS) + 2)
    whole = kept(orrery, layer(heads, hidden), 3)[1][0] / unit
    print('| operators | published: what is kept | bytes | here |\n|---|---|---:|---:|')
    sums = [0, 0]
    for (names, what, published), (stash, _) in zip(TERMS, stashes[1:]):
        if names == 'attend':
            what, published = what + '; scores, their softmax, a mask', published + 5 * heads * TOKENS / hidden
        print(row(names, what, f'{published:g}', f'{stash / unit:.3f}'))
        sums = [sums[0] + published, sums[1] + stash / unit]
    print(row('one stage each', '', f'{sums[0]:g}', f'{sums[1]:.3f}'))
    print(row('the layer in one stage', '', f'{sums[0]:g}', f'{whole:.3f}'))


def ways(heads, hidden):
    """Published bytes for a token and column of a layer on one of 8 workers; here: its split, and what is computed again."""
    scores = 5 * heads * TOKENS / hidden
    return (('not split', 34 + scores, '1', ()),
            ('tensor parallel', 10 + (24 + scores) / PARTS, f'{PARTS}:copied', ()),
            ('and sequence parallel', (34 + scores) / PARTS, f'{PARTS}', ()),
            ('and attention computed again', 34 / PARTS, f'{PARTS}', ()),
            ('and gelu', None, f'{PARTS}', ('gelu',)),
            ('all computed again, not split', 2, '1', LAYER))


# name, bytes published [Rajbhandari20], options here
SHARED = (('copied', lambda n: 16, ('ddp',)), ('ZeRO 1', lambda n: 4 + 12 / n, ('ddp', '--shard-optimizer')),
          ('ZeRO 2', lambda n: 2 + 14 / n, None), ('ZeRO 3', lambda n: 16 / n, ('fsdp',)))
STAGES, STAGE_PARAMETERS, REPLICAS = 256, 1000000, (8, 64)


def on_fullest(orrery, n, words):
    told = ask(orrery, 'simulate', 'stages.dot', '-w', n, '-m', n, '--precision', 'bf16', '-s', *words)
    return max(worker['memory_bytes'] for worker in told['worker']) / STAGES / STAGE_PARAMETERS


def of_a_parameter(orrery):
    print('''
## What a parameter takes

Weights, gradient and AdamW's state of a parameter on each of n data-parallel workers, in bytes; published [Rajbhandari20] with
weights and gradients of 16 bits, here `--precision bf16` with [weights, gradients and sums of
32](../src/plan/README.md#memory-of-a-parameter). 256 equal stages.

| | as | ''' + ' | '.join(f'n = {n}, published | here' for n in REPLICAS) + ' |')
    print('|---|---|' + '---:|' * 2 * len(REPLICAS))
    with open('stages.dot', 'w', encoding='utf-8') as file:
        file.write(f'digraph stages {{ s [repeat={STAGES}, forward=1, backward=2, parameters="{4 * STAGE_PARAMETERS}B"]; }}')
    for name, published, words in SHARED:
        cells = []
        for n in REPLICAS:
            cells += [f'{published(n):.2f}', f'{on_fullest(orrery, n, words):.2f}' if words else '']
        print(row(name, f'`{" ".join(words)}`' if words else 'not there', *cells))
    print('''
- Copied and ZeRO 1, 22 and 14 + 8/n: weights and gradient take 4 bytes each and not 2, the copy of a weight in bf16 2, and the
  running sum of the gradient 4.
- ZeRO 2, which divides gradients as well, would have every microbatch's gradient sent to those that keep its parts. Here a
  replica sums its own over all of its microbatches, and sends the sum.
- ZeRO 3, 16/n, and 2 for the weights in bf16, which a worker rounds once a step and keeps (none in fp32), and 0.14 for the
  parameters and gradients of 9 stages on their way.''')


def of_a_layer(orrery):
    print('''## What a layer keeps

[Korthikanti23] counts what a layer keeps from its forward for its backward, in 16 bits: for s tokens, h columns, a heads and b
samples sbh(34 + 5as/h) bytes, sbh(10 + 24/t + 5as/(ht)) split among t workers with `:copied`, sbh/t (34 + 5as/h) by rows, and
34 sbh/t where attention's scores are computed again. Here is the same layer as Orrery counts its stash, `--precision bf16`, in
bytes for a token and a column (divided by sbh): of the model of 175 billion parameters, whose 5as/h is 80.
''')
    per_operator(orrery)
    print('''
- **Norms** keep their rows normalised, in 32 bits, and a factor a row: 4 bytes where 2 are published.
- **Attention** works in tiles: it keeps one number for a head and token instead of the scores, a softmax and a mask, and its
  output, which `out` reads, too, and which a stage with both keeps once.
- **Masks** of `dropout` are drawn again in the backward: none is kept.

So a layer keeps 36sh + 8s + 4as bytes a sample. On one of 8 workers, with what `recompute=true` leaves out:

| a layer | ''' + ' | '.join(f'{name}, published | here' for name, _, _ in MODELS) + ' |')
    print('|---|' + '---:|' * 2 * len(MODELS))
    for i in range(len(ways(1, 1))):
        cells = []
        for _, heads, hidden in MODELS:
            name, published, split, again = ways(heads, hidden)[i]
            parts = int(split.split(':')[0])
            stash, made = (x / TOKENS / hidden for x in max(
                kept(orrery, layer(heads, hidden, again=again), 3, split)[parts:2 * parts]))
            cells += ['' if published is None else f'{published:.2f}', f'{stash:.2f}' + (f' + {made:.2f}' if again else '')]
        print(row(name, *cells), flush=True)
    print('''
- By rows, products keep what they gathered, which the paper gathers again: 4 + 32/t here.
- Sums between layers have 32 bits: 4 bytes where a layer keeps only what it begins with.
- Behind a plus is what a backward makes again while it lasts: the most of [operators that are made
  again together](README.md#operators-that-are-computed-again). Of a stage with n such layers, n keep what is before it, and one
  at a time has what is behind it.
- Of a context divided among c workers, each keeps a layer of s/c tokens; [Llama 3.1 405B](README.md#published-models) is written
  so. Attention keeps keys and values of all, unless what brings them has `recompute=true`.''')


def main(options):
    print("# Memory of transformers\n\nWritten by `tools/table memory ORRERY`.\n")
    with tempfile.TemporaryDirectory() as room:
        os.chdir(room)
        of_a_layer(options.orrery)
        of_a_parameter(options.orrery)
