"""More pipeline or more tensor parallelism? The question of [Qi24, appendix D.4]: graphs/TENSOR.md is what this writes."""
import functools
import os
import tempfile

from common import ask, row

HIDDEN, HEADS, LAYERS, VOCABULARY = 10240, 80, 78, 51200   # 98.5B of [Qi24, table 2]
ROWS, SAMPLES = 128, 8   # a sequence of 1024 tokens as eight of 128: attention apart, the same work
BATCH = 160              # sequences
PEAK, REACHED = 312e12, 0.6
# MFU in percent of [Qi24, table 6], microbatches of one sequence, one replica: 1F1B, ZB-1P, V-Half, V-ZB
MEASURED = {1: (48.63, 54.52, 52.46, 57.58), 2: (49.14, 52.43, 51.73, 54.19),
            4: (46.99, 47.83, 47.59, 48.58), 8: (40.66, 40.56, 40.07, 41.22)}
SCHEDULES = ('1f1b', 'zb-1p', 'v-half', 'v-zb')

# Eight GPUs a node, five nodes. Activations here are float32 and were bfloat16 there, so that links are twice as fast here.
MACHINE = '''graph nodes {
    ports=true; waiting=in_order; bandwidth="50GB/s"; latency="5us";
    subgraph cluster_node { repeat=5; bandwidth="600GB/s"; latency="3us"; gpu [repeat=8]; }
}
'''


def block(name, before, hidden, heads, causal=True):
    """The operators of a layer of a transformer behind `before`; the last one's name."""
    return f'''    {name}_n1 [op=layernorm]; {name}_q [op=linear, features={hidden}]; {name}_k [op=linear, features={hidden}];
    {name}_v [op=linear, features={hidden}]; {name}_a [op=attention, heads={heads}, causal={str(causal).lower()}];
    {name}_o [op=linear, features={hidden}]; {name}_s1 [op=add]; {name}_n2 [op=layernorm];
    {name}_f1 [op=linear, features={4 * hidden}]; {name}_g [op=gelu]; {name}_f2 [op=linear, features={hidden}];
    {name}_s2 [op=add];
    {before} -> {name}_n1 -> {{{name}_q {name}_k {name}_v}} -> {name}_a -> {name}_o -> {name}_s1 -> {name}_n2;
    {before} -> {name}_s1 -> {name}_s2; {name}_n2 -> {name}_f1 -> {name}_g -> {name}_f2 -> {name}_s2;
''', f'{name}_s2'


def gpt(stages):
    """As there, the first and the last stage have a layer less, for the embedding and the scores."""
    def stage(place):
        return f'    node [stage={place * stages // (LAYERS + 2)}];\n'
    text = 'digraph gpt {\n' + stage(0) + f'''    ids [op=input, columns="0:{ROWS}", rows={ROWS}];
    embed [op=embedding, vocabulary={VOCABULARY}, features={HIDDEN}];
    ids -> embed;
'''
    last = 'embed'
    for layer in range(LAYERS):
        more, last = block(f'l{layer}', last, HIDDEN, HEADS)
        text += stage(layer + 1) + more
    return text + stage(LAYERS + 1) + f'''    norm [op=layernorm]; scores [op=linear, features={VOCABULARY}, bias=false];
    next [op=input, columns="{ROWS}:{2 * ROWS}", rows={ROWS}]; loss [op=softmax_cross_entropy];
    {last} -> norm -> scores -> loss; next -> loss;
}}
'''


def tower(name, layers, hidden, heads, rows, first):
    """A tower whose layers are in one encoder; a row has one number of the data."""
    text = f'''    subgraph cluster_{name} {{
    {name}_ids [op=input, columns="{first}:{first + rows}", rows={rows}];
    {name}_embed [op=linear, features={hidden}];
    {name}_ids -> {name}_embed;
'''
    last = f'{name}_embed'
    for layer in range(layers):
        more, last = block(f'{name}{layer}', last, hidden, heads)
        text += more
    return text + f'''    {name}_mean [op=mean]; {name}_out [op=linear, features=1024];
    {last} -> {name}_mean -> {name}_out;
    }}
'''


