"""Elastic tasks: a rank that is new takes the state of one that has it, and all share one batch.

The state that is handed over is a rank's whole slot, so it has to be the same on all ranks, as with plain DDP or
VirtualRanks. It needs a process group: call restore() after init_process_group, on every rank.
"""

import sys
from typing import NamedTuple

from . import _session

PIECE = 64 << 20  # bytes that travel at once


def _group():
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return None
    return dist


def share(session, own, room):
    """The slot to restore from: own, or, for a rank without, one that room(data, tree) gives, filled by a peer."""
    dist = _group()
    if dist is None or session.world == 1:
        return own
    store = dist.distributed_c10d._get_default_store()
    prefix = "fermi/%d/l0/" % session.generation
    store.set(prefix + str(session.rank), "%d %d" % (own.header.data, own.header.tree) if own else "-")
    said = [store.get(prefix + str(rank)).decode() for rank in range(session.world)]
    if "-" not in said or set(said) == {"-"}:
        return own
    source = next(rank for rank, text in enumerate(said) if text != "-")
    data, tree = (int(n) for n in said[source].split())
    slot = own or room(data, tree)
    kept_tree = own.read()[0] if own else b"\0" * tree
    with slot.bytes(data) as view:
        for at in range(0, data, PIECE):
            _pass(dist, view[at : min(at + PIECE, data)], source, own is None)
    got_tree = bytearray(kept_tree) if session.rank == source or own is None else bytearray(tree)
    _pass(dist, memoryview(got_tree), source, own is None)
    if own is None:
        total = slot.commit(session.rank, session.world, session.generation, session.restore, data, bytes(got_tree))
        session.send("saved", {"step": session.restore, "bytes": total, "seconds": 0}, must=True)
    return slot


def _pass(dist, view, source, take):
    """Sends a piece from one rank to all; those that have their own look away."""
    import torch

    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    if len(view) == 0:
        return
    here = torch.frombuffer(view, dtype=torch.uint8) if take or dist.get_rank() == source else None
    piece = here.to(device) if here is not None else torch.empty(len(view), dtype=torch.uint8, device=device)
    dist.broadcast(piece, source)
    if take:
        here.copy_(piece)


class Share(NamedTuple):
    """What this rank does of a step."""

    parts: range  # of the batch that as many ranks as were asked for would share: accumulate over these
    of: int  # parts there are: each counts 1/of in the mean
    lr: float  # multiply the learning rate by this


def batch_share():
    """How an elastic task keeps its batch, by `batch` of the task. keepGlobal: the parts of this rank, which
    together are always the whole batch. rescaleLR: one part a rank, and another learning rate."""
    session = _session.current()
    if session.batch == "rescaleLR":
        return Share(range(session.rank, session.rank + 1), session.world, session.world / session.base_world)
    base = max(session.base_world, session.world)
    return Share(range(base * session.rank // session.world, base * (session.rank + 1) // session.world), base, 1.0)
