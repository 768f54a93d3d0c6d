"""report.json and report.md: written anew after every part, so that they say how far it came, whatever happens next."""
import datetime
import json
import os
import subprocess
import threading

from .check import JUDGED


class Report:
    def __init__(self, folder, about, resume):
        self.folder, self.about = folder, about
        os.makedirs(folder, exist_ok=True)
        self.parts = self.earlier() if resume else []
        self.file = open(os.path.join(folder, "log.txt"), "a" if self.parts else "w")
        self.lock = threading.Lock()

    def earlier(self):
        """The parts of an earlier command, of the same source on the same device."""
        try:
            with open(os.path.join(self.folder, "report.json")) as file:
                told = json.load(file)
            if told["source"] == self.about["source"] and told["device"] == self.about["device"]:
                return list(told["parts"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return []

    def is_done(self, name):
        return any(part["name"] == name and part["status"] in JUDGED for part in self.parts)

    def log(self, command, text, code):
        with self.lock:
            self.file.write("\n$ " + " ".join(command) + "\n" + text + f"-> {code}\n")
            self.file.flush()

    def add(self, part):
        for i, known in enumerate(self.parts):
            if known["name"] == part["name"]:
                self.parts[i] = part
                break
        else:
            self.parts.append(part)
        self.write()

    def counts(self):
        return {status: sum(part["status"] == status for part in self.parts) for status in ("PASS", "FAIL", "SKIP")}

    def write(self):
        self.replace("report.json", json.dumps({**self.about, **self.counts(), "parts": self.parts}, indent=2) + "\n")
        self.replace("report.md", "".join(self.page()))

    def replace(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path + ".new", "w") as file:
            file.write(text)
        os.replace(path + ".new", path)

    def page(self):
        yield "# Orrery on a GPU\n\nWritten by `tools/gpu/gpu-check`.\n\n"
        for key, value in self.about.items():
            yield f"- {key}: {value}\n"
        yield "\n| part | result | seconds |\n|---|---|---|\n"
        for part in self.parts:
            why = ": " + cell(part["why"]) if "why" in part else ""
            yield f"| {part['name']} | {part['status']}{why} | {part['seconds']} |\n"
        yield "\n| part | figure | wanted | got | reached |\n|---|---|---|---|---|\n"
        for part in self.parts:
            for t in part["targets"]:
                reached = {True: "yes", False: "no", None: t.get("why", "")}[t["reached"]]
                yield f"| {part['name']} | {cell(t['name'])} | {t['wanted']} | {number(t['got'])} | {cell(reached)} |\n"
        for part in self.parts:
            if part["figures"]:
                yield f"\n## {part['name']}\n\n"
                yield from lines(part["figures"], "")


def cell(text):
    return str(text).replace("|", "/").replace("\n", " ")


def number(value):
    return format(value, ".4g") if isinstance(value, float) else "-" if value is None else str(value)


def lines(figures, indent):
    for key, value in figures.items():
        if isinstance(value, dict):
            yield f"{indent}- {key}\n"
            yield from lines(value, indent + "  ")
        elif isinstance(value, list) and len(value) > 4:
            yield f"{indent}- {key}\n"
            yield from (f"{indent}  - {cell(line)}\n" for line in value)
        elif isinstance(value, list):
            yield f"{indent}- {key}: {'; '.join(str(v) for v in value) or 'none'}\n"
        else:
            yield f"{indent}- {key}: {number(value)}\n"


def find_about(tree, source):
    """What the figures are of."""

    def ask(*command):
        try:
            return subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
        except (OSError, subprocess.SubprocessError):
            return ""

    device = ask("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader")
    return {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
            "device": device or "none: no nvidia-smi", "cores": len(os.sched_getaffinity(0)),
            "commit": ask("git", "rev-parse", "--short", "HEAD") or "unknown", "source": source}