def clip():
    """The towers of CLIP ViT-L/14 [Radford21]: 24 layers of 1024 on 257 rows, 12 of 768 on 77."""
    return 'digraph clip {\n' + tower('image', 24, 1024, 16, 257, 0) + tower('text', 12, 768, 12, 77, 257) + '''
    joined [op=multiply]; target [op=input, columns="334:1358"]; loss [op=mse];
    image_out -> joined; text_out -> joined; joined -> loss; target -> loss;
}
'''


@functools.cache
def flop_of_a_step(orrery):
    """Of the model in gpt.dot, whatever its stages."""
    told = ask(orrery, 'show', 'gpt.dot')
    return (told['forward_flop'] + told['backward_flop']) * BATCH * SAMPLES


def step(orrery, stages, schedule, *words):
    """Of the model on 40 workers: what simulate tells, the MFU in percent, and GB on the fullest."""
    with open('gpt.dot', 'w') as file:
        file.write(gpt(stages))
    told = ask(orrery, 'simulate', 'gpt.dot', '--schedule', schedule, '-w', 40, '-m', BATCH, '--batch', BATCH * SAMPLES,
               '--flops', f'{PEAK * REACHED:g}', '--machine', 'nodes.dot', *words)
    memory = max(worker['memory_bytes'] for worker in told['worker']) / 1e9
    return told, 100 * flop_of_a_step(orrery) / (40 * PEAK * told['makespan']), memory


def pipeline_or_tensor(orrery):
    print('''# More pipeline or more tensor parallelism?

[Qi24, appendix D.4] compares both on 40 GPUs and finds more pipeline better. Here the same by simulation: a model of 98.5
billion parameters, 160 sequences of 1,024 tokens, one per microbatch, split among t workers of a node (`--split t`, by rows
between products [Korthikanti23]) and cut into 40/t stages. GPUs compute at 60% of their peak whatever the shapes; links are
300 GB/s inside a node of eight and 25 GB/s between nodes, and a worker sends one thing at a time, so an exchange takes the
time of a ring, and in order (`waiting=in_order`), as a stream for all of them does. The table has the MFU in percent: the
share of the peak that the model's FLOP take; measured: table 6 there.

Written by `tools/table tensor ORRERY`.

| t | stages | ''' + ' | '.join(f'{s} | measured' for s in SCHEDULES) + ' | GB on the fullest GPU, 1f1b |')
    print('|---|---|' + '---|---|' * len(SCHEDULES) + '---|')
    for t in MEASURED:
        cells, memory = [], {}
        for schedule, measured in zip(SCHEDULES, MEASURED[t]):
            folds = 2 if schedule.startswith('v-') else 1
            _, mfu, memory[schedule] = step(orrery, 40 // t * folds, schedule, '--split', t)
            cells += [f'{mfu:.1f}', measured]
        print(row(t, 40 // t, *cells, f'{memory["1f1b"]:.0f}'), flush=True)
    print('''
The simulation ignores that thinner products reach less of the peak [Qi24, figure 12]: for t of 1 and 2 it is within 6% of the
measurement, for 8 up to 17% above. The ranking is the same: with little bubble (v-zb), the more pipeline the better.''')


def towers(orrery):
    print('''
## Two towers

The towers of CLIP ViT-L/14 on 8 GPUs of one node, 64 pairs, links of 300 and of 25 GB/s: the six best splits that
`orrery plan --split any --straight --contiguous` tries. Step: simulated, in milliseconds.
''')
    with open('clip.dot', 'w') as file:
        file.write(clip())
    for i, (m, link) in enumerate(((4, 600), (4, 50), (16, 50))):
        told = ask(orrery, 'plan', 'clip.dot', '--split', 'any', '-w', 8, '--bandwidth', f'{link}GB/s', '-m', m, '--batch', 64,
                   '--flops', f'{PEAK * REACHED:g}', '--straight', '--contiguous')
        print('\n' * (i > 0) + f'| split, {m} microbatches, {link // 2} GB/s | groups | stages | step | GB on the fullest |')
        print('|---|---|---|---|---|')
        for tried in sorted(told['splits'], key=lambda x: x['makespan'])[:6]:
            print(row(tried['split'], tried['groups'], tried['stages'], f'{tried["makespan"] * 1e3:.2f}',
                      f'{tried["memory_bytes"] / 1e9:.1f}'), flush=True)


def main(options):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open('nodes.dot', 'w') as file:
            file.write(MACHINE)
        pipeline_or_tensor(options.orrery)
        towers(options.orrery)
