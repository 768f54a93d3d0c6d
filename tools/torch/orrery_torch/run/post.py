"""What workers send each other in a step, in an order that cannot deadlock."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..costs.costs import Values
from .plan import Job, Message, Plan


class Channels:
    """Each pair of a sender and a receiver has one: a group of the two for this direction alone. The
    pipelines of a Runner, for training and evaluation, take turns in them."""

    def __init__(self, me: int, device: torch.device, limit: timedelta) -> None:
        self.me, self.device, self.limit = me, device, limit
        self.groups: dict[tuple[int, int], Any] = {}

    def open(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Those that are not open yet. The first message of a channel of NCCL waits until both are
        there: here, one channel after the other, all processes in one order."""
        new = sorted(set(pairs) - self.groups.keys())
        self.groups |= {pair: dist.new_group(list(pair), self.limit) for pair in new}
        nothing = torch.zeros(1, device=self.device)
        for source, target in new:
            group = self.groups[source, target]
            if self.me == source:
                dist.send(nothing, target, group=group)
            elif self.me == target:
                dist.recv(nothing, source, group=group)

    def close(self) -> None:
        """Whoever waits on a channel of this process then fails."""
        for group in self.groups.values():
            give_up(group, self.device)
        self.groups = {}


Letter = tuple[Message, ...]  # those of one job to one worker, which go as one


def letters(messages: Iterable[Message]) -> list[Letter]:
    to: dict[int, list[Message]] = {}
    for m in messages:
        to.setdefault(m.target, []).append(m)
    return [tuple(each) for each in to.values()]


class Post:
    """In a channel letters arrive in the order in which the sender makes them, which the plan tells
    both; no tags, as NCCL has none. A send makes nobody wait, and whoever waits for a message has
    awaited all that come before it, so a channel never holds up an order that has no deadlock.

    shapes: what goes over the edges, on the meta device."""

    def __init__(self, plan: Plan, shapes: Values, channels: Channels) -> None:
        self.plan, self.channels = plan, channels
        self.me, self.device = channels.me, channels.device
        gradients = {n: t.requires_grad for n, t in shapes.items()}
        jobs = [job for order in plan.orders for job in order]
        self.sent = {job: list(plan.sends(job, gradients)) for job in jobs}
        self.letters = {job: letters(sent) for job, sent in self.sent.items()}
        self._number(plan.microbatches)
        self.begin(shapes, plan.microbatches)

    def _number(self, microbatches: int) -> None:
        """Places in channels, if only the first microbatches are there."""
        self.microbatches = microbatches
        self.number: dict[Message, int] = {}  # of its letter, to this worker, in its channel
        self.queue: dict[int, list[Letter]] = {}  # to this worker, by the one it comes from
        for job, sent in self.letters.items():
            for letter in sent if job.b < microbatches else ():
                if letter[0].target == self.me:
                    queue = self.queue.setdefault(letter[0].source, [])
                    self.number |= dict.fromkeys(letter, len(queue))
                    queue.append(letter)

    def open(self) -> None:
        self.channels.open((m.source, m.target) for sent in self.sent.values() for m in sent)

    def begin(self, shapes: Values, microbatches: int) -> None:
        if microbatches != self.microbatches:
            self._number(microbatches)
        self.shapes = shapes  # as the autocast of the step makes them
        self.posted = dict.fromkeys(self.queue, 0)
        self.coming: dict[tuple[int, int], tuple[Tensor, Any]] = {}  # by source and number
        self.arrived: dict[Message, Tensor] = {}
        self.going: list[tuple[Any, Tensor]] = []

    def send(self, job: Job, made: Values) -> None:
        for letter in self.letters[job]:
            bytes_of = [flat(self.checked(m, made[m.node])) for m in self._packed(letter)]
            held = torch.cat(bytes_of) if len(bytes_of) > 1 else bytes_of[0]
            self.going = [(w, t) for w, t in self.going if not w.is_completed()]
            m = letter[0]
            group = self.channels.groups[m.source, m.target]
            self.going.append((dist.isend(held, m.target, group=group), held))

    def _packed(self, letter: Letter) -> list[Message]:
        """In the order in which they lie there: so that each begins at a multiple of its number's size."""
        return sorted(letter, key=lambda m: -self.shapes[m.node].dtype.itemsize)

    def checked(self, m: Message, value: Tensor) -> Tensor:
        room = self.shapes[m.node]  # on the other side; bytes would be read as what they are not
        if (value.dtype, value.shape) != (room.dtype, room.shape):
            raise ValueError(
                f"{m.node.name}: a message of {list(value.shape)} {value.dtype}, and the Runner was "
                f"made for {list(room.shape)} {room.dtype}"
            )
        if value.device != self.device:
            raise ValueError(f"{m.node.name}: a message on {value.device}, not on {self.device}")
        return value.detach()

    def expect(self, messages: Iterable[Message]) -> None:
        """Awaits them, and all that come before them."""
        for m in messages:
            while self.posted[m.source] <= self.number[m]:
                at = self.posted[m.source]
                size = sum(self.shapes[each.node].nbytes for each in self.queue[m.source][at])
                room = torch.empty(size, dtype=torch.uint8, device=self.device)
                group = self.channels.groups[m.source, self.me]
                self.coming[m.source, at] = (room, dist.irecv(room, m.source, group=group))
                self.posted[m.source] += 1

    def take(self, m: Message) -> Tensor:
        self.expect([m])
        if m not in self.arrived:
            self._open_letter(m.source, self.number[m])
        return self.arrived.pop(m)

    def _open_letter(self, source: int, number: int) -> None:
        room, work = self.coming.pop((source, number))
        work.wait()
        packed = self._packed(self.queue[source][number])
        pieces = room.split([self.shapes[m.node].nbytes for m in packed])
        for m, piece in zip(packed, pieces):
            like = self.shapes[m.node]
            self.arrived[m] = piece.view(like.dtype).view(like.shape)

    def end(self) -> None:
        for work, _ in self.going:
            work.wait()

    def close(self) -> None:
        self.coming, self.arrived, self.going = {}, {}, []
        self.channels.close()


def flat(value: Tensor) -> Tensor:
    """Its bytes."""
    return value.reshape(-1).contiguous().view(torch.uint8)  # an expanded one has a stride of 0


def give_up(group: Any, device: torch.device) -> None:
    """Closes a group's connections, even while messages are under way."""
    if not isinstance(group, dist.ProcessGroup):
        return  # of others
    if device.type == "cuda":
        group.abort()
    dist.destroy_process_group(group)
