"""Partial restart: a healthy rank keeps its process and joins the next generation in place.

When a peer dies its collectives fail; the rank drops its process group, says that it left, and waits for
its place in the next generation. If the launcher gives none the error is raised as if nobody had caught
it: a full restart is always possible.
"""

import gc
import sys

from . import _agree, _session, checkpoint

PLACE = 600.0  # seconds to be given a place: the server may be away; a launcher that has none hangs up
WHY = 1000  # characters of the error that are told

# How a collective fails because of another rank, in gloo's, nccl's and the store's own words.
_PEERS = ("connection closed by peer", "connection reset by peer", "connection refused", "broken pipe", "socket closed", "gloo", "nccl", "timed out", "timeout", "store")


def rejoin(train, *args, **kwargs):
    """Calls train(*args, **kwargs) and returns what it returns; calls it again in every next generation.

    train does all that depends on the generation itself: init_process_group, DDP, checkpoint.restore().
    """
    session = _session.current()
    if session.link is None:
        return train(*args, **kwargs)
    session.may_leave = True
    session.send("can", {"leave": True}, must=True)
    try:
        while True:
            try:
                return train(*args, **kwargs)
            except Exception as err:
                if not _of_peers(err):
                    raise
                _leave(err)
                if not session.rejoin(PLACE, _why(err)):
                    raise
            _agree.renew()
            if checkpoint._l0 is not None:
                checkpoint._l0.settle()
    finally:
        session.may_leave = False
        session.send("can", {"leave": False}, must=True)


def _of_peers(err):
    if isinstance(err, (_session.Left, ConnectionError)):
        return True
    dist = sys.modules.get("torch.distributed")
    if isinstance(err, getattr(dist, "DistError", ())):  # PyTorch 2 has types for them
        return True
    text = str(err).lower()
    return isinstance(err, RuntimeError) and any(word in text for word in _PEERS)


def _why(err):
    """What the launcher is told: an error of the collective, nothing where it ordered the rank out itself."""
    return "" if isinstance(err, _session.Left) else ("%s: %s" % (type(err).__name__, err))[:WHY]


def _leave(err):
    """Drops the process group. The frames of the failed call hold the model that used it. What was saved is told before
    the rank says that it left: afterwards it would count for the next generation."""
    import traceback

    traceback.clear_frames(err.__traceback__)
    dist = sys.modules.get("torch.distributed")
    if dist is not None and dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
    gc.collect()
    checkpoint.flush()
