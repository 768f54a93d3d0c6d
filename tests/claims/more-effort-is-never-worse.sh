# With more effort auto never finds a longer order, on links neither.
cat >study.py <<'PY'
import json, random, subprocess, sys

for seed in (7, 16):
    draw = random.Random(seed)
    n = draw.randint(5, 8)
    edges = [(draw.randrange(i), i) for i in range(1, n)]
    with open("g.dot", "w") as file:
        print("digraph g {", file=file)
        for i in range(n):
            costs = [draw.randint(1, 20) for _ in range(4)]
            print("s%d [forward=%d, backward=%d, weight=%d, activation=%d, stage=%d]" % (i, *costs, i), file=file)
        for a, b in edges:
            print("s%d -> s%d" % (a, b), file=file)
        print("}", file=file)
    for links in ([], ["--latency", "1"], ["--bandwidth", "10B/s"]):
        last = None
        for effort in (1, 2, 3, 4, 8):
            command = [sys.argv[1], "simulate", "g.dot", "--workers", str(3 + seed % 3), "-m", "6", "--json", *links,
                       "--schedule", "auto:placement=straight,memory=3,effort=%d" % effort]
            makespan = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["makespan"]
            assert last is None or makespan <= last, (seed, links, effort, makespan, last)
            last = makespan
PY
python3 study.py "$orrery"
