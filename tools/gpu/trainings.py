"""What the parts share: graphs to train, trainings, and how far their losses are apart."""
import csv
import os
import re
import tempfile

from .check import ENDED, Failure, Skip, json_in, last_line

DIGITS, TOWERS, GPT = "graphs/digits.dot", "graphs/large_towers.dot", "graphs/gpt.dot"
# Adam divides by the gradient's size, so rounding in gradients near zero shows; SGD follows it.
SGD = ["--optimizer", "momentum", "--lr", "0.02"]
SMALL_WIDTH = 64  # of the towers where there is no device: the same model, to try the parts


class Refused(Skip):
    """By a line of its own: it is not for this model, machine or build."""


class Trainings:
    def __init__(self, check, build):
        self.check, self.build = check, build
        self.on_device = build.device != "cpu"
        self.cores = len(os.sched_getaffinity(0))

    def device(self):
        return ["--device", self.build.device]

    def few_rows(self):
        """The test rows may be evaluated on one core: fewer of them do."""
        file = os.path.join(self.build.folder, "few.csv")
        with open(os.path.join(self.check.tree, "graphs/data/digits.csv")) as source, open(file, "w") as to:
            to.writelines(source.readlines()[:320])
        return file

    def copy(self, name, graph, change):
        path = os.path.join(self.build.folder, name)
        with open(os.path.join(self.check.tree, graph)) as source, open(path, "w") as to:
            to.write(change(source.read()))
        return path

    def width(self):
        return 2048 if self.on_device else SMALL_WIDTH

    def towers(self, trunk=12):
        """large_towers, narrow where there is no device; trunk: blocks of it."""
        def change(text):
            return text.replace("features=2048", f"features={self.width()}").replace("repeat=12", f"repeat={trunk}")

        return self.copy(f"towers_{trunk}.dot", TOWERS, change), ["--data", self.few_rows()]

    def gpt(self):
        """Without pins, so that one stage can have all of it."""
        return self.copy("gpt.dot", GPT, lambda text: re.sub(r"node \[stage=\d+\];", "", text)), ["--data", self.few_rows()]

    def train(self, graph, *words, **changes):
        """The losses of the steps, and the JSON report."""
        with tempfile.NamedTemporaryFile(suffix=".csv", dir=self.build.folder) as losses:
            code, text = self.check.run([self.build.orrery, "train", graph, "--json", "--loss", losses.name]
                                        + [str(word) for word in words], **changes)
            if code == ENDED:
                raise self.check.time_is_up("train")
            if code:
                raise (Refused if code == 2 else Failure)(f"train: exit code {code}: {last_line(text)}")
            with open(losses.name) as file:
                return [float(row["loss"]) for row in csv.DictReader(file) if row["loss"]], json_in(text)

    def must_train(self, graph, *words, **changes):
        """The same, where a refusal is a failure: what all devices can do."""
        try:
            return self.train(graph, *words, **changes)
        except Refused as why:
            raise Failure(str(why)) from None


def apart(losses, expected):
    """How far two curves are apart at most, relatively; None where they have not as many steps each."""
    if not expected or len(losses) != len(expected):
        return None
    return max(abs(a - b) / max(abs(b), 1e-12) for a, b in zip(losses, expected))
