"""Checkpoints in memory (L0): a save costs training one copy, a restore gives back exactly what was saved.

Three slots a rank, in shared memory that belongs to the launcher and outlives the rank. A slot is
reused only when a newer step is whole on every rank (the watermark the launcher tells) and the launcher does not read it; while there is
none, save() skips and says so; it never waits. Check sums are taken after the copy, in a thread, and
the step counts as saved only then.

Ranks that skipped different steps could hold, for ever, steps that no step is common to. So after a few
skips in a row a rank offers to give up what is newer than the watermark: it says the rest as `held`, and
overwrites nothing until the coordinator answers {"watermark": {"step": …, "held": true}}: from then on
the steps given up can't become the watermark any more, and if one had become it before, the answer says so.
Only a launcher whose welcome has "offers": true is asked; another would never answer.
"""

import fcntl
import os
import queue
import sys
import threading
import time
from typing import Any, NamedTuple

from . import _elastic, _overlap, _session, _slots, _tree
from ._match import Mismatch
from ._shard import Shard, shard

__all__ = ["L0", "Mismatch", "RestoreError", "Restored", "Saved", "Shard", "attach", "flush", "restore", "save", "shard"]

SLOTS = 3
STUCK = 4  # skips in a row before steps are offered
_LOCK_WAIT = 30.0  # seconds for the process that was this rank before to be gone


class Saved(NamedTuple):
    """What became of a save: true when the state was taken, else why says why not."""

    taken: bool
    step: int
    bytes: int = 0
    stall: float = 0.0  # seconds that training waited
    why: str = ""

    def __bool__(self):
        return self.taken


class Restored(NamedTuple):
    step: int
    state: Any


class RestoreError(RuntimeError):
    """The step the launcher named is not whole here any more."""


class L0:
    """The slots of one rank."""

    def __init__(self, folder, session):
        self._session = session
        base = os.path.join(folder, "rank-%d" % session.local_rank)
        self._lock_file = _lock(base + ".lock")
        self._slots = [_slots.Slot("%s.%d" % (base, i)) for i in range(SLOTS)]
        self._busy = set()  # slots between copy and commit
        self._mutex = threading.Lock()
        self._work = queue.Queue()
        self._thread = None
        self.skipped = 0
        self._stuck = 0  # skips in a row
        self._offered = set()  # steps given up, until the coordinator knows

    def held(self):
        """The steps that are whole here, every byte read; what is not whole, or another rank's, is emptied."""
        for slot in self._slots:
            header = slot.verify()
            if header is None or header.rank != self._session.rank and not self._session.elastic:
                slot.wipe()
        return sorted({s.header.step for s in self._slots if s.header})

    def settle(self):
        """Forgets what is newer than the step this generation starts from: its peers do not have it,
        and the same step saved anew by others must never be mixed with it."""
        self.flush()
        self._stuck, self._offered, self._session.released = 0, set(), False
        restore = self._session.restore
        for slot in self._slots:
            if slot.header and (restore is None or slot.header.step > restore):
                slot.wipe()

    def save(self, step, state, overlap=None):
        if step < 1:
            raise ValueError("step %d: steps count from 1, what has been done" % step)
        begin = time.monotonic()
        self._session.poll()
        self._give_up()
        slot, why = self._free(step)
        if slot is None:
            self.skipped += 1
            self._offer()
            return Saved(False, step, why=why)
        self._stuck = 0
        try:
            plan = _tree.Plan(state, overlap and _overlap.of(overlap))
            tree = plan.encoded()
            self._session.send("saving", {"step": step}, must=True)
            self._reserve(slot, plan.length, len(tree), plan.devices)
            slot.put(plan)
        except OSError as err:
            self._done(slot)
            self.skipped += 1
            return Saved(False, step, why="no memory for the state: %s" % err)
        except BaseException:
            self._done(slot)
            raise
        self._start()
        copied = time.monotonic()
        self._work.put((slot, step, plan.length, tree, copied, plan.finish))
        return Saved(True, step, plan.length + len(tree), copied - begin)

    def _free(self, step):
        """A slot nobody can need, marked busy, or why there is none."""
        watermark = self._session.watermark
        with self._mutex:
            if any(s.header and s.header.step == step for s in self._slots):
                return None, "step %d is held already" % step
            for slot in self._slots:
                old = slot.header
                if slot not in self._busy and (old is None or watermark is not None and old.step < watermark and old.step != self._session.keep):
                    self._busy.add(slot)
                    return slot, ""
            steps = sorted(s.header.step for s in self._slots if s.header)
        return None, "all slots are needed: steps %s are held and %s is the newest that is whole on every rank" % (steps, watermark)

    def _offer(self):
        self._stuck += 1
        if self._stuck < STUCK or self._offered or not self._session.may_offer:
            return
        watermark = self._session.watermark
        with self._mutex:
            steps = sorted(s.header.step for s in self._slots if s.header)
        kept = [s for s in steps if watermark is not None and s <= watermark]
        self._offered = set(steps) - set(kept)
        if self._offered:
            self._session.send("held", {"steps": kept}, must=True)

    def _give_up(self):
        """Empties what was offered, once the coordinator knows; what became the watermark meanwhile stays."""
        if not self._session.released:
            return
        self._session.released = False
        watermark = self._session.watermark
        for slot in self._slots:
            if slot.header and slot.header.step in self._offered and (watermark is None or slot.header.step > watermark):
                slot.wipe()
        self._offered = set()

    def _reserve(self, slot, data, tree, devices):
        """At the first save room is made in all slots at once: later ones cost the copy only."""
        with self._mutex:
            empty = [s for s in self._slots if s not in self._busy and s.header is None]
        for s in [slot] + empty:
            s.reserve(data, tree)
            if devices:
                s.pin(sys.modules["torch"])

    def _start(self):
        if self._thread is None:
            self._thread = threading.Thread(target=self._commit, name="fermi-l0", daemon=True)
            self._thread.start()

    def _commit(self):
        for slot, step, length, tree, copied, finish in iter(self._work.get, None):
            try:
                finish()
                finish = None  # and with it the tensors
                session = self._session
                total = slot.commit(session.rank, session.world, session.generation, step, length, tree)
                if session.link is None:
                    session.watermark = step
                session.send("saved", {"step": step, "bytes": total, "seconds": round(time.monotonic() - copied, 6)}, must=True)
            except Exception as err:  # training goes on without this save
                slot.wipe()
                print("fermi: step %d is not saved: %s" % (step, err), file=sys.stderr)
            finally:
                self._done(slot)
                self._work.task_done()

    def _done(self, slot):
        with self._mutex:
            self._busy.discard(slot)

    def flush(self):
        """Waits until every state taken is whole."""
        self._work.join()

    def restore(self, into=None):
        self.flush()
        step = self._session.restore
        if step is None:
            return None
        slot = next((s for s in self._slots if s.header and s.header.step == step), None)
        if self._session.elastic:
            slot = _elastic.share(self._session, slot, self._room)
        if slot is not None:
            tree, data = slot.read()
            with data:
                return Restored(step, _tree.decode(tree, data, into))
        self._session.send("held", {"steps": sorted(s.header.step for s in self._slots if s.header)}, must=True)
        raise RestoreError("step %d is to be restored, and rank %d does not hold it" % (step, self._session.rank))

    def _room(self, data, tree):
        """An empty slot with room for a peer's state; nothing older than the step to restore is needed."""
        slot = next(s for s in self._slots if s.header is None or s.header.step < self._session.restore)
        slot.wipe()
        slot.reserve(data, tree)
        return slot

    def close(self):
        self.flush()
        if self._thread is not None:
            self._work.put(None)
            self._thread.join()
        for slot in self._slots:
            slot.close()
        os.close(self._lock_file)


