"""Virtual ranks: a run whose bits do not depend on how many ranks computed it.

The global batch is always cut into the same number of shards. A shard's gradient depends on the weights,
its samples and random numbers seeded by (step, shard) only, wherever it is computed; and gradients are
summed in the order of shards: each rank has a run of neighbouring shards, takes the sum of those before
from the rank before, adds its own one by one and hands the sum on; the last one has the whole and gives it
to all. In pieces, so that ranks work at different pieces at the same time.
"""

import torch
import torch.distributed as dist

from . import _session, _rng

PIECE = 1 << 18  # elements that travel at once


class VirtualRanks:
    """step() leaves the mean gradient over all shards in the parameters, the same bits on every rank.

    Buffers (running means of normalization) are taken from shard 0, which every step begins from the same
    ones. shards must be at least the largest number of ranks ever used.
    """

    def __init__(self, model, shards, seed=0):
        self.model, self.shards, self.seed = model, shards, seed
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        if len({p.dtype for p in self.parameters}) != 1 or len({p.device for p in self.parameters}) != 1:
            raise ValueError("virtual ranks need all parameters in one element type on one device")
        self.size = sum(p.numel() for p in self.parameters)

    def mine(self):
        """The shards of this rank."""
        rank, world = self._place()
        if world > self.shards:
            raise ValueError("%d ranks cannot share %d shards" % (world, self.shards))
        return range(self.shards * rank // world, self.shards * (rank + 1) // world)

    def _place(self):
        if dist.is_available() and dist.is_initialized():
            return dist.get_rank(), dist.get_world_size()
        session = _session.current()
        return session.rank, session.world

    def step(self, step, loss):
        """Calls loss(shard) for this rank's shards, with the model in the state of the step's begin; returns the
        mean of all shards' losses. loss(shard) is the mean over the shard's samples."""
        outside = _rng.rng_state()
        begin = [b.detach().clone() for b in self.model.buffers()]
        kept = begin
        rows = []
        for shard in self.mine():
            _rng.set_seed(self.seed, step, shard)
            self._set_buffers(begin)
            for p in self.parameters:
                p.grad = None
            value = loss(shard)
            value.backward()
            rows.append(self._row(value))
            if shard == 0:
                kept = [b.detach().clone() for b in self.model.buffers()]
        total = self._sum(rows)
        self._set_buffers(kept)
        if self._place()[1] > 1:
            for b in self.model.buffers():
                dist.broadcast(b, 0)
        _rng.set_rng_state(outside)
        total.div_(self.shards)
        self._scatter(total)
        return total[-1].item()

    def _row(self, value):
        """A shard's gradient and loss as one row."""
        parts = [(p.grad if p.grad is not None else torch.zeros_like(p)).reshape(-1) for p in self.parameters]
        return torch.cat(parts + [value.detach().reshape(1).to(parts[0].dtype)])

    def _sum(self, rows):
        rank, world = self._place()
        if rank == 0:
            total = rows[0]
            for row in rows[1:]:
                total += row
        else:
            total = torch.empty_like(rows[0])
        if world == 1:
            return total
        sent = []
        for at in range(0, len(total), PIECE):
            piece = total[at : at + PIECE]
            if rank > 0:
                dist.recv(piece, rank - 1)
                for row in rows:
                    piece += row[at : at + PIECE]
            if rank < world - 1:
                sent.append(dist.isend(piece, rank + 1))
        for request in sent:
            request.wait()
        dist.broadcast(total, world - 1)
        return total

    def _scatter(self, total):
        at = 0
        for p in self.parameters:
            p.grad = total[at : at + p.numel()].view_as(p)
            at += p.numel()

    def _set_buffers(self, values):
        with torch.no_grad():
            for b, value in zip(self.model.buffers(), values):
                b.copy_(value)
