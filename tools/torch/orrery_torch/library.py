"""The library `liborrery`: found, checked and called. What it does is in its headers, src/orrery/."""

import ctypes
import ctypes.util
import functools
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from ctypes import (
    CFUNCTYPE,
    POINTER,
    byref,
    c_bool,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_int64,
    c_size_t,
    c_void_p,
)
from pathlib import Path
from typing import Any

from . import command

NAME = "liborrery.so.0"
MOST_UNTESTED = 4
INDENT_AND_DIGITS = 15 << 11  # of jansson: reals as the command writes them


class Size(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("bytes", c_size_t)]


# ---- structs of the headers, member by member; load() compares their sizes ----


class Error(ctypes.Structure):
    _fields_ = [("msg", c_char * 512)]


class Levels(ctypes.Structure):
    _fields_ = [("n", c_int), ("workers", c_int * 4), ("bytes_per_s", c_double * 4), ("latency_ns", c_int64 * 4)]


class Machine(ctypes.Structure):
    _fields_ = [
        ("n_workers", c_int),
        ("memory_bytes", c_int64),
        ("latency_ns", c_int64),
        ("bandwidth_bytes_per_s", c_double),
        ("levels", Levels),
        ("flops_per_s", c_double),
        ("cluster", c_void_p),
    ]


class Edge(ctypes.Structure):
    _fields_ = [
        ("from", c_int),
        ("to", c_int),
        ("bytes", c_int64),
        ("gradient_bytes", c_int64),
        ("detached", c_bool),
    ]


class Gang(ctypes.Structure):
    _fields_ = [("n", c_int), ("workers", c_void_p), ("with", c_int)]


class Stage(ctypes.Structure):
    _fields_ = [
        ("frozen", c_bool),
        ("gang", Gang),
        ("gather", c_bool),
        ("n_gathers", c_int),
        ("has_input_gradient", c_bool),
        ("has_weight_gradient", c_bool),
        ("has_loss", c_bool),
        ("depth", c_int),
        ("n_in", c_int),
        ("n_out", c_int),
        ("in", POINTER(c_int)),
        ("out", POINTER(c_int)),
        ("forward_ns", c_int64),
        ("backward_ns", c_int64),
        ("weight_ns", c_int64),
        ("stash_bytes", c_int64),
        ("shared_bytes", c_int64),
        ("passing_bytes", c_int64),
        ("input_bytes", c_int64),
        ("recompute", c_bool),
        ("update_ns", c_int64),
        ("parameter_bytes", c_int64),
        ("frozen_bytes", c_int64),
        ("tied_bytes", c_int64),
        ("tied_trained_bytes", c_int64),
    ]


class Numerics(ctypes.Structure):
    _fields_ = [("optimizer", c_int), ("precision", c_int), ("shard_optimizer", c_bool)]


class Profiled(ctypes.Structure):
    _fields_ = [("hardware", c_int), ("precision", c_int)]


class Pipeline(ctypes.Structure):
    _fields_ = [
        ("n_stages", c_int),
        ("n_edges", c_int),
        ("depth", c_int),
        ("stages", POINTER(Stage)),
        ("edges", POINTER(Edge)),
        ("n_tied", c_int),
        ("tied", c_void_p),
        ("has_weight", c_bool),
        ("units", c_bool),
        ("n_workers", c_int),
        ("n_microbatches", c_int),
        ("sync", c_int),
        ("accumulate", c_int),
        ("numerics", Numerics),
        ("prefetch", c_int),
        ("overhead_ns", c_int64),
        ("machine", Machine),
        ("microbatches", c_void_p),
        ("graph", c_void_p),
        ("stage_of", c_void_p),
        ("split", c_void_p),
        ("profiled", Profiled),
        ("numbers", c_void_p),
    ]


class Observer(ctypes.Structure):
    _fields_ = [("tell", c_void_p), ("user", c_void_p)]


class Placed(ctypes.Structure):
    _fields_ = [
        ("worker", POINTER(c_int)),
        ("n", POINTER(c_int64)),
        ("bound_ns", c_int64),
        ("span_bound_ns", c_int64),
        ("observer", Observer),
    ]


