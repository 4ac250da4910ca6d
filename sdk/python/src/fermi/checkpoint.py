"""Checkpoints in memory (L0): a save costs training one copy, a restore gives back exactly what was saved.

Three slots a rank (four where a peer's memory keeps copies), in shared memory that belongs to the launcher and outlives the rank. A slot is
reused only when a newer step is whole on every rank (the watermark the launcher tells), the launcher does not
read it and no copy of it is needed or on its way (pin); while there is
none, save() skips and says so; it never waits, but for room that a thread is making. Check sums are taken after the copy, by the launcher or, where
it does not, in a thread, and the step counts as saved only then.

Ranks that skipped different steps could hold, for ever, steps that no step is common to. So after a few
skips in a row a rank offers to give up what is newer than the watermark: it says the rest as `held`, and
overwrites nothing until the coordinator answers {"watermark": {"step": …, "held": true}}: from then on
the steps given up can't become the watermark any more, and if one had become it before, the answer says so.
Only a launcher whose welcome has "offers": true is asked; another would never answer. Ranks that gave up steps then
save only now and then, all at the same: answers come at different moments, and they would fill their slots with different steps again.
"""

import fcntl
import os
import queue
import sys
import threading
import time
from typing import Any, NamedTuple

from . import _durable, _elastic, _overlap, _session, _slots, _tree
from ._durable import NotCommitted
from ._match import Mismatch
from ._shard import Shard, shard

__all__ = ["L0", "Mismatch", "NotCommitted", "RestoreError", "Restored", "Saved", "Shard", "attach", "flush", "restore", "save", "shard"]

