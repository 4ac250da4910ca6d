"""save(wait=True): a save that returns when a tier has the step, not only this rank's memory.

The rank says {"want": {"step", "tier"}} once its slot is whole, and the launcher answers {"durable": {"step", "tier"}}, with "why" where
it comes to nothing. Ranks may all wait for the same step: nobody needs a slot of another's meanwhile.
"""

import time

TIERS = {True: "", "local": "local", "shared": "shared"}


class NotCommitted(RuntimeError):
    """The step is in memory at most: no tier has it, for the reason given."""


def save(l0, session, step, state, overlap, wait, timeout):
    if wait not in TIERS:
        raise ValueError("wait is %r; True, 'local' and 'shared' are known" % (wait,))
    end = time.monotonic() + timeout
    session.phase("save", True)
    try:
        saved = _take(l0, session, step, state, overlap, end)
        if session.link is not None:
            _await(session, step, TIERS[wait], end)
        return saved
    finally:
        session.phase("save", False)


def _take(l0, session, step, state, overlap, end):
    """Saves into memory; where all slots are needed, as soon as one is not."""
    saved = l0.save(step, state, overlap, now=True)
    while not saved and not l0.holds(step):
        if not l0.full:
            raise NotCommitted("step %d: %s" % (step, saved.why))
        l0.flush()  # without a launcher that frees a slot
        _listen(session, step, end, saved.why)
        saved = l0.save(step, state, overlap, now=True)
    l0.flush()
    if not l0.holds(step):
        raise NotCommitted("step %d could not be saved in memory" % step)
    return saved if saved else saved._replace(taken=True, why="")


def _await(session, step, tier, end):
    session.durable = None
    session.send("want", {"step": step, "tier": tier}, must=True)
    while True:
        got = session.durable
        if got is not None and got.get("step") == step and got.get("tier") == tier:
            if got.get("why"):
                raise NotCommitted("step %d: %s" % (step, got["why"]))
            return
        _listen(session, step, end, "it is not committed yet")


def _listen(session, step, end, why):
    """Acts on what the launcher says next; an order to leave raises Left."""
    session.poll()
    if session.link is None:
        return
    if not session.link.open:
        raise NotCommitted("step %d: the launcher hung up" % step)
    left = end - time.monotonic()
    if left <= 0:
        raise NotCommitted("step %d: %s, and the time to wait is over" % (step, why))
    session.listen(min(left, 1.0))
