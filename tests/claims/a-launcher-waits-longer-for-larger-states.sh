# What reads or writes the whole state may take 60 s and 80 ns for each of its numbers, parameters and AdamW's two, before a rank
# is said to hang: a checkpoint of a large model takes minutes.
needs_training
python3 - "$orrery" "$source" <<'P'
import os, re, socket, struct, subprocess, sys, tempfile

orrery, source = sys.argv[1:]
with tempfile.TemporaryDirectory() as folder:
    launcher = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    launcher.bind(folder + '/beats')
    launcher.listen()
    graph = source + '/graphs/digits.dot'
    trained = subprocess.run([orrery, 'train', graph, '-w', '1', '--steps', '2', '--optimizer', 'adamw', '--lr', '1e-3'],
                             env={**os.environ, 'ORRERY_KEEP': folder}, capture_output=True, text=True)
    if trained.returncode:
        sys.exit(trained.stderr)
    beats, _ = launcher.accept()
    told = [struct.unpack('5q', packet) for packet in iter(lambda: beats.recv(40), b'')]
shown = subprocess.run([orrery, 'show', graph], capture_output=True, text=True).stdout
n = int(re.search(r'parameters: (\d+) floats', shown)[1])
LONG = 1
waits = [patience for kind, *_, patience in told if kind == LONG]
# the first beat comes before the graph is read; that of training's end knows the size
if waits[0] != 60e9 or not n or min(waits[1:]) < 60e9 + 3 * n * 80:
    sys.exit(f'{n} parameters: {waits}')
P
