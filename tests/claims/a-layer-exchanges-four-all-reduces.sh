# Split among t workers, a layer of a transformer exchanges four all-reduces a microbatch, forward and backward together, of which a worker sends 2(t-1)/t of the tensor each: by rows, and copied.
python3 - "$orrery" <<'END'
import json, subprocess, sys
ROWS, HIDDEN, SAMPLES = 8, 16, 4

def layers(n):
    text = f'digraph g {{ x [op=input, columns="0:{ROWS}", rows={ROWS}]; e [op=linear, features={HIDDEN}]; x -> e; '
    last = 'e'
    for i in range(n):
        text += (f'n{i} [op=layernorm]; q{i} [op=linear, features={HIDDEN}]; k{i} [op=linear, features={HIDDEN}]; '
                 f'v{i} [op=linear, features={HIDDEN}]; a{i} [op=attention, heads=4]; o{i} [op=linear, features={HIDDEN}]; '
                 f's{i} [op=add]; m{i} [op=layernorm]; u{i} [op=linear, features={4 * HIDDEN}]; g{i} [op=gelu]; '
                 f'd{i} [op=linear, features={HIDDEN}]; t{i} [op=add]; {last} -> n{i} -> {{q{i} k{i} v{i}}} -> a{i} -> o{i} '
                 f'-> s{i} -> m{i} -> u{i} -> g{i} -> d{i} -> t{i}; {last} -> s{i} -> t{i}; ')
        last = f't{i}'
    return text + (f'z [op=layernorm]; c [op=mean]; f [op=linear, features=1]; y [op=input, columns={ROWS}]; l [op=mse]; '
                   f'{last} -> z -> c -> f -> l; y -> l }}')

def moved(n, split):
    with open('g.dot', 'w') as file:
        file.write(layers(n))
    told = json.loads(subprocess.run([sys.argv[1], 'simulate', 'g.dot', '--split', split, '--stages', '1', '-m', '1', '--batch',
                                      str(SAMPLES), '--bandwidth', '1GB/s', '--json'], capture_output=True, check=True).stdout)
    return [w['recv_activation_bytes'] + w['recv_gradient_bytes'] for w in told['worker']]

for split in ('2', '4', '2:copied', '4:copied'):
    t = int(split[0])
    layer = [b - a for a, b in zip(moved(2, split), moved(3, split))]
    wanted = 4 * 2 * (t - 1) * SAMPLES * ROWS * HIDDEN * 4 // t
    assert layer == [wanted] * t, (split, layer, wanted)
    print(split, layer, wanted)
END
