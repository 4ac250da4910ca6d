"""Which step all ranks stop or save at.

The launcher's word reaches every rank at its own moment, but a save that not every rank makes is worth
nothing, and a rank that stops alone leaves the others waiting. So rank 0 decides: a step two ahead, noted
in the store that the process group has anyway. Ranks that meet in a collective every step can't be
further apart than that, so everybody has read it when the step comes. Costs one round trip to the store a
step; without a process group each rank decides alone.
"""

import atexit
import signal
import sys
import threading

from . import _session

AHEAD = 2
_BITS = 31  # two steps in one counter


class Agreement:
    def __init__(self, session):
        self.session = session
        self.asked = (0, False)  # checkpoints asked for and stop, as far as passed on
        self.seen = (None, (0, 0))  # a step, and what the store said at it
        self.stop_at = self.save_at = 0
        self.saved_for = 0  # the last save_at that was answered with a save
        self.last = 0  # the step of rank 0's question before this one
        self.counted = session.restore or 0  # up to which step the interval was looked at
        self.due = 0  # how often it has passed
        self.calls = {}
        _take_sigterm(session)

    def _store(self):
        dist = sys.modules.get("torch.distributed")
        if dist is None or self.session.world == 1 or not dist.is_available() or not dist.is_initialized():
            return None
        return dist.distributed_c10d._get_default_store()

    def step(self, who):
        """The step a question is about: the last one reported, or the number of the question."""
        if self.session.step is not None:
            return self.session.step
        self.calls[who] = self.calls.get(who, 0) + 1
        return self.calls[who]

    def should_stop(self, step=None):
        step = self.step("stop") if step is None else step
        stop_at = self.poll(step)[0]
        return bool(stop_at) and step >= stop_at

    def should_save(self, step=None):
        step = self.step("save") if step is None else step
        save_at = self.poll(step)[1]
        if save_at <= self.saved_for or step < save_at:
            return False
        self.saved_for = save_at
        return True

    def poll(self, step):
        """(step to stop at, step to save at), 0 for none, as all ranks have it at this step."""
        self.session.poll()
        store = self._store()
        self._count(step, store)
        wish = (self.session.checkpoints + self.due, self.session.stop is not None)
        if store is None:
            self._alone(step, wish)
            return self.stop_at, self.save_at
        if self.seen[0] != step and not self.seen[1][0]:  # who knows the last step asks no more: rank 0, and the store with it, may be gone
            self.seen = (step, self._ask(store, step, wish))
        return self.seen[1]

    def _count(self, step, store):
        """Whenever the interval has passed a save is due: at multiples of it, so that ranks that decide alone save the same steps.
        In a process group only rank 0 says so: the others may not have heard of the same interval yet."""
        every, before, self.counted = self.session.every, self.counted, step
        if every and step // every > before // every and (store is None or self.session.rank == 0):
            self.due += 1

    def _alone(self, step, wish):
        if wish[1] and not self.stop_at:
            self.stop_at = step
        if wish != self.asked:
            self.asked, self.save_at = wish, step

    def _ask(self, store, step, wish):
        try:
            return self._meet(store, step, wish)
        except RuntimeError:  # as all errors of a store are
            if self.session.rank == 0:
                raise
            return self.seen[1]  # rank 0, whose store it is, has ended, after the last step; if it died instead, the next collective says so

    def _meet(self, store, step, wish):
        prefix = "fermi/%d/" % self.session.generation
        new = wish != self.asked
        if self.session.rank != 0:
            if new:  # only this rank may have been told: rank 0 hears of it here
                store.add(prefix + ("asked-stop" if wish[1] else "asked-save"), 1)
                self.asked = wish
            return _unpack(store.add(prefix + "at", 0))
        stop_at, save_at = at = _unpack(store.add(prefix + "at", 0))
        last, self.last = self.last, step
        if last < save_at <= step:  # others may be about to read this one; once we ask again they have
            return at
        stop, save = store.add(prefix + "asked-stop", 0), store.add(prefix + "asked-save", 0)
        if (new and wish[1] or stop) and not stop_at:
            stop_at = save_at = step + AHEAD
        elif (new or save) and save_at <= step:
            save_at = step + AHEAD
        if save:  # a save that is still to come serves whoever asked before it
            store.add(prefix + "asked-save", -save)
        self.asked = wish
        if at != (stop_at, save_at):
            store.add(prefix + "at", (stop_at - at[0] << _BITS) + save_at - at[1])
        return stop_at, save_at


def _take_sigterm(session):
    """The launcher sends SIGTERM with its word to stop. A script that asks whether to stop is not ended by it, but at
    the step that all ranks agree on; one that has a handler of its own keeps it."""
    if session.link is None or threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        return

    def told(*_):
        if session.stop is None:
            session.stop = {"grace": 0, "reason": "SIGTERM"}

    def ignore():  # an interpreter that ends puts the default back: the signal may come after the word
        if session.stop is not None:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

    signal.signal(signal.SIGTERM, told)
    atexit.register(ignore)


def _unpack(value):
    return value >> _BITS, value & (1 << _BITS) - 1


_agreement = None


def current():
    global _agreement
    session = _session.current()
    if _agreement is None or _agreement.session is not session:
        _agreement = Agreement(session)
    return _agreement


def renew():
    """A new generation has a store of its own."""
    global _agreement
    _agreement = None