def _lock(path):
    """Held for life, and not by forked children: whoever was this rank before must be gone before a slot is touched."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    end = time.monotonic() + _LOCK_WAIT
    while True:
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return fd
        except OSError as err:
            if time.monotonic() > end:
                os.close(fd)
                raise RuntimeError("another process still holds %s" % path) from err
            time.sleep(0.005)


_l0 = None


def attach(session):
    """Opens the slots for a session where there is shared memory. Without a launcher only a rank that is
    alone may use them: nobody would tell the others' watermark."""
    global _l0
    _l0 = None
    if session.shm and (os.environ.get("FERMI_SOCKET") or session.world == 1):
        _l0 = L0(session.shm, session)
        session.gauges["saves_skipped"] = lambda: _l0.skipped if _l0 and _l0.skipped else None
    return _l0


def save(step, state, overlap=None):
    """Takes the state after this step, the first of which is 1; returns at once. True when taken; otherwise .why says why not.

    state is made of dicts, lists, tuples and sets of tensors, arrays, bytes and plain values, for
    example {"model": model.state_dict(), "rng": fermi.rng_state(), "sampler": sampler.state_dict()}.
    overlap=optimizer lets the tensors of that optimizer, where they are on a card, be copied while the next step
    computes its gradients; the optimizer's next step() waits for them.
    """
    if _l0 is None:
        return Saved(False, step, why="no launcher: checkpoints in memory are off")
    return _l0.save(step, state, overlap)


def restore(into=None):
    """The state this generation starts from, with .step and .state, or None when it starts from nothing.

    into: a state of the same form, for example {"model": model.state_dict()}. Its tensors are filled in place, if all
    of them are there with their type and shape; otherwise Mismatch lists the first that are not, and none is changed.
    """
    return _l0.restore(into) if _l0 is not None else None


def flush():
    """Waits until what save() took is whole: check sums are taken in a thread."""
    if _l0 is not None:
        _l0.flush()
