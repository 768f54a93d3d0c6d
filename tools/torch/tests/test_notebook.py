"""The notebook, cell by cell as Jupyter runs them: what a cell ends with is shown as the page that it is."""

import ast
import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parent.parent / "examples/notebook.ipynb"


def shown(source: str, names: dict[str, Any]) -> Any:
    """The value of the cell's last line."""
    cell = ast.parse(source)
    last = cell.body.pop()
    assert isinstance(last, ast.Expr), source
    exec(compile(cell, "cell", "exec"), names)  # noqa: S102 it is ours
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307


def data_of(frame: str) -> dict[str, Any]:
    """What is drawn in the page of an iframe that may run scripts, and no more."""
    framed = re.fullmatch(r'<iframe sandbox="allow-scripts"[^>]* srcdoc="([^"]*)"></iframe>', frame)
    assert framed, frame[:200]
    data = re.search(r'id="data">(.*?)</script>', html.unescape(framed[1]), re.DOTALL)
    assert data
    told: dict[str, Any] = json.loads(data[1])
    return told


def test_every_cell_shows_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    notebook, names = json.loads(NOTEBOOK.read_text()), dict[str, Any]()
    cells = [x for x in notebook["cells"] if x["cell_type"] == "code"]
    assert not any(x["outputs"] for x in cells)  # a run's own
    told = [data_of(shown("".join(x["source"]), names)._repr_html_()) for x in cells]
    drawn = [(x["command"], [t["name"] for t in x["timelines"]]) for x in told]
    assert drawn[1:3] == [("compare", []), ("plan", drawn[2][1])] and len(drawn[2][1]) == 1
    assert drawn[0] == ("simulate", ["plan.json"]) and drawn[3] == ("simulate", ["gpipe"])
    assert drawn[4:] == [("simulate", ["predicted", "measured"])]
    policy, mine = told[0]["report"], names["found"]
    assert policy["makespan"] == mine.makespan >= policy["lower_bound"]
    best = min(row["makespan"] for row in told[1]["report"]["schedules"])
    assert best <= mine.makespan
    assert len(told[2]["timelines"][0]["stages"]) == len(told[3]["timelines"][0]["stages"]) > 1
    assert len(told[4]["timelines"][1]["jobs"][0]) == 4 * 2


def test_what_is_refused_has_the_line_of_the_command() -> None:
    import orrery_torch

    with pytest.raises(ValueError, match="^no schedule 'nine'"):
        orrery_torch.page("simulate", "chain:4", "--schedule", "nine")