OF_JOB = [c_void_p, c_int, c_int, c_int, c_void_p]
CHECK = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)
COMPUTE = CFUNCTYPE(c_int, *OF_JOB)
PRIORITY = CFUNCTYPE(c_int64, *OF_JOB)
PLACE = CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(Placed), c_void_p)
IN_FLIGHT = CFUNCTYPE(c_int, c_void_p, c_int, c_void_p)
RECOMPUTE = CFUNCTYPE(c_bool, c_void_p, c_int, c_void_p)


class Schedule(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("summary", c_char_p),
        ("paper", c_char_p),
        ("order", c_int),
        ("split_backward", c_bool),
        ("asynchronous", c_bool),
        ("parameters", c_void_p),
        ("data", c_void_p),
        ("check", CHECK),
        ("compute", COMPUTE),
        ("weights", COMPUTE),
        ("priority", PRIORITY),
        ("place", PLACE),
        ("in_flight", IN_FLIGHT),
        ("recompute", RECOMPUTE),
        ("observer", Observer),
    ]


class StudyCosts(ctypes.Structure):
    _fields_ = [
        ("forward_ns", c_int64),
        ("backward_ns", c_int64),
        ("weight_ns", c_int64),
        ("activation_bytes", c_int64),
        ("stash_bytes", c_int64),
        ("parameter_bytes", c_int64),
        ("units", c_bool),
    ]


class ReplayOptions(ctypes.Structure):
    _fields_ = [("batch", c_int), ("samples", c_int64), ("embed", c_bool)]


class Try(ctypes.Structure):
    _fields_ = [("jobs", c_void_p), ("timeline", c_void_p), ("figures", c_void_p)]


class Untested(ctypes.Structure):
    _fields_ = [("what", c_char_p), ("why", c_char_p)]


STRUCTS: dict[str, type[ctypes.Structure]] = {
    "orr_" + re.sub("(?<=[a-z])([A-Z])", r"_\1", struct.__name__).lower(): struct
    for struct in (
        *(Edge, Error, Gang, Levels, Machine, Numerics, Pipeline, Placed),
        *(ReplayOptions, Schedule, Stage, StudyCosts, Try, Untested),
    )
}
GIVE = {  # functions that give something else than a code
    "json_dumps": c_void_p,
    "open_memstream": c_void_p,
    "orr_machine_default": Machine,
    "orr_machine_of": Machine,
    "orr_pipeline_duration_ns": c_int64,
    "orr_replay_json": c_void_p,
    "orr_report_json": c_void_p,
    "orr_stages_cut_json": c_void_p,
}


def named(message: bytes) -> str:
    """The library puts quantities that the caller chose in brackets: ours have the same names. What
    it knows as functions of the order is here the policy."""
    text = re.sub(r"\bn of place\(\)", "the policy's places", message.decode(errors="replace"))
    text = re.sub(r"\b(its )?(place|priority)\(\)", "the policy", text)
    return re.sub(r"(?:^|(?<=[ (]))\[([a-z-]+)\](?=[ ,;:)]|$)", r"\1", text)


