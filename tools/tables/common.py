"""What tables share: the command run, and its JSON."""
import csv
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GRAPHS = ROOT / "graphs"


def run(*words, **more):
    """Standard output; a command that fails ends this one with what it said."""
    words = [str(word) for word in words]
    done = subprocess.run(words, capture_output=True, text=True, check=False, **more)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def ask(*words):
    return json.loads(run(*words, "--json"))


def rows_of(folder, name):
    """Of a table of measurements, each by its headings."""
    with open(pathlib.Path(folder, name), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def row(*cells):
    return "| " + " | ".join(map(str, cells)) + " |"
