"""import fermi: instant checkpoints, progress and exact resume for training code.

    import fermi
    fermi.init()
    got = fermi.checkpoint.restore()
    for step in range(got.step + 1 if got else 1, steps + 1):
        ...
        fermi.report(step=step, loss=loss)
        fermi.checkpoint.save(step, {"model": model.state_dict(), "rng": fermi.rng_state()})
        if fermi.should_stop():
            break

Without a launcher (on a laptop, in a test) every call does nothing and the script runs all the same. Standard
library only; torch and numpy are used where the script uses them.
"""

import atexit
import contextlib
import faulthandler
import importlib
import os
import signal
import sys
import time

from . import _agree, _session, checkpoint
from ._elastic import batch_share
from ._rejoin import rejoin
from ._session import Left
from ._version import VERSION as __version__
from ._rng import rng_state, set_rng_state, set_seed
from ._sampler import Sampler

__all__ = [
    "Left",
    "Sampler",
    "VirtualRanks",
    "batch_share",
    "checkpoint",
    "close",
    "generation",
    "init",
    "phase",
    "precision",
    "rank",
    "rejoin",
    "report",
    "rng_state",
    "set_rng_state",
    "set_seed",
    "should_checkpoint",
    "should_stop",
    "world_size",
    "wrap_ddp",
]

_begun = False


def init():
    """Joins the task: says hello to the launcher and learns where to start. Once a process; again does nothing."""
    global _begun
    if _begun:
        return
    _begun = True
    from . import _torch

    session = _session.Session()
    _session.begin(session)
    memory = checkpoint.attach(session)
    held = memory.held() if memory else []
    path = os.environ.get("FERMI_SOCKET")
    if path:
        _stacks()
        session.connect(path, held)
        _torch.install()
        if memory:
            memory.settle()
    elif held:
        session.restore = session.watermark = held[-1]
    if memory:
        atexit.register(checkpoint.flush)  # before the session's own: the last save is still told


def _stacks():
    """Prints the stacks of all threads on SIGUSR1, which the launcher sends to a rank that hangs; a handler of the script's stays."""
    if signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL and sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # stderr is no file: then without
            faulthandler.register(signal.SIGUSR1, file=sys.stderr, all_threads=True)


def rank():
    """The number of this rank, from 0."""
    return _session.current().rank


def world_size():
    """How many ranks there are in this generation."""
    return _session.current().world


def generation():
    """The number of this membership of the task; 0 without a launcher."""
    return _session.current().generation


def report(step, loss=None, **metrics):
    """Says that this step is done. Metrics are numbers; reading one out of a device's tensor waits for the device."""
    session = _session.current()
    session.report(int(step), dict(metrics, loss=loss))
    session.poll()


def data(batches):
    """for batch in fermi.data(loader): … the time in which the loop waits for the next one goes into the next report."""
    session = _session.current()
    it = iter(batches)
    while True:
        began = time.monotonic()
        try:
            batch = next(it)
        except StopIteration:
            return
        session.waited += time.monotonic() - began
        yield batch


@contextlib.contextmanager
def phase(name):
    """with fermi.phase("eval"): … a pause between steps that is no hang: eval, save, load or compile."""
    if name not in ("eval", "save", "load", "compile"):
        raise ValueError("phase %r is none of eval, save, load, compile" % name)
    session = _session.current()
    session.phase(name, True)
    try:
        yield
    finally:
        session.phase(name, False)


def should_checkpoint(step=None):
    """Whether to save at this step: the task is about to stop or to have another size, or (checkpoint.auto) that loses the least time. The same answer on every rank."""
    return _agree.current().should_save(step)


def should_stop(step=None):
    """Whether to end after this step: the task is stopped, preempted or drained. The same answer on every rank."""
    return _agree.current().should_stop(step)


def close():
    """Says that this rank is done, with success. Optional: the launcher sees the exit anyway."""
    checkpoint.flush()
    session = _session.current()
    session.send("bye", {"code": 0}, must=True)
    session.close()


def __getattr__(name):
    """What needs torch is imported when it is used."""
    modules = {"precision": "_precision", "VirtualRanks": "_virtual", "wrap_ddp": "_torch"}
    if name not in modules:
        raise AttributeError("module 'fermi' has no attribute %r" % name)
    return getattr(importlib.import_module("." + modules[name], __name__), name)
