"""What this process knows of its place in the task: rank, world, generation, orders of the launcher.

There is one session a process. Without a launcher (no FERMI_SOCKET) it says what the environment says,
or rank 0 of 1, and everything sent goes nowhere: the same script runs on a laptop.
"""

import atexit
import math
import mmap
import os
import struct
import time

from . import _link
from ._version import VERSION

WELCOME = 600.0  # seconds a rank waits to be told where to start: its peers may still be starting
_AT = struct.Struct("<QQ")  # generation, step: what rank-N.at has


class Left(Exception):
    """The launcher ordered this rank out of its generation; fermi.rejoin takes it into the next one."""


class Session:
    def __init__(self, environ=os.environ):
        self.rank = _number(environ, "RANK", 0)
        self.world = _number(environ, "WORLD_SIZE", 1)
        self.local_rank = _number(environ, "LOCAL_RANK", self.rank)
        self.generation = _number(environ, "FERMI_GENERATION", 0)
        if not 0 <= self.rank < self.world:
            raise ValueError("RANK is %d of WORLD_SIZE %d" % (self.rank, self.world))
        self.shm = environ.get("FERMI_SHM") or None
        self.seals = environ.get("FERMI_SEALS") == "1" and bool(environ.get("FERMI_SOCKET"))  # the launcher sums what is saved
        self.task = environ.get("FERMI_TASK", "")
        self.elastic = environ.get("FERMI_ELASTIC") == "1"  # the number of ranks may change
        self.base_world = _number(environ, "FERMI_BASE_WORLD_SIZE", self.world)  # ranks the task asked for
        self.batch = environ.get("FERMI_BATCH", "keepGlobal")
        self.link = None
        self.restore = None  # the step to restore, None: nothing
        self.watermark = None  # newest step whole on every rank
        self.pinned = frozenset()  # steps whose slots stay besides: a peer's memory has a copy of them, or gets one
        self.slots = max(3, min(8, _number(environ, "FERMI_SLOTS", 3)))
        self.keep = None  # a step that the launcher reads: its slot stays
        self.may_offer = False  # the launcher answers a rank that gives up steps
        self.released = False  # the coordinator knows of the steps this rank offered to give up
        self.stop = None  # {"grace", "reason"} once asked
        self.checkpoints = 0  # how often one was asked for
        self.every = 0  # steps between two that are asked for; 0: the platform asks for none
        self.stalled = 0.0  # seconds that the longest save since the last report took
        self.may_leave = False  # inside fermi.rejoin
        self.leave = None  # the generation to leave
        self.next = None  # the next generation, as the launcher sent it
        self.durable = None  # the last answer to a want
        self.gauges = {}  # name → function: metrics that other modules add to every report
        self.waited = 0.0  # seconds for data since the last report
        self.step = None  # the last one reported
        self._last = None  # (step, monotonic time) of the last report, None after a pause
        self._at = None  # memory where the launcher sees the last step, also of a process that is dead or hangs

    def connect(self, path, held):
        """Says hello and what is held in memory, and waits to be told where to start."""
        self.link = _link.Link(path)
        self.link.send("hello", {"pid": os.getpid(), "rank": self.rank, "generation": self.generation, "version": VERSION}, must=True)
        self.link.send("held", {"steps": held}, must=True)
        welcome = self._await("welcome", WELCOME)
        if welcome is None:
            why = "within %d s" % WELCOME if self.link.open else "and hung up: is it of generation %d?" % self.generation
            raise ConnectionError("the launcher did not welcome rank %d %s" % (self.rank, why))
        self.generation = _whole(welcome, "generation", self.generation)
        self.restore = _whole(welcome, "restore", None)
        self.watermark = self.restore
        self.pinned = _steps(welcome, "pin")
        self.may_offer = welcome.get("offers") is True
        if welcome.get("at") is True and self.shm:
            self._at = _page(os.path.join(self.shm, "rank-%d.at" % self.local_rank))
        atexit.register(self.close)  # what was said last still goes out

    def _await(self, name, seconds, stop=False):
        """The body of the first message of that name; the others are acted on meanwhile. With stop an order to stop ends the wait."""
        end = time.monotonic() + seconds
        while self.link.open and time.monotonic() < end and not (stop and self.stop):
            found = None
            for got, body in self.link.wait(min(1.0, end - time.monotonic())):  # SIGTERM is an order too, and no message
                if got == name and found is None:
                    found = body
                else:
                    self._act(got, body)
            if found is not None:
                return found
        return None

    def poll(self):
        """Acts on what the launcher said since the last call. Raises Left when ordered to leave inside rejoin."""
        if self.link is None:
            return
        for name, body in self.link.poll():
            self._act(name, body)
        if self.may_leave and self.leave is not None and self.leave >= self.generation:
            raise Left("ordered to leave generation %d" % self.leave)

    def _act(self, name, body):
        """An order of a kind that is not known is of a later version: it is passed over."""
        if name == "watermark":
            step = _whole(body, "step", None)
            if step is not None and (self.watermark is None or step > self.watermark):
                self.watermark = step
            self.keep = _whole(body, "keep", None)
            self.released |= body.get("held") is True
        elif name == "pin":
            self.pinned = _steps(body, "steps")
        elif name == "stop":
            self.stop = {"grace": body.get("grace", 0), "reason": str(body.get("reason", "stopped"))}
        elif name == "checkpoint":
            self.checkpoints += 1
        elif name == "interval":
            self.every = _whole(body, "steps", 0)
        elif name == "leave":
            self.leave = _whole(body, "generation", self.generation)
        elif name == "generation":
            self.next = body
        elif name == "durable":
            self.durable = body

    def listen(self, seconds):
        """Waits up to so long for the launcher to say something, and acts on it."""
        for name, body in self.link.wait(seconds):
            self._act(name, body)

    def send(self, name, body, must=False):
        return self.link is not None and self.link.send(name, body, must)

    def report(self, step, metrics):
        now = time.monotonic()
        if self.waited > 0:
            metrics = dict(metrics, data_wait=self.waited)
            self.waited = 0.0
        progress = {"step": step, "t": 0.0, "metrics": _numbers(metrics, self.gauges)}
        if self.stalled and len(progress["metrics"]) < 64:
            progress["metrics"]["save_stall"] = self.stalled
        self.stalled = 0.0
        if self._last is not None and step > self._last[0]:
            progress["t"] = (now - self._last[1]) / (step - self._last[0])
        gather = self._at is not None and self._last is not None  # that it goes on after a pause is news
        self._last, self.step = (step, now), step
        if self._at is not None:
            _AT.pack_into(self._at, 0, self.generation, max(step, 0))
        if self.link is not None:
            self.link.send("progress", progress, gather=gather)

    def phase(self, name, on):
        if not on:
            self._last = None  # the pause is no step time
        self.send("phase", {"name": name, "on": on}, must=True)

    def rejoin(self, seconds, why=""):
        """Says that the generation was left and takes the place the launcher gives in the next; False: it gave none."""
        if self.link is None or not self.link.open:
            return False
        self.send("left", {"generation": self.generation, "why": why}, must=True)
        body = self.next or self._await("generation", seconds, stop=True)
        if body is None:
            return False
        self.generation = _whole(body, "generation", self.generation + 1)
        self.rank = _whole(body, "rank", self.rank)
        self.world = _whole(body, "world", self.world)
        self.restore = self.watermark = _whole(body, "restore", None)
        self.pinned = _steps(body, "pin")
        self.leave = self.next = self._last = self.step = self.keep = None
        os.environ.update(
            RANK=str(self.rank),
            WORLD_SIZE=str(self.world),
            FERMI_GENERATION=str(self.generation),
            FERMI_ATTEMPT=str(self.generation),
            FERMI_RANK=str(self.rank),
            FERMI_WORLD_SIZE=str(self.world),
            MASTER_ADDR=str(body.get("master_addr", os.environ.get("MASTER_ADDR", ""))),
            MASTER_PORT=str(body.get("master_port", os.environ.get("MASTER_PORT", ""))),
        )
        for name in ("group_rank", "group_world_size"):
            if name in body:
                os.environ[name.upper()] = str(body[name])
        return True

    def close(self):
        if self.link is not None:
            self.link.close()