STUCK = 4  # skips in a row before steps are offered
APART, APART_MOST = 16, 1 << 14  # after that one save in so many is made, until the watermark rises; twice as many each time it did not
_LOCK_WAIT = 30.0  # seconds for the process that was this rank before to be gone
_SEAL_WAIT = 60.0  # seconds for the launcher to sum what was copied


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
        self._slots = [_slots.Slot("%s.%d" % (base, i)) for i in range(session.slots)]
        self._busy = set()  # slots between copy and commit
        self._copied = {}  # of them those that the launcher sums → their step
        self._making = set()  # slots that a thread makes room in, busy too
        self._mutex = threading.Lock()
        self._made = threading.Condition(self._mutex)
        self._work = queue.Queue()
        self._thread = None
        self.skipped = 0
        self.full = False  # the last save found all slots needed
        self._stuck = 0  # skips in a row
        self._calls, self._step = 0, 0  # of save, for how many steps in this generation, and the last of them
        self._apart, self._low = 0, None  # one save in so many, 0: all; as long as this is the watermark
        self._offered = set()  # steps given up, until the coordinator knows

    def held(self):
        """The steps that are whole here, every byte read, by the launcher if it sums; what is not whole, or another rank's, is emptied."""
        for slot in self._slots:
            header = slot.look() if self._session.seals else slot.verify()
            if header is None or header.rank != self._session.rank and not self._session.elastic:
                slot.wipe()
        return sorted({s.header.step for s in self._slots if s.header})

    def settle(self):
        """Forgets what is newer than the step this generation starts from: its peers do not have it,
        and the same step saved anew by others must never be mixed with it."""
        self._rest()
        self._stuck, self._offered, self._session.released = 0, set(), False
        self._calls, self._apart = 0, 0
        restore = self._session.restore
        for slot in self._slots:
            if slot.header and (restore is None or slot.header.step > restore):
                slot.wipe()

    def save(self, step, state, overlap=None, now=False):
        """Takes the state. now: also while one save in several is made only."""
        if step < 1:
            raise ValueError("step %d: steps count from 1, what has been done" % step)
        begin = time.monotonic()
        self._session.poll()
        self._give_up()
        if step != self._step:
            self._step, self._calls = step, self._calls + 1
        if self._apart and self._session.watermark != self._low:
            self._apart = 0
        if self._apart and self._calls % self._apart and not now:
            self.skipped += 1
            return Saved(False, step, why="ranks held no step in common; until they do, one save in %d is made" % self._apart)
        slot, why = self._take(step)
        self.full = slot is None and not self.holds(step)
        if slot is None:
            self.skipped += 1
            self._offer()
            return Saved(False, step, why=why)
        self._stuck = 0
        try:
            plan = _tree.Plan(state, overlap and _overlap.of(overlap))
            tree = plan.encoded()
            self._session.send("saving", {"step": step}, must=True)
            torch = sys.modules["torch"] if plan.devices else None
            slot.reserve(plan.length, len(tree), torch)
            slot.put(plan)
        except OSError as err:
            self._done(slot)
            self.skipped += 1
            return Saved(False, step, why="no memory for the state: %s" % err)
        except BaseException:
            self._done(slot)
            raise
        copied = time.monotonic()
        self._session.stalled = max(self._session.stalled, copied - begin)
        self._make_others(plan.length, len(tree), torch)
        if self._session.seals and not plan.later:
            self._tell(slot, step, plan.length, tree)
        else:
            self._start()
            self._work.put((slot, step, plan.length, tree, copied, plan.finish))
        return Saved(True, step, plan.length + len(tree), copied - begin)

    def _tell(self, slot, step, length, tree):
        """The launcher is to sum what was copied."""
        session = self._session
        total = slot.copied(session.rank, session.world, session.generation, step, length, tree)
        with self._mutex:
            self._copied[slot] = step
        session.send("copied", {"step": step, "slot": self._slots.index(slot), "bytes": total}, must=True)

    def _sealed(self):
        """Sees what the launcher has summed since; false while there is more to come."""
        with self._mutex:
            for slot, step in list(self._copied.items()):
                if slot.empty():
                    print("fermi: step %d is not saved: the launcher could not read it" % step, file=sys.stderr)
                elif slot.look() is None:
                    continue
                del self._copied[slot]
                self._busy.discard(slot)
            return not self._copied or self._session.link is None or not self._session.link.open

    def _take(self, step):
        """A free slot, or why there is none. One that is being made is waited for: ranks that skip different steps hold none in common."""
        while True:
            making = len(self._making)
            slot, why = self._free(step)
            if slot is not None or not making or self.holds(step):
                return slot, why
            with self._made:
                self._made.wait_for(lambda: len(self._making) < making)

    def _free(self, step):
        """A slot nobody can need, marked busy, or why there is none."""
        self._sealed()
        watermark, pinned = self._session.watermark, self._session.pinned
        with self._mutex:
            if any(s.header and s.header.step == step for s in self._slots):
                return None, "step %d is held already" % step
            for slot in self._slots:
                old = slot.header
                if slot not in self._busy and (old is None or watermark is not None and old.step < watermark and old.step != self._session.keep and old.step not in pinned):
                    self._busy.add(slot)
                    return slot, ""
            steps = sorted(s.header.step for s in self._slots if s.header)
        return None, "all slots are needed: steps %s are held and %s is the newest that is whole on every rank" % (steps, watermark)

    def holds(self, step):
        """Whether the state of that step is whole here."""
        with self._mutex:
            return any(s.header and s.header.step == step for s in self._slots)

    def _offer(self):
        self._stuck += 1
        if self._stuck < STUCK or self._offered or not self._session.may_offer:
            return
        watermark = self._session.watermark
        with self._mutex:
            steps = sorted(s.header.step for s in self._slots if s.header)
        self._low = watermark
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
        if watermark == self._low:
            self._apart = min(max(2 * self._apart, APART), APART_MOST)

    def _make_others(self, data, tree, torch):
        """A thread makes room for as much in the slots that are free, and tells CUDA of it: training does not wait for it, and
        later saves cost the copy only. What a slot holds stays."""
        with self._mutex:
            lacking = [s for s in self._slots if s not in self._busy and (s.header is None or s.fits(data, tree)) and not s.ready(data, tree, torch)]
            if self._making or not lacking:
                return
            self._making.update(lacking)
            self._busy.update(lacking)
        device = torch and torch.cuda.current_device()  # which is a thread's own
        try:  # no daemon: the end of the interpreter waits for it, so that CUDA is still there
            threading.Thread(target=self._make, args=(lacking, data, tree, torch, device), name="fermi-room", daemon=False).start()
        except RuntimeError:  # the interpreter is ending
            self._made_room(lacking)

    def _make(self, slots, data, tree, torch, device):
        left = list(slots)  # one that was made may be a save's by now
        try:
            if torch:
                torch.cuda.set_device(device)
            while left:
                left[0].reserve(data, tree, torch)
                self._made_room([left.pop(0)])
        except Exception:  # no memory: the save that needs the slot meets it too, and says so
            pass
        finally:
            self._made_room(left)

    def _made_room(self, slots):
        with self._made:
            self._making.difference_update(slots)
            self._busy.difference_update(slots)
            self._made.notify_all()

    def _rest(self):
        """Waits until every state taken is whole, and nobody but the caller changes slots."""
        self.flush()
        with self._made:
            self._made.wait_for(lambda: not self._making)

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
                if session.seals:
                    self._tell(slot, step, length, tree)
                    continue
                total = slot.commit(session.rank, session.world, session.generation, step, length, tree)
                if session.link is None:
                    session.watermark = step
                session.send("saved", {"step": step, "bytes": total, "seconds": round(time.monotonic() - copied, 6)}, must=True)
            except Exception as err:  # training goes on without this save
                slot.wipe()
                print("fermi: step %d is not saved: %s" % (step, err), file=sys.stderr)
            finally:
                if slot not in self._copied:
                    self._done(slot)
                self._work.task_done()

    def _done(self, slot):
        with self._mutex:
            self._busy.discard(slot)

    def flush(self):
        """Waits until every state taken is whole."""
        self._work.join()
        end, pause = time.monotonic() + _SEAL_WAIT, 0.0002
        while not self._sealed():
            if time.monotonic() > end:
                print("fermi: the launcher does not sum steps %s" % sorted(self._copied.values()), file=sys.stderr)
                return
            time.sleep(pause)
            pause = min(2 * pause, 0.01)

    def restore(self, into=None):
        self._rest()
        step = self._session.restore
        if step is None:
            self._expect(into)
            return None
        slot = next((s for s in self._slots if s.header and s.header.step == step), None)
        if self._session.elastic:
            slot = _elastic.share(self._session, slot, self._room)
        if slot is not None:
            tree, data = slot.read()
            with data:
                restored = Restored(step, _tree.decode(tree, data, into))
            self._make_others(slot.header.data, slot.header.tree, _with_cuda())
            return restored
        self._session.send("held", {"steps": sorted(s.header.step for s in self._slots if s.header)}, must=True)
        raise RestoreError("step %d is to be restored, and rank %d does not hold it" % (step, self._session.rank))

    def _expect(self, state):
        """Makes room for a state like this one, at the start. What an optimizer keeps is not there before its first step: a first save
        that finds too little makes it."""
        if state is None:
            return
        try:
            plan = _tree.Plan(state)
        except (TypeError, ValueError):  # the save of it will say so
            return
        self._make_others(plan.length, len(plan.encoded()), sys.modules["torch"] if plan.devices else None)

    def _room(self, data, tree):
        """An empty slot with room for a peer's state; nothing older than the step to restore is needed."""
        slot = next(s for s in self._slots if s.header is None or s.header.step < self._session.restore)
        slot.wipe()
        slot.reserve(data, tree)
        return slot

    def close(self):
        self._rest()
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


def _with_cuda():
    """torch, where the script uses a card by now."""
    torch = _tree.module("torch")
    return torch if torch is not None and torch.cuda.is_initialized() else None


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


def save(step, state, overlap=None, wait=False, timeout=600.0):
    """Takes the state after this step, the first of which is 1; returns at once. True when taken; otherwise .why says why not.

    state is made of dicts, lists, tuples and sets of tensors, arrays, bytes and plain values, for
    example {"model": model.state_dict(), "rng": fermi.rng_state(), "sampler": sampler.state_dict()}.
    overlap=optimizer lets the tensors of that optimizer, where they are on a card, be copied while the next step
    computes its gradients; the optimizer's next step() waits for them.
    wait=True returns when a checkpoint of the step is committed in the nearest tier that the task uses, wait="local" or
    "shared" when it is in that one; all ranks must save the step. NotCommitted says why it is not, also after timeout
    seconds. Without a launcher the slot in memory is waited for.
    """
    if _l0 is None:
        return Saved(False, step, why="no launcher: checkpoints in memory are off")
    if wait is not False:
        return _durable.save(_l0, _session.current(), step, state, overlap, wait, timeout)
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
