"""The commands `simulate`, `plan` and `compare` as calls: objects in, objects out."""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import command
from .costs.study import Graph

Source = Graph | Mapping[str, Any] | Path | str


@dataclass
class Drawn:
    """What a command found; in a notebook, its page."""

    page: str  # of --html

    def _repr_html_(self) -> str:
        return command.Page(self.page)._repr_html_()


@dataclass
class Planned(Drawn):
    """A plan, for Runner, simulate() and the command."""

    plan: dict[str, Any]

    @property
    def makespan(self) -> float:
        return float(self.plan["makespan"])

    def write(self, path: Path | str) -> Path:
        Path(path).write_text(json.dumps(self.plan, indent=1))
        return Path(path)


@dataclass
class Simulated(Planned):
    """The timeline of a schedule."""

    figures: dict[str, Any]  # as of `orrery simulate --json`
    svg: str

    def _repr_svg_(self) -> str:
        return self.svg


@dataclass
class Compared(Drawn):
    """Rows of `orrery compare --json`, each with what all have in common."""

    rows: list[dict[str, Any]]  # that fit, by makespan in each combination of the options
    refused: list[dict[str, Any]]  # with the `reason`
    report: dict[str, Any]


def words_of(options: dict[str, Any]) -> list[str]:
    """stages=8 is --stages=8, plan=True --plan, costs=(1, 2) --costs=1,2, and a list an option for each value."""
    words = []
    for key, value in options.items():
        for each in value if isinstance(value, list) else [value]:
            said = ",".join(map(str, each)) if isinstance(each, tuple) else str(each)
            if each is not None and each is not False:
                words.append(f"--{key.replace('_', '-')}" + ("" if each is True else f"={said}"))
    return words


def call(verb: str, source: Source, options: dict[str, Any], folder: Path, *more: Any) -> str:
    """What the command prints. ValueError has its line, with the name of an object in place of its file."""
    called = source
    if isinstance(source, Graph):
        called = source.write(folder / "graph.dot")
    elif isinstance(source, Mapping):
        called = folder / "plan.json"
        called.write_text(json.dumps(source))
    try:
        return command.ask(verb, called, *words_of(options), "--json", "--html", folder / "page.html", *more)
    except ValueError as why:
        name = source.name if isinstance(source, Graph) else "the plan" if isinstance(source, Mapping) else str(source)
        raise ValueError(str(why).replace(str(called), name)) from None


def page_in(folder: Path) -> str:
    return (folder / "page.html").read_text().replace(f"{folder}/", "")  # the same every time


def plan_in(folder: Path, source: Source) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "out.json").read_text())
    return found | {"graph": source.name, "text": source.dot()} if isinstance(source, Graph) else found


def simulate(source: Source, **options: Any) -> Simulated:
    """A step of what graph() gave, of a plan, of a file, or of a study such as "chain:8", under a schedule by name:
    simulate("chain:8", workers=4, schedule="v-half", microbatches=8, costs=(1, 1, 1)). Keywords are the options of `orrery
    simulate`: a tuple is a list of values, True an option without one. What is refused is a ValueError with the command's line."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        figures = json.loads(call("simulate", source, options, folder, "--svg", folder / "step.svg", "-o", folder / "out.json"))
        return Simulated(page_in(folder), plan_in(folder, source), figures, (folder / "step.svg").read_text())


def plan(source: Source, **options: Any) -> Planned:
    """The plan that `orrery plan` finds: plan(graph, workers=8, microbatches=32, bandwidth="50GB/s", makespan=True)."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        call("plan", source, options, folder, "-o", folder / "out.json")
        return Planned(page_in(folder), plan_in(folder, source))


def compare(source: Source, **options: Any) -> Compared:
    """Schedules side by side, for all combinations of the options that are lists: compare(graph, workers=[4, 8],
    microbatches=[8, 16], schedule=["1f1b", "zb-h1"]). A row is a dict with what `orrery compare --csv` has in columns."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        report = json.loads(call("compare", source, options, folder))
        common = {key: value for key, value in report.items() if not isinstance(value, (list, dict))}
        rows, refused = ([common | row for row in report[key]] for key in ("schedules", "refused"))
        return Compared(page_in(folder), rows, refused, report)