def _page(path):
    """A page of a file that others read; None where there is none to be had."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.posix_fallocate(fd, 0, mmap.PAGESIZE)
            return mmap.mmap(fd, mmap.PAGESIZE)
        finally:
            os.close(fd)
    except OSError:
        return None


def _number(environ, name, default):
    text = environ.get(name, "")
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise ValueError("%s is %r, not a number" % (name, text)) from None


def _whole(body, name, default):
    value = body.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default


def _steps(body, name):
    value = body.get(name)
    return frozenset(s for s in value if isinstance(s, int)) if isinstance(value, list) else frozenset()


def _numbers(metrics, gauges):
    """The metrics as JSON has them. What is no finite number has no number in JSON: it is said by its name, and 1 (not a number), 2 or 3 (infinite)."""
    out = {}
    for name, value in list(metrics.items()) + [(k, f()) for k, f in gauges.items()]:
        if value is None:
            continue
        value = float(value)  # a tensor or a numpy number too
        if math.isfinite(value):
            out[str(name)[:128]] = value
        else:
            out[str(name)[:118] + ".nonfinite"] = 1.0 if math.isnan(value) else 2.0 if value > 0 else 3.0
    if len(out) > 64:
        raise ValueError("%d metrics in one report; 64 is the most" % len(out))
    return out


_current = None


def current():
    """The session of this process; made from the environment, without a launcher, when init was not called."""
    global _current
    if _current is None:
        _current = Session()
    return _current


def begin(session):
    global _current
    _current = session
