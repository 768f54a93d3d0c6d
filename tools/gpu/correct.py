"""Parts that compare: kernels, losses under schedules and precisions, memory, and what compute-sanitizer finds."""
import concurrent.futures
import os
import re
import shutil
import subprocess
import threading
import time

from .check import ENDED, Failure, Skip, TimeIsUp, last_line
from .trainings import DIGITS, SGD, Refused, apart

STEPS = 20
TOLERANCE = 1e-3
# what products read is rounded to 8 and to 11 bits, in another order of sums
ROUNDED = {"tf32": 1e-2, "bf16": 2e-2}
ASYNCHRONOUS = ("pipedream",)
CHECKS = re.compile(r"(?m)^\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)$")
LIMIT = 1900 * 10**6
# what lies on a device beside the data: contexts, libraries, workspaces; measured, but not to the byte
SLACK = 0.05


class Correct:
    def __init__(self, check, build, trainings):
        self.check, self.build, self.trainings = check, build, trainings

    def kernels(self, part):
        """Every test of CUDA's kernels against the CPU's."""
        self.build.need()
        if not self.build.tests:
            raise Skip("this build has no tests of CUDA kernels (is Check there?)")
        passed, skipped = 0, {}
        for program in self.build.tests:
            name = os.path.basename(program)
            # StarPU's threads do not survive forks
            code, text = self.check.run([program], **({"CK_FORK": "no"} if name == "test_cuda_reduce" else {}))
            if code == ENDED:
                raise self.check.time_is_up(name)
            why = re.findall(r"(?m)^SKIP: (.*)$", text)
            if why or code == 77:
                skipped.setdefault("; ".join(why) or "no word of why", []).append(name)
            checks = [[int(n) for n in found] for found in CHECKS.findall(text)]
            good = sum(n - failed - errors for n, failed, errors in checks) or int(code == 0 and not checks)
            if code != 77:
                part.compare(f"{name}: {last_line(text)}", code == 0)
                passed += good
        part.figures.update(programs=len(self.build.tests), passed=passed, skipped=skipped)
        if not passed:
            raise Skip("; ".join(f"{', '.join(names)}: {why}" for why, names in skipped.items()) or "no test ran")

    # ---- losses ----

    def schedules(self):
        text = self.check.must([self.build.orrery, "schedules"])
        return [line.split()[0] for line in text.splitlines() if re.match("[a-z0-9]", line)]

    def at_once(self, work, items):
        # several: most of a run is StarPU's and CUDA's start
        with concurrent.futures.ThreadPoolExecutor(max(1, min(4, self.trainings.cores // 4))) as pool:
            return list(pool.map(work, items))

    def curve(self, part, name, losses, expected, tolerance):
        """One comparison: of all steps, and of a model that learns something."""
        off = apart(losses, expected)
        part.compare(f"{name}: {len(losses)} of {len(expected)} steps", off is not None)
        if off is not None:
            part.compare(f"{name}: losses {off:.2g} off, more than {tolerance:g}", off <= tolerance)
            part.compare(f"{name}: the loss did not fall", losses[-1] < losses[0])
        return off

    def towers(self, part):
        """The towers of 109 million parameters: their losses in every precision, under schedules of every kind, against
        the CPU's."""
        t = self.trainings
        self.build.need_device()
        graph, data = t.towers()
        words = ["--steps", STEPS, "-m", 8, "--batch", 32, "--stages", 8, "--timeout", 40, *data, *SGD]
        cpu = ["--device", "cpu", "--workers", min(8, t.cores)]
        expected = {"fp32": t.must_train(graph, *cpu, "--schedule", "gpipe", *words)[0]}
        precisions = ["fp32"] + [p for p in ROUNDED if p != "tf32" or t.on_device]
        # rounded there as here
        expected["bf16"] = t.must_train(graph, *cpu, "--schedule", "gpipe", "--precision", "bf16", *words)[0]
        expected["tf32"] = expected["fp32"]
        cases = [(p, "gpipe", 1) for p in precisions] + [("fp32", "1f1b", 8), ("bf16", "zb-h1", 8), ("fp32", "interleaved", 4),
                                                        ("fp32", "chimera", 8), ("fp32", "fsdp", 2)]

        def compare(case):
            precision, schedule, workers = case
            return t.train(graph, *t.device(), "--schedule", schedule, "--workers", workers, "--precision", precision, *words)[0]

        refused = []
        for case, found in zip(cases, self.at_once(self.caught(compare), cases)):
            name = f"{case[1]}, {case[0]}, {case[2]} worker{'s' * (case[2] > 1)}"
            if isinstance(found, Refused):
                refused.append(f"{name}: {found}")
            elif isinstance(found, Exception):
                raise found
            else:
                part.figures[name] = self.curve(part, name, found, expected[case[0]], ROUNDED.get(case[0], TOLERANCE))
        if refused:
            raise Skip("; ".join(refused))

    @staticmethod
    def caught(work):
        """What it raises is its result: one that fails does not lose the others."""
        def run(item):
            try:
                return work(item)
            except (Skip, Failure) as why:
                return why

        return run

    def every_schedule(self, part):
        """The digits under every schedule, with the first number of workers that it takes, against the CPU."""
        t = self.trainings
        self.build.need_device()
        words = ["--steps", STEPS, "-m", 8, "--batch", 96, "--timeout", 40]  # what hangs says so
        cpu = ["--device", "cpu", "--schedule"]
        expected = t.must_train(DIGITS, *cpu, "gpipe", "--workers", min(6, t.cores), *words)[0]
        # a schedule that does not flush reads other versions than the rest
        own = {name: t.must_train(DIGITS, *cpu, name, "--workers", 6, *words)[0] for name in ASYNCHRONOUS}

        def losses(name):
            for workers in (6, 3, 2):
                if self.check.left() < 10:
                    return None
                try:
                    return t.train(DIGITS, *t.device(), "--schedule", name, "--workers", workers, *words)[0]
                except Refused as why:
                    refused = why
            return refused

        names, late, offs = self.schedules(), [], {}
        for name, found in zip(names, self.at_once(self.caught(losses), names)):
            if isinstance(found, Refused):
                part.figures.setdefault("refused", []).append(f"{name}: {found}")
            elif found is None or isinstance(found, Skip) or isinstance(found, TimeIsUp):
                late.append(name)
            elif isinstance(found, Exception):
                part.compare(f"{name}: {found}", False)
            else:
                offs[name] = self.curve(part, name, found, own.get(name, expected), TOLERANCE)
        part.figures["largest relative difference of a loss"] = max((o for o in offs.values() if o is not None), default=None)
        part.figures["schedules"] = len(offs)
        if late:
            raise Skip(f"{len(offs)} schedules were compared; no time was left for {', '.join(late)}")

    # ---- memory ----

    def memory_of(self, work):
        """What work gives, and the most memory that was in use on each device meanwhile, in bytes, beyond what was before."""
        before, most, over = used_memory(), [], threading.Event()

        def watch():
            ended = False
            while not ended:
                ended = over.wait(0.1)
                now = used_memory()
                most[:] = [max(a, b) for a, b in zip(most or now, now)]

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            found = work()
        finally:
            over.set()
            watcher.join()
        return found, [max(0, m - b) for m, b in zip(most, before)]

    def memory(self, part):
        """Less memory than the step takes: the same losses to the bit, data that moves out, and the limit kept."""
        t = self.trainings
        self.build.need_device()
        graph, data = t.towers()
        words = [*t.device(), "--schedule", "gpipe", "--workers", 1, "--stages", 8, "-m", 8, "--batch", 1024, "--steps", 5,
                 *data, *SGD]
        _, idle = self.memory_of(lambda: t.must_train(DIGITS, *t.device(), "--workers", 1, "--steps", 20))
        (free, _), all_of_it = self.memory_of(lambda: t.must_train(graph, *words))
        if not t.on_device:
            raise Skip("--memory limits a device's memory, and there is none")
        (tight, report), limited = self.memory_of(lambda: t.must_train(graph, *words, "--memory", f"{LIMIT // 10**6}MB"))
        part.figures["moved in 5 steps"] = report["moved"]
        out = sum(m["bytes"] for m in report["moved"] if m["from"].startswith("CUDA"))
        part.compare("the losses are not those of a run without the limit", free == tight)
        part.compare("nothing was moved to main memory", out > 0)
        if not idle or not limited:
            part.target("bytes on the device", None, at_most=LIMIT, why="nvidia-smi says nothing of memory")
            return
        part.figures.update({"bytes of the runtime alone": idle[0], "bytes without the limit": all_of_it[0]})
        part.target("bytes on the device, beyond those of the runtime", max(0, limited[0] - idle[0]),
                    at_most=LIMIT * (1 + SLACK))

    def sharding(self, part):
        """Fully sharded: the losses of one worker, and on several devices less memory on each than with all parameters."""
        t = self.trainings
        self.build.need_device()
        n = min(8, max(2, len(used_memory())))
        graph, data = t.towers()
        words = ["--stages", 8, "-m", 8, "--batch", 64, "--steps", 5, *t.device(), *data, *SGD]
        alone = t.must_train(graph, *words, "--schedule", "gpipe", "--workers", 1)[0]
        part.figures["workers"] = n
        used = {}
        for name in ("ddp", "fsdp"):
            (losses, report), used[name] = self.memory_of(
                lambda s=name: t.must_train(graph, *words, "--schedule", s, "--workers", n))
            part.figures[f"{name}: most bytes on a device"] = max(used[name], default=None)
            part.figures[f"{name}: moved"] = report["moved"]
            self.curve(part, name, losses, alone, TOLERANCE)
        if len(used_memory()) < 2:
            part.figures["memory"] = "one device has all shares: how much less each needs shows on two"
            return
        # of parameters, gradients and state one nth stays, and two stages' parameters pass through
        part.target("fsdp: bytes on a device, of those under ddp", max(used["fsdp"]) / max(used["ddp"]), at_most=0.7)

    # ---- bounds and races ----

    def sanitizer(self, part):
        tool = shutil.which("compute-sanitizer", path=self.check.env["PATH"])
        if not tool:
            raise Skip("compute-sanitizer is not installed")
        self.build.need_device()
        programs = [p for p in self.build.tests if p.endswith("test_cuda_kernels")]  # ours; NCCL's are not
        if not programs or not self.trainings.on_device:
            raise Skip("this build has no tests of CUDA kernels, or no device")
        end, late = self.check.limit, []
        for name, share in (("memcheck", 2), ("racecheck", 1)):
            self.check.limit = time.monotonic() + (min(end, self.check.end) - time.monotonic()) / share
            code, text = self.check.run([tool, "--tool", name, "--error-exitcode", "99", programs[0]], CK_FORK="no",
                                        CK_TIMEOUT_MULTIPLIER="100", ORR_SANITIZER="1")
            found = re.findall(r"(?:ERROR SUMMARY|RACECHECK SUMMARY): *(.*)", text)
            part.figures[name] = "out of time" if code == ENDED else found[-1] if found else f"exit code {code}"
            if code == ENDED:
                late.append(name)
            elif not found and code != 99:
                raise Skip(f"{name}: {last_line(text)}")  # such as a device that it does not know
            else:
                part.compare(f"{name}: {part.figures[name]}", code == 0)
        if late:
            raise Skip(f"{', '.join(late)}: out of time")


def used_memory():
    """Of each device, in bytes; none where nvidia-smi does not say."""
    try:
        text = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True,
                              text=True, timeout=10, check=True).stdout
        return [int(line) << 20 for line in text.split()]
    except (OSError, subprocess.SubprocessError, ValueError):
        return []
