"""Parts that measure: a race with PyTorch, what a job costs, launches, and the simulator's step beside the device's."""
import json
import os
import shutil
import statistics

from .check import ENDED, Failure, Skip, last_line
from .trainings import DIGITS, Refused

# dense bf16 products, FLOP a second, by the name that nvidia-smi has; the first that fits
PEAKS = (("H100 NVL", 835e12), ("H100 PCIe", 756e12), ("GH200", 989e12), ("H100", 989e12), ("H200", 989e12), ("B200", 2250e12),
         ("B300", 2250e12), ("A100", 312e12), ("A800", 312e12), ("A30", 165e12), ("L40S", 362e12), ("L4", 121e12),
         ("RTX 4090", 165e12))
EAGER, COMPILED, SHARE = 1.2, 1.0, 0.55
# of a job: what a hop between two workers costs on cores
OVERHEAD_US = 30
LAUNCHES_OF_A_BLOCK = 7
SIMULATED = 0.05
LARGE = 8192
NO_DEVICE = "there is no device: times of cores say nothing of it"


class Speed:
    def __init__(self, check, build, trainings, python):
        self.check, self.build, self.trainings, self.python = check, build, trainings, python
        self.on_device = trainings.on_device

    def why_not_judged(self):
        return "" if self.on_device else NO_DEVICE

    # ---- beside PyTorch ----

    def torch(self, model, precision, batches, modes, part):
        """{(mode, batch): case}, and what a product reaches; nothing, and why, where no PyTorch is there."""
        if model == "towers" and not self.on_device:
            sized = ["--width", str(self.trainings.width())]
        else:
            sized = []
        steps = ["--steps", "30", "--warmup", "10"] if self.on_device else ["--steps", "3", "--warmup", "1"]
        code, text = self.check.run(
            [self.python, os.path.join(self.check.tree, "tools/gpu/gpu-torch"), "--model", model, "--precision", precision,
             "--batch", ",".join(map(str, batches)), "--mode", ",".join(modes), "--device", self.build.device, *steps, *sized]
            + (["--product"] if precision == "bf16" else []),
            # its own libraries, not those of the toolkit
            **{name: os.environ.get(name) for name in ("LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "CUDA_HOME")})
        told = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        for case in told:
            if "flops" in case:
                part.figures["FLOP/s of a square product in PyTorch"] = case["flops"]
        cases = {(case["mode"], case["batch"]): case for case in told if "mode" in case}
        if code == ENDED:
            return cases, "its time was up"
        return cases, f"no PyTorch: {last_line(text)}"[:200] if code and not cases else "" if not code else last_line(text)

    def ours(self, graph, words, part, name):
        """Seconds a step, or None; the report says why."""
        try:
            report = self.trainings.train(graph, *self.trainings.device(), *words)[1]
        except Refused as why:
            part.figures[name] = f"refused: {why}"
            return None
        part.figures[name] = {"seconds a step": report["step_seconds"], "samples a second": report["samples_per_second"]}
        return report["step_seconds"]

    def race(self, part, model, precisions, batches):
        """Steps of one stage, one microbatch, beside PyTorch's of the same model, batch, precision and optimizer."""
        t = self.trainings
        self.build.need_device()
        graph, data = t.towers() if model == "towers" else t.gpt()
        if not self.on_device:
            batches = [max(8, batch // 64) for batch in batches]
        steps = 30 if self.on_device else 4
        for precision in precisions:
            if precision == "tf32" and not self.on_device:
                continue
            seconds = {}
            for batch in batches:
                words = ["--workers", 1, "--schedule", "1f1b", "--batch", batch, "--steps", steps, "--precision", precision, *data]
                seconds[batch] = self.ours(graph, [*words, "--stages", 1, "-m", 1], part, f"Orrery, {precision}, batch {batch}")
                if model == "towers" and batch == batches[0]:
                    self.ours(graph, [*words, "--stages", 8, "-m", 4], part,
                              f"Orrery, {precision}, batch {batch}, 8 stages, 4 microbatches")
                self.share(part, graph, precision, batch, seconds[batch])
            # compiling takes a core half a minute
            modes = ["eager", "compiled", "graphs"] if self.on_device else ["eager"]
            cases, why = self.torch(model, precision, batches, modes, part)
            for batch in batches:
                self.compare(part, precision, batch, seconds[batch], cases, why)

    def compare(self, part, precision, batch, ours, cases, why):
        for mode in ("eager", "compiled", "graphs"):
            case = cases.get((mode, batch), {})
            theirs = case.get("step_seconds")
            part.figures[f"PyTorch {mode}, {precision}, batch {batch}"] = (
                {"seconds a step": theirs, "samples a second": case["samples_per_second"]} if theirs
                else case.get("error") or why or "not measured")
            if mode == "graphs":  # beside the point: compiled is what users of torch.compile get
                continue
            wanted = EAGER if mode == "eager" and precision == "bf16" else COMPILED
            part.target(f"{precision}, batch {batch}: PyTorch {mode} / Orrery", theirs / ours if theirs and ours else None,
                        at_least=wanted,
                        why=self.why_not_judged() or ("" if theirs and ours else case.get("error") or why or "not measured"))

    def share(self, part, graph, precision, batch, seconds):
        """Of what the device could multiply at most in that time, in bf16."""
        flop = sum(o["forward_flop"] + o["backward_flop"] + o["weight_flop"] for o in self.build.show(graph)["operators"]
                   if o["op"] in ("linear", "attention"))
        if not seconds:
            return
        part.figures[f"Orrery, {precision}, batch {batch}"]["FLOP/s of products"] = flop * batch / seconds
        if precision != "bf16" or batch not in (LARGE, LARGE // 64) or os.path.basename(graph) == "gpt.dot":
            return
        name = self.check.report.about["device"]
        peak = next((flops for word, flops in PEAKS if word in name), None)
        part.figures["bf16 peak of the device, FLOP/s"] = peak or f"not known of {name}"
        part.target(f"bf16, batch {batch}: share of the device's peak", flop * batch / seconds / peak if peak else None,
                    at_least=SHARE, why=self.why_not_judged() or ("" if peak else f"the peak of {name} is not known"))

    # ---- jobs ----

    def overhead(self, part):
        """Tiny kernels: what lies between two jobs, and the same losses from two streams."""
        t = self.trainings
        self.build.need_device()
        losses, jobs = {}, 2 * 6 * 96
        for streams in (1, 2) if self.on_device else (1,):
            words = [*t.device(), "--schedule", "1f1b", "--workers", streams, "-m", 96, "--batch", 96, "--steps", 20]
            losses[streams], report = t.must_train(DIGITS, *words, *(["--streams", streams] if streams > 1 else []))
            part.target(f"microseconds a job, {streams} stream{'s' * (streams > 1)}, tiny kernels included",
                        1e6 * report["step_seconds"] / jobs, at_most=OVERHEAD_US, why=self.why_not_judged())
            part.figures[f"median job, {streams} stream{'s' * (streams > 1)}, seconds"] = report["job_seconds"]
        expected = t.must_train(DIGITS, "--device", "cpu", "--schedule", "gpipe", "--workers", 1, "-m", 96, "--batch", 96,
                                "--steps", 20)[0]
        for streams, found in losses.items():
            off = max((abs(a - b) / abs(b) for a, b in zip(found, expected)), default=None)
            part.compare(f"losses of {streams} streams are {off} off", off is not None and off <= 1e-3)
        if 2 in losses:
            part.compare("the losses of two streams are not those of one", losses[1] == losses[2])

    def counter(self):
        """The library that counts, compiled here once."""
        library = os.path.join(self.build.folder, "launches.so")
        source = os.path.join(self.check.tree, "tools/gpu/launches.c")
        packed = os.path.join(self.build.packed or "", "built/launches.so")
        if self.build.packed and os.path.isfile(packed):
            return packed
        if not os.path.isfile(library) or os.path.getmtime(library) < os.path.getmtime(source):
            compiler = shutil.which("cc", path=self.check.env["PATH"]) or shutil.which("gcc", path=self.check.env["PATH"])
            if not compiler or not self.build.cuda:
                raise Skip("no compiler, or no toolkit, for what counts launches")
            code, text = self.check.run([compiler, "-std=c11", "-O2", "-shared", "-fPIC", "-I",
                                         os.path.join(self.build.cuda, "include"), source, "-o", library, "-lcupti"])
            if code:
                raise Skip(f"no CUPTI: {last_line(text)}")
        return library

    def counted(self, graph, words, steps):
        told = os.path.join(self.build.folder, "launches.json")
        if os.path.exists(told):
            os.remove(told)
        self.trainings.must_train(graph, *words, "--steps", steps, CUDA_INJECTION64_PATH=self.counter(), ORRERY_LAUNCHES=told)
        try:
            with open(told) as file:
                return json.load(file)
        except (OSError, ValueError):
            raise Skip("the driver did not load what counts launches") from None

    def of_a_step(self, graph, words):
        """Calls, kernels, copies and bytes: of steps more, so that the start does not count."""
        few, many, n = self.counted(graph, words, 4), self.counted(graph, words, 12), 8
        if not many["kernels"] or many["dropped"]:
            raise Skip(f"CUPTI counted {many['kernels']} kernels, and dropped {many['dropped']}")

        def rate(of):
            return (of(many) - of(few)) / n

        calls = {name: rate(lambda c, k=name: c["calls"].get(k, 0)) for name in many["calls"]}
        return {"kernels": rate(lambda c: c["kernels"]), "sets": rate(lambda c: c["sets"]),
                "launches": sum(v for k, v in calls.items() if "Launch" in k),
                "waits": sum(v for k, v in calls.items() if "Synchronize" in k),
                "allocations": sum(v for k, v in calls.items() if k.startswith("cuMemAlloc")),
                "copies": {k: rate(lambda c, k=k: c["copies"].get(k, [0, 0])[0]) for k in many["copies"]},
                "bytes copied": {k: rate(lambda c, k=k: c["copies"].get(k, [0, 0])[1]) for k in many["copies"]},
                "calls": {k: v for k, v in calls.items() if v >= 1}}

    def launches(self, part):
        """By CUPTI; where that cannot be, what Orrery counts on its emulated device is in the report."""
        try:
            self.launches_here(part)
        except Skip:
            counter = self.build.counter()
            if counter:
                part.figures["on the emulated device"] = self.check.must(
                    [counter, "graphs/large_towers.dot:8:8192", "graphs/gpt.dot:0:48"]).strip().splitlines()
            raise

    def launches_here(self, part):
        """Of a step in bf16, and of a block of norm, linear and gelu: what six blocks more add."""
        t = self.trainings
        self.build.need_device()
        if not self.on_device:
            raise Skip("there is no device to launch on")
        found = {}
        for trunk in (12, 6):
            graph, data = t.towers(trunk)
            found[trunk] = self.of_a_step(graph, [*t.device(), "--workers", 1, "--stages", 1, "-m", 1, "--batch", 1024,
                                                  "--precision", "bf16", *data])
        part.figures["a step of large_towers"] = found[12]
        part.target("kernels of a block, forward and backward", (found[12]["kernels"] - found[6]["kernels"]) / 6,
                    at_most=LAUNCHES_OF_A_BLOCK)
        part.target("allocations of a step", found[12]["allocations"], at_most=0)
        part.figures["launches of a block"] = (found[12]["launches"] - found[6]["launches"]) / 6

    # ---- the simulator ----

    def simulated(self, part):
        """Profiled, simulated and trained on the device: the makespan that was foretold, and the one that was."""
        t = self.trainings
        self.build.need_device()
        graph, data = t.towers()
        batch, costs = 1024 if self.on_device else 64, os.path.join(self.build.folder, "profiled.dot")
        for precision in ("bf16", "fp32"):
            step = ["--workers", "1", "-m", "4", "--batch", str(batch), "--precision", precision]
            self.check.must([self.build.orrery, "profile", graph, *t.device(), *step, "-o", costs])
            for schedule in ("1f1b", "gpipe"):
                cut = ["--stages", "8", "--schedule", schedule]
                told = json.loads(self.check.must([self.build.orrery, "simulate", costs, *step, *cut, "--json"]))["makespan"]
                measured = [t.must_train(costs, *t.device(), *step, *cut, "--steps", 30, *data)[1]["makespan"] for _ in range(3)]
                name, middle = f"{precision}, {schedule}", statistics.median(measured)
                if not middle > 0:
                    raise Failure(f"{name}: a measured makespan of {middle}")
                part.figures[name] = {"simulated, seconds": told, "measured, seconds": sorted(measured)}
                part.target(f"{name}: simulated / measured, off by", abs(told / middle - 1), at_most=SIMULATED,
                            why=self.why_not_judged())
