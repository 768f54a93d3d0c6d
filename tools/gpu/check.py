"""Parts with a limit each, what they compared, and how far they are: `Check` runs commands and parts, `Part` is what one
of them found."""
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time

ENDED = 124  # exit code of what was ended here
JUDGED = ("PASS", "FAIL")


class Skip(Exception):
    """It cannot be found out here."""


class Failure(Exception):
    """It is wrong, or broken."""


class TimeIsUp(Failure):
    """The part's own limit."""


class NoTime(Skip):
    """The limit of all parts together: the next command can go on."""


class Part:
    """What a part found. It passes only where something was compared, and nothing of that was wrong."""

    def __init__(self, name, limit):
        self.name, self.limit = name, limit
        self.figures, self.targets, self.wrong = {}, [], []
        self.compared = 0
        self.status, self.why, self.seconds = None, "", 0.0

    def compare(self, what, right):
        self.compared += 1
        if not right:
            self.wrong.append(what)
        return right

    def target(self, name, got, at_least=None, at_most=None, why=""):
        """A figure beside the one that is wanted. got None, or a reason not to judge it: it is neither reached nor not."""
        wanted = at_least if at_most is None else at_most
        reached = None
        if got is not None and not why:
            reached = got >= wanted if at_most is None else got <= wanted
        self.targets.append({"name": name, "wanted": f"at {'least' if at_most is None else 'most'} {wanted:g}", "got": got,
                             "reached": reached, **({"why": why or "not measured"} if reached is None else {})})

    def end(self, skipped):
        """Its status, by what was found; skipped: why it did not go on, or None."""
        missed = [f"{t['name']}: {t['got']:.4g}, wanted {t['wanted']}" for t in self.targets if t["reached"] is False]
        whys = dict.fromkeys(t["why"] for t in self.targets if t["reached"] is None)
        open_ = [f"{', '.join(t['name'] for t in self.targets if t.get('why') == why)}: {why}" for why in whys]
        judged = self.compared + sum(t["reached"] is not None for t in self.targets)
        if self.wrong or missed:
            self.status, self.why = "FAIL", "; ".join(self.wrong + missed)
        elif skipped or open_:
            self.status, self.why = "SKIP", "; ".join(([skipped] if skipped else []) + open_)
        elif not judged:
            self.status, self.why = "SKIP", "nothing was compared"
        else:
            self.status = "PASS"
        self.why = self.why[:600]

    def as_json(self):
        return {"name": self.name, "status": self.status, **({"why": self.why} if self.why else {}),
                "seconds": round(self.seconds, 1), "limit": self.limit, "compared": self.compared, "targets": self.targets,
                "figures": self.figures}


class Check:
    """Commands within limits, and parts one after another."""

    def __init__(self, tree, report, seconds):
        self.tree, self.report = tree, report
        self.started = time.monotonic()
        self.end = self.started + seconds
        self.limit = self.end
        self.env = dict(os.environ)
        self.running = set()
        for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(name, self.stop)

    def stop(self, number, _frame):
        """Ended from outside: so is what was started here, and the report says how far it came."""
        for process in list(self.running):
            self.kill(process)
        self.report.write()
        os._exit(128 + number)

    @staticmethod
    def kill(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def left(self):
        return max(0.1, min(self.limit, self.end) - time.monotonic())

    def run(self, command, **changes):
        """(exit code, output); what takes longer than there is time is ended, with all that it started"""
        env = {k: v for k, v in dict(self.env, **changes).items() if v is not None}
        # a file: what a command leaves behind may keep a pipe open
        with tempfile.TemporaryFile("w+", errors="replace") as out:
            try:
                process = subprocess.Popen(command, cwd=self.tree, env=env, stdin=subprocess.DEVNULL, start_new_session=True,
                                           stdout=out, stderr=subprocess.STDOUT)
            except OSError as why:
                self.report.log(command, str(why), 127)
                return 127, str(why)
            self.running.add(process)
            late = threading.Timer(self.left(), self.kill, [process])  # wait(timeout) would nap
            late.start()
            code = process.wait()
            code = code if late.is_alive() else ENDED
            late.cancel()
            self.running.discard(process)
            out.seek(0)
            text = out.read()
        self.report.log(command, text, code)
        return code, text

    def time_is_up(self, what):
        if self.end < self.limit:
            return NoTime(f"{what}: no time was left; --resume goes on")
        return TimeIsUp(f"{what}: the part's time was up")

    def must(self, command, **changes):
        code, text = self.run(command, **changes)
        if code == ENDED:
            raise self.time_is_up(os.path.basename(command[0]))
        if code:
            raise Failure(f"{os.path.basename(command[0])}: exit code {code}: {last_line(text)}")
        return text

    def part(self, name, limit, usual, work):
        """Runs it, unless less is left than it usually takes, and writes the report. True where it passed."""
        print(f"==> {name} ...", flush=True)
        part, before, skipped = Part(name, limit), time.monotonic(), None
        self.limit = before + limit
        try:
            if self.end - before < usual:
                raise NoTime(f"it takes {usual} s, and {max(0, self.end - before):.0f} s were left; --resume goes on")
            work(part)
        except Skip as why:
            skipped = str(why)
        except Failure as why:
            part.wrong.append(str(why))
        except Exception as why:  # a mistake here is no reason to lose the rest
            part.wrong.append(f"{type(why).__name__}: {why}")
        part.end(skipped)
        part.seconds = time.monotonic() - before
        print(f"    {part.status}, {part.seconds:.1f} s{': ' + part.why if part.why else ''}", flush=True)
        self.report.add(part.as_json())
        return part.status == "PASS"


def last_line(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def json_in(text):
    """The object that a command printed among lines of other kinds."""
    found = re.search(r"(?ms)^\{.*^\}", text)
    if not found:
        raise Failure(f"no JSON in what it printed: {last_line(text)}")
    return json.loads(found.group(0))
