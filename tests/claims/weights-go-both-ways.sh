# --save-weights writes a model's weights as a plain safetensors file, --init begins with such a file to the bit, also one that is not
# Orrery's, and --steps 0 evaluates it as it is.
needs_training
graph=$source/graphs/digits.dot
train() { "$orrery" train "$graph" -w 2 "$@" 2>err; }

train --steps 40 --save-weights trained.safetensors --checkpoint ck --json >trained.json
train --steps 0 --init trained.safetensors --save-weights again.safetensors --json >again.json
cmp trained.safetensors again.safetensors
train --steps 0 --init ck/step-00000040/shard-0.safetensors --json >shard.json # with what the optimizer keeps
train --steps 0 --json >drawn.json
python3 - <<'PYTHON'
import json
trained, again, shard, drawn = (json.load(open(f'{name}.json')) for name in ('trained', 'again', 'shard', 'drawn'))
assert trained['loss'] == again['loss'] == shard['loss'] and trained['accuracy'] == again['accuracy']
assert again['steps'] == 0 and drawn['loss'] > 2 * trained['loss']
PYTHON
train --steps 0 --init trained.safetensors >out
grep -q '^Nothing to train: 0 steps' out && grep -q '^Test loss ' out

# as others write it: halves, in another order, with notes; they are what is then trained from
python3 - <<'PYTHON'
import json, struct
content = open('trained.safetensors', 'rb').read()
start = 8 + int.from_bytes(content[:8], 'little')
tensors = {name: x for name, x in json.loads(content[8:start]).items() if name != '__metadata__'}
assert tensors['fc4.weight']['dtype'] == 'F32' and len(tensors['fc4.weight']['shape']) == 2, tensors['fc4.weight']
header, data = {'__metadata__': {'format': 'pt'}}, b''
for name in sorted(tensors, reverse=True):
    first, last = tensors[name]['data_offsets']
    halves = b''.join(content[start + at + 2:start + at + 4] for at in range(first, last, 4)) # bfloat16, cut
    header[name] = {'dtype': 'BF16', 'shape': tensors[name]['shape'], 'data_offsets': [len(data), len(data) + len(halves)]}
    data += halves
text = json.dumps(header).encode()
open('halves.safetensors', 'wb').write(struct.pack('<Q', len(text)) + text + data)
PYTHON
train --steps 10 --init halves.safetensors --schedule gpipe --save-weights one.safetensors >/dev/null
train --steps 10 --init halves.safetensors --schedule zb-h1 --save-weights two.safetensors >/dev/null
cmp one.safetensors two.safetensors

refuse() {
	message=$1 code=0
	shift
	train "$@" >out || code=$?
	[ $code -eq 2 ] && [ ! -s out ] && [ "$(wc -l <err)" -eq 1 ] && grep -qF -- "$message" err || { cat err && exit 1; }
}
refuse '--init gives the weights' --steps 5 --init one.safetensors --checkpoint ck --resume
refuse '--init-partly: with what?' --steps 5 --init-partly
refuse 'no whole safetensors file' --steps 5 --init "$source/graphs/digits.dot"
sed 's/fc5/head/g' "$graph" >other.dot
cp -r "$source/graphs/data" .
graph=other.dot
refuse "lacks 2 of the model's tensors (head.weight, head.bias): give --init-partly" --steps 5 --init one.safetensors
train --steps 0 --init one.safetensors --init-partly >out
grep -q "lacks 2 of the model's tensors (head.weight, head.bias), .*; 2 left over (fc5.weight, fc5.bias)$" err
refuse 'what is read' --steps 5 --init one.safetensors --init-partly --save-weights one.safetensors
