#!/usr/bin/env python3
"""Plans as others read them (tools/torch/orrery_torch/export.py): Chakra traces by a decoder of their own, with acyclic
dependencies, a receive for each send and durations that add up; Megatron's layout by its grammar; torchtitan's lists; refusals.

test_export.py ORRERY SOURCE
"""
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter

sys.dont_write_bytecode = True
import checks

orrery, source = (os.path.realpath(path) for path in sys.argv[1:3])
EXPORT = os.path.join(source, 'tools/torch/orrery_torch/export.py')
COMPUTE, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7
TIMES = '--costs 1100us,2300us --activation 3MB'


def export(plan, *words):
    return subprocess.run([sys.executable, EXPORT, plan, *words], capture_output=True, text=True, check=False)


def plan_of(line, name='plan.json', verb='simulate'):
    subprocess.run([orrery, verb, *line.split(), '-o', name], check=True, stdout=subprocess.DEVNULL)
    with open(name, encoding='utf-8') as file:
        return json.load(file)


# ---- protobuf, from its specification ----

def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """(number, value) of a message whose fields are varints and bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        checks.check(key & 7 in (0, 2), f'wire type {key & 7}')
        value, at = varint(data, at)
        if key & 7:
            value, at = data[at:at + value], at + value
            checks.check(at <= len(data), 'a message ends early')
        yield key >> 3, value


def packed(data):
    values, at = [], 0
    while at < len(data):
        value, at = varint(data, at)
        values.append(value)
    return values


def nodes_of(path):
    with open(path, 'rb') as file:
        data = file.read()
    messages, at = [], 0
    while at < len(data):
        size, at = varint(data, at)
        messages.append(data[at:at + size])
        at += size
    checks.check(dict(fields(messages[0])).keys() == {1}, f'{path}: no GlobalMetadata of a version alone')
    nodes = []
    for message in messages[1:]:
        node = {'after': [], 'micros': 0}
        for number, value in fields(message):
            if number == 10:
                name, (_, given) = [value for _, value in fields(value)][:1], list(fields(value))[1]
                node[name[0].decode()] = given
            elif number == 5:
                node['after'] += packed(value)
            else:
                node[{1: 'id', 2: 'name', 3: 'type', 7: 'micros'}[number]] = value
        nodes.append(node)
    return nodes


def check_trace(line, exact=True):
    plan = plan_of(line)
    done = export('plan.json', 'chakra', 'trace')
    checks.check(done.returncode == 0, f'{line}: {done.stderr}')
    ranks = [nodes_of(path) for path in done.stdout.split()]
    checks.check(len(ranks) == plan['workers'], f'{line}: {len(ranks)} files')
    sent, received = Counter(), Counter()
    for w, (nodes, worker) in enumerate(zip(ranks, plan['worker'])):
        checks.check([node['id'] for node in nodes] == list(range(len(nodes))), f'{line}: ids of {w}')
        checks.check(all(i < node['id'] for node in nodes for i in node['after']), f'{line}: {w} waits for what comes later')
        jobs = [node for node in nodes if node['type'] == COMPUTE]
        named = [node['name'].decode() for node in jobs]
        checks.check([name for name in named if 'update' not in name] == worker['order'], f'{line}: jobs of {w}: {named}')
        for before, after in zip(jobs, jobs[1:]):
            checks.check(before['id'] in after['after'], f'{line}: {after} does not wait for {before}')
        checks.check(sum(node['micros'] for node in jobs) == round(worker['busy'] * 1e6), f'{line}: {w} is busy for {worker["busy"]}')
        for node in nodes:
            key = tuple(node.get(name) for name in ('comm_src', 'comm_dst', 'comm_tag', 'comm_size'))
            (sent if node['type'] == SEND else received if node['type'] == RECEIVE else Counter())[key] += 1
            checks.check(node['type'] != SEND or key[0] == w, f'{line}: {w} sends what is of {key[0]}')
            checks.check(node['type'] != RECEIVE or key[1] == w, f'{line}: {w} receives what is for {key[1]}')
        bytes_in = sum(node['comm_size'] for node in nodes if node['type'] == RECEIVE)
        checks.check(bytes_in == worker['recv_activation_bytes'] + worker['recv_gradient_bytes'], f'{line}: {w} receives {bytes_in}')
        rings = sum(node['type'] == COLLECTIVE for node in nodes)
        checks.check(bool(rings) == bool(worker['all_reduce_bytes']), f'{line}: {rings} all-reduces on {w}')
    checks.check(sent == received and set(sent.values()) <= {1}, f'{line}: sends without a receive: {sent - received}')
    check_waits(line, ranks)


def check_waits(line, ranks):
    """No circle over all workers, where a receive waits for its send."""
    node_of = {(w, node['id']): node for w, nodes in enumerate(ranks) for node in nodes}
    send_of = {node['comm_tag']: key for key, node in node_of.items() if node['type'] == SEND}
    done = set()
    while len(done) < len(node_of):
        ready = {key for key, node in node_of.items() if key not in done
                 and all((key[0], i) in done for i in node['after'])
                 and (node['type'] != RECEIVE or send_of[node['comm_tag']] in done)}
        checks.check(ready, f'{line}: {len(node_of) - len(done)} nodes wait for each other')
        if not ready:
            break
        done |= ready


# ---- layouts ----

def stages_of(layout):
    """As Megatron reads it: (..)*n and x*n are repeats, | is between stages."""
    layout = re.sub(r'\(([^)]+)\)\*(\d+)', lambda found: found[1] * int(found[2]), layout.replace(',', ''))
    return re.sub(r'(.)\*(\d+)', lambda found: found[1] * int(found[2]), layout).split('|')


def check_layouts(line, verb, layers):
    """layers: of each stage."""
    plan_of(line, verb=verb)
    wanted = ['t' * n for n in layers]
    wanted = ['E' + wanted[0], *wanted[1:-1], wanted[-1] + 'L'] if len(layers) > 1 else [f'E{wanted[0]}L']
    layout = export('plan.json', 'megatron')
    checks.check(stages_of(layout.stdout.strip()) == wanted, f'{line}: {layout.stdout}{layout.stderr}, and not {wanted}')
    modules = json.loads(export('plan.json', 'torchtitan').stdout)
    checks.check([sum(name.startswith('layers.') for name in part) for part in modules] == layers, f'{line}: {modules}')
    checks.check([name for part in modules for name in part] == [
        'tok_embeddings', *(f'layers.{i}' for i in range(sum(layers))), 'norm', 'lm_head'], f'{line}: {modules}')
    return layout.stdout.strip()


def check_refused(line, what, words, verb='simulate'):
    plan_of(line, verb=verb)
    done = export('plan.json', *words)
    checks.check((done.returncode, done.stderr) == (2, f'plan.json: {what}\n'), f'{line}: {done.stderr}')


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    gpt = os.path.join(source, 'graphs/gpt.dot')
    for schedule in ('1f1b', 'gpipe', 'zb-h1'):
        check_trace(f'chain:4 {TIMES} -m 6 --schedule {schedule}')
    check_trace(f'chain:8 {TIMES} -w 4 -m 8 --schedule interleaved')
    check_trace(f'chain:8 {TIMES} -w 4 -m 8 --schedule v-half')
    check_trace(f'towers:3,2/2 {TIMES} -m 5 --recompute all')
    check_trace(f'chain:4 {TIMES} -w 8 -m 8 --replicas 2 --parameters 10MB')
    check_trace(f'{gpt} -w 4 -m 4')
    with open('many.dot', 'w', encoding='utf-8') as file:  # a value with several readers on a worker
        file.write('digraph { node [forward="1ms", backward="2ms", activation="1MB", update="1ms"]; '
                   'a -> {b c d e f}; b -> {c d e f}; c -> d -> e -> f; }')
    check_trace('many.dot -w 2 -m 4 --stages 6 --schedule interleaved')
    with open('frozen.dot', 'w', encoding='utf-8') as file:
        file.write('digraph { node [forward="1ms", backward="2ms", activation="1MB"]; a [frozen=true]; a -> b -> c; }')
    check_trace('frozen.dot -m 4')

    checks.check(check_layouts('chain:64 -w 8 --stages 16 --schedule interleaved -m 8', 'simulate', [4] * 16)
                 == 'Et*4|(t*4|)*14t*4L', 'the layout of 64 layers is not short')
    check_layouts(f'{gpt} -w 4 -m 4', 'simulate', [1, 1, 1, 1])
    check_layouts(f'{gpt} -w 1 --stages 4 -m 4 --schedule ddp', 'simulate', [1, 1, 1, 1])
    check_layouts('chain:7 -w 3 -m 8 --straight --contiguous', 'plan', [3, 3, 1])

    check_refused(f'{gpt} -w 3 -m 4 --unpin --straight --contiguous --flops 1000000000', 'stage 1 begins inside of layer 1: it has '
                  'b1_attend, and stage 0 has b1_norm1: plan a graph whose operators are whole layers, or pin each layer to a stage',
                  ['megatron'], 'plan')
    check_refused('chain:2 -w 4 -m 8 --parameters 1kB', 'stage 0 is on workers [0, 1, 2, 3], and these frameworks put it on 0: give the '
                  'plan to others as layers a stage without replicas (`plan --straight --contiguous`)', ['megatron'], 'plan')
    check_refused('towers:2,2/1 -m 4', 'stage 2 has tower1.0 behind tower0.1: layers are counted anew, and a layout has those of one '
                  'tower', ['megatron'])
    check_refused('frozen.dot -m 4', 'no operator has the number of a layer, as q.3 and b3_q have: nothing says which layers a '
                  'stage has', ['torchtitan'])
    check_refused('chain:4 -m 4', 'its times are units, and a trace has microseconds: give --costs 1ms,2ms', ['chakra', 'x'])
    check_refused(f'chain:4 {TIMES} -m 4 --schedule pipedream', 'it never flushes', ['chakra', 'x'])
    check_refused('chain:4 --costs 1ms,2ms -m 4 --lengths 1,2,1,2', 'its microbatches differ, and a stage has one cost here',
                  ['chakra', 'x'])
    with open('fast.dot', 'w', encoding='utf-8') as file:
        file.write('graph { slow; fast [speed=2]; }')
    check_refused('chain:2 --costs 1ms,2ms -m 4 --machine fast.dot', "worker 1 is busy for 0.006 s, and its jobs take 0.01 s: "
                  "workers differ in speed, or several compute a job, of which the stages' costs say nothing", ['chakra', 'x'])
checks.finish()
