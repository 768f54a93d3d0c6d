# What is frozen stays as it was drawn, to the bit, and has no moments in a checkpoint; what is trained learns; a profile
# has no backward where nothing is trained.
needs_training
train() { "$orrery" train "$source/graphs/frozen_towers.dot" --batch 96 --checkpoint ck --keep 0 --json "$@" 2>err; }
train --schedule gpipe -w 2 -m 4 --steps 1 >json
train --schedule zb-h1 -w 5 -m 16 --steps 120 --every 120 --resume >json
cat >check.py <<'P'
import json, struct

def tensors(step):
    shard = open(f'ck/step-{step:08}/shard-0.safetensors', 'rb').read()
    n = struct.unpack('<Q', shard[:8])[0]
    header = json.loads(shard[8:8 + n])
    return {name: shard[8 + n + at['data_offsets'][0]:8 + n + at['data_offsets'][1]]
            for name, at in header.items() if name != '__metadata__'}

first, last = tensors(1), tensors(120)
assert first.keys() == last.keys()
frozen = [name for name in last if name.startswith('upper')]
assert sorted(frozen) == ['upper_fc1.bias', 'upper_fc1.weight', 'upper_fc2.bias', 'upper_fc2.weight'], frozen
assert all(any(first[name]) for name in frozen if name.endswith('weight'))
assert all((first[name] == last[name]) == (name in frozen) for name in last)
assert 'lower_fc1.weight.first_moment' in last
assert json.load(open('json'))['accuracy'] > 0.9
P
python3 check.py
"$orrery" profile "$source/graphs/frozen_towers.dot" -w 2 -m 4 -o profile.dot >/dev/null
"$orrery" simulate profile.dot -w 5 -m 8 --json >report.json
python3 -c 'import json
report = json.load(open("report.json"))
assert [stage["backward"] > 0 for stage in report["stages"]] == [False, False, True, True, True]
assert [worker["recv_gradients"] for worker in report["worker"]] == [0, 0, 8, 8, 0]
assert [worker["peak_stash_bytes"] > 0 for worker in report["worker"]] == [False, False, True, True, True]'
