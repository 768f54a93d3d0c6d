# A checkpoint whose checksums fit is refused all the same where its step is beyond any training, its tensors overlap or
# a number is not finite; and no training writes one with such a number.
needs_training
python3 -c 'import ctypes; ctypes.CDLL("libxxhash.so.0")' || { echo 'no libxxhash.so.0 for Python'; exit 77; }
cat >craft.py <<'END'
import ctypes, json, os, re, struct, sys

class Hash(ctypes.Structure):
    _fields_ = [('low', ctypes.c_uint64), ('high', ctypes.c_uint64)]

xxhash = ctypes.CDLL('libxxhash.so.0')
xxhash.XXH3_128bits.restype = Hash
xxhash.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]

def checksum(content):
    value = xxhash.XXH3_128bits(content, len(content))
    return f'{value.high:016x}{value.low:016x}'

step, what = sys.argv[1:]
shard = open(step + '/shard-0.safetensors', 'rb').read()
start = 8 + struct.unpack('<Q', shard[:8])[0]
header, data = json.loads(shard[8:start]), shard[start:]
if what == 'overlap':
    first = header['tl_fc1.weight.first_moment']['data_offsets']
    header['tl_fc1.weight.second_moment']['data_offsets'] = first
if what == 'infinite':
    data = data[:400] + struct.pack('<f', float('inf')) + data[404:]
text = json.dumps(header).encode()
shard = struct.pack('<Q', len(text)) + text + data
open(step + '/shard-0.safetensors', 'wb').write(shard)

# numbers with a point are kept as they are printed
manifest = json.load(open(step + '/manifest.json'), parse_float=lambda number: '@' + number)
manifest.pop('checksum')
manifest['shards'][0].update(bytes=len(shard), xxh3_128=checksum(shard))
if what == 'step':
    manifest['step'] = 2 ** 63 - 1

def printed(**how):
    return re.sub('"@([^"]*)"', r'\1', json.dumps(manifest, ensure_ascii=False, **how))

manifest['checksum'] = checksum(printed(separators=(',', ':'), sort_keys=True).encode())
open(step + '/manifest.json', 'w').write(printed())
if what == 'step':
    os.rename(step, f"{os.path.dirname(step)}/step-{manifest['step']}")
END

train() { folder=$1; shift; "$orrery" train "$source/graphs/digits.dot" --every 10 --checkpoint $folder "$@"; }
train good --steps 20
while read -r what message; do
	rm -rf run
	cp -a good run
	python3 craft.py run/step-00000020 $what
	train run --steps 20 --resume 2>err
	[ $what = none ] || grep -q "$message" err
	# StarPU may have warnings of its own
	[ $what != none ] || ! grep -q step-00000020 err
done <<END
none
step no training has 9223372036854775807 steps
overlap its tensors overlap or leave gaps
infinite is not finite: the training had diverged
END

train wild --steps 30 --optimizer sgd --lr 1e6 >/dev/null 2>&1 || true
python3 - wild/step-*/shard-0.safetensors <<'END'
import array, math, os, sys
for path in filter(os.path.exists, sys.argv[1:]):
    content = open(path, 'rb').read()
    numbers = array.array('f', content[8 + int.from_bytes(content[:8], 'little'):])
    assert all(map(math.isfinite, numbers)), path
END