class Library:
    """Its functions; what they make lives as long as `made`."""

    def __init__(self, c: ctypes.CDLL, made: ExitStack) -> None:
        self.c = c
        self.made = made
        self.failures: list[BaseException] = []  # of functions of Python's, which C has called

    def call(self, name: str, *words: Any) -> None:
        """Of a function that can fail: ValueError has its line."""
        err = Error()
        code = self.c[name](*words, byref(err))
        if self.failures:
            raise self.failures[0]
        if code:
            raise ValueError(named(err.msg))

    def guard(self, kind: Any, otherwise: int, function: Callable[..., Any]) -> Any:
        """A function of Python's as one of C's type, less the pipeline. ctypes would print what it
        raises: it is kept for call(), and nothing is called after it."""

        def guarded(_pipeline: int, *words: Any) -> Any:
            if self.failures:
                return otherwise
            try:
                return function(*words)
            except BaseException as failure:  # noqa: BLE001
                self.failures.append(failure)
                return otherwise

        return kind(guarded)

    def create(self, name: str, *words: Any) -> c_void_p:
        """Of orr_graph_read() the graph, and so on."""
        noun = "orr_pipeline" if name == "orr_partition" else name.rpartition("_")[0]
        out = c_void_p()
        self.call(name, byref(out), *words)
        self.made.callback(self.c[f"{noun}_destroy"], out)
        return out

    def json(self, name: str, *words: Any) -> c_void_p:
        """A document of jansson's."""
        err = Error()
        out = c_void_p(getattr(self.c, name)(*words, byref(err)))
        if not out:
            raise ValueError(named(err.msg))
        self.made.callback(self.c.json_delete, out)
        return out

    def text(self, document: c_void_p) -> Any:
        """What it says, read."""
        text = c_void_p(self.c.json_dumps(document, c_size_t(INDENT_AND_DIGITS)))
        if not text:
            raise MemoryError
        try:
            return json.loads(ctypes.string_at(text.value or 0))
        finally:
            self.c.free(text)

    def written(self, name: str, *words: Any) -> str:
        """What a function writes to a file."""
        text, size = c_void_p(), c_size_t()
        file = c_void_p(self.c.open_memstream(byref(text), byref(size)))
        if not file:
            raise MemoryError
        try:
            self.call(name, file, *words)
        finally:
            self.c.fclose(file)
            self.made.callback(self.c.free, text)
        return ctypes.string_at(text.value or 0, size.value).decode()

    def read(self, reader: str, kind: Any, value: object, *words: Any) -> Any:
        """A quantity as people write it, by one of the library's orr_..._parse()."""
        out = kind()
        self.call(f"orr_{reader}_parse", byref(out), os.fsencode(str(value)), *words)
        return out.value

    def count(self, value: object, most: int, what: str) -> int:
        words = (c_int64(1), c_int64(most), what.encode())
        return int(self.read("count", c_int64, value, *words))


def places() -> Iterator[str]:
    """Where it may be: as named; with the command, built or installed; where the system looks."""
    if named := os.environ.get("ORRERY_LIB"):
        yield named
        return
    if orrery := shutil.which(command.ORRERY):
        top = Path(orrery).resolve().parent.parent
        for folder in ("src/orrery", "lib*", "lib*/*"):
            yield from map(str, sorted(top.glob(f"{folder}/{NAME}")))
    if found := ctypes.util.find_library("orrery"):
        yield found


def check_sizes(c: ctypes.CDLL, path: str) -> None:
    """Refuses a library whose structs are others than those above."""
    cure = "install Orrery and orrery_torch from one source"
    try:
        at = POINTER(Size).in_dll(c, "orr_sizes")
    except ValueError:
        raise ValueError(f"{path}: no orr_sizes in it, so it is older than this: {cure}") from None
    sizes = {}
    for i in range(1000):
        if at[i].name is None:
            break
        sizes[at[i].name.decode().removeprefix("struct ")] = at[i].bytes
    for name, struct in STRUCTS.items():
        mine, its = ctypes.sizeof(struct), sizes.get(name, 0)
        if mine != its:
            raise ValueError(f"{path}: struct {name} has {its} bytes there and {mine} here: {cure}")


@functools.cache
def loaded() -> ctypes.CDLL:
    path = next(places(), None)
    if path is None:
        raise ValueError(
            f"no {NAME} beside the command {command.ORRERY} nor where the system looks: "
            "build Orrery, and name its build/tools/orrery in ORRERY or the library in ORRERY_LIB"
        )
    try:
        c = ctypes.CDLL(path)
    except OSError as why:
        raise ValueError(f"{path}: cannot be loaded: {why}: ORRERY_LIB names another") from None
    check_sizes(c, path)
    for name, kind in GIVE.items():
        getattr(c, name).restype = kind
    return c


@contextmanager
def library() -> Iterator[Library]:
    with ExitStack() as made:
        yield Library(loaded(), made)
