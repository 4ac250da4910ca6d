"""Which samples a rank takes: every sample exactly once an epoch, whatever the number of ranks does.

The order of an epoch is a permutation that needs no memory, made from seed and epoch. All ranks walk it
together; the state is one position that says nothing of ranks, so any number of them can go on from it.
"""

import hashlib

from . import _session

_MASK = (1 << 64) - 1


class Sampler:
    """Iterating gives lists of sample numbers for this rank until the epoch ends; again: the next epoch.

    n samples, batch of them a rank and step. The last steps of an epoch may be smaller, spread evenly; a
    rank gets an empty list only where fewer samples than ranks are left and batch is 1 or n is that small.
    `weight` is what this rank's mean loss counts for in the mean over ranks: 1 unless the parts are uneven.

    A loader that reads ahead must say what was really used: state_dict(taken=K) is the state after K of the
    lists that the current iteration gave.
    """

    def __init__(self, n, batch=1, shuffle=True, seed=0, rank=None, world=None):
        if n < 1 or batch < 1:
            raise ValueError("a sampler needs at least one sample and a batch of at least one, not n=%d and batch=%d" % (n, batch))
        self.n, self.batch, self.shuffle, self.seed = n, batch, shuffle, seed
        self._rank, self._world = rank, world
        self.epoch = 0
        self.position = 0  # samples of this epoch handed out, over all ranks
        self.weight = 1.0
        self._begin = (0, 0)  # epoch and position when the current iteration began

    @property
    def rank(self):
        return self._rank if self._rank is not None else _session.current().rank

    @property
    def world(self):
        return self._world if self._world is not None else _session.current().world

    def __iter__(self):
        for order, cuts in self._steps():
            begin, end = cuts[self.rank : self.rank + 2]
            self.weight = (end - begin) * (len(cuts) - 1) / (cuts[-1] - cuts[0])
            yield [order[i] for i in range(begin, end)]

    def by_rank(self):
        """Like iterating, but gives the lists of all ranks: [ids of rank 0, ids of rank 1, …]."""
        for order, cuts in self._steps():
            yield [[order[i] for i in range(*cut)] for cut in zip(cuts, cuts[1:])]

    def _steps(self):
        """The order of this epoch and, step by step, where in it the part of each rank begins, and the last one ends."""
        if self.position >= self.n:
            self._turn()
        order = Permutation(self.n, self.seed, self.epoch) if self.shuffle else range(self.n)
        self._begin = (self.epoch, self.position)
        epoch = self.epoch
        while self.epoch == epoch and self.position < self.n:
            at, world = self.position, self.world
            size = _step(self.n - at, world, self.batch)
            self.position = at + size
            yield order, [at + size * r // world for r in range(world + 1)]
        if self.epoch == epoch and self.position >= self.n:
            self._turn()

    def _turn(self):
        self.epoch += 1
        self.position = 0

    def state_dict(self, taken=None):
        epoch, position = self.epoch, self.position
        if taken is not None:
            epoch, position = self._begin
            for _ in range(taken):
                position += _step(self.n - position, self.world, self.batch)
        return {"n": self.n, "seed": self.seed, "shuffle": self.shuffle, "epoch": epoch, "position": position}

    def load_state_dict(self, state):
        """Goes on from there, with this sampler's own batch and the ranks there are now."""
        for name in ("n", "seed", "shuffle"):
            if state[name] != getattr(self, name):
                raise ValueError("the saved sampler has %s=%r, this one %r: no sample order in common" % (name, state[name], getattr(self, name)))
        if not 0 <= state["position"] <= self.n or state["epoch"] < 0:
            raise ValueError("position %r of epoch %r is none of %d samples" % (state["position"], state["epoch"], self.n))
        self.epoch, self.position = state["epoch"], state["position"]
        self._begin = (self.epoch, self.position)


def _step(left, world, batch):
    """How many samples the next step takes of those left. Where the last step would leave ranks with
    nothing, the one before gives some away."""
    full = world * batch
    if left <= full:
        return left
    last = left - full
    if last < world and batch > 1:
        return full - (world - last)
    return full


class Permutation:
    """The numbers 0..n-1 in an order given by the keys, each found without the others.

    A Feistel network over the next even power of two, walked again where it leaves the range; what every
    machine, Python and library computes alike.
    """

    ROUNDS = 8

    def __init__(self, n, *keys):
        self.n = n
        self._half = max(1, ((n - 1).bit_length() + 1) // 2)
        self._low = (1 << self._half) - 1
        text = "/".join(str(int(k)) for k in keys)
        digest = hashlib.sha512(text.encode()).digest()
        self._keys = [int.from_bytes(digest[8 * i : 8 * i + 8], "little") for i in range(self.ROUNDS)]

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if not 0 <= i < self.n:
            raise IndexError(i)
        while True:
            i = self._walk(i)
            if i < self.n:
                return i

    def _walk(self, i):
        left, right = i >> self._half, i & self._low
        for key in self._keys:
            z = (right + key) & _MASK  # splitmix64's finisher
            z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & _MASK
            z = ((z ^ z >> 27) * 0x94D049BB133111EB) & _MASK
            left, right = right, left ^ ((z ^ z >> 31) & self._low)
        return left << self._half | right
