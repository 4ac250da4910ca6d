"""Every sample exactly once an epoch, whatever the number of ranks does; and an order that looks random."""

import collections
import random
import unittest

from fermi import Sampler
from fermi._sampler import Permutation


def ranks_of(world, n, batch, state=None, **more):
    samplers = [Sampler(n, batch, rank=r, world=world, **more) for r in range(world)]
    for s in samplers:
        if state:
            s.load_state_dict(state)
    return samplers


class Samplers(unittest.TestCase):
    def run_epoch(self, n, batch, worlds, steps):
        """Runs on with the number of ranks changed after so many steps each, until the first epoch is over;
        returns the ids by epoch, and the lists of every step."""
        state, ids, lists = None, collections.defaultdict(list), []
        while state is None or state["epoch"] == 0 and state["position"] < n:
            world = worlds.pop(0) if len(worlds) > 1 else worlds[0]
            samplers = ranks_of(world, n, batch, state, seed=5)
            streams = [iter(s) for s in samplers]
            for _ in range(steps):
                got = [next(stream, None) for stream in streams]
                self.assertEqual(len({g is None for g in got}), 1, "all ranks see the epoch end together")
                if got[0] is None:
                    break
                lists.append(got)
                ids[samplers[0].epoch] += sum(got, [])
            states = [s.state_dict() for s in samplers]
            self.assertTrue(all(s == states[0] for s in states))
            state = states[0]
        return ids, lists

    def test_exactly_once_through_8_6_8_ranks(self):
        for n in (1003, 1000, 997, 48, 100):
            for batch in (1, 4, 7):
                ids, _ = self.run_epoch(n, batch, [8, 6, 8], 2)
                self.assertEqual(sorted(ids[0]), list(range(n)), (n, batch))

    def test_exactly_once_with_any_numbers(self):
        rng = random.Random(1)
        for _ in range(150):
            n, batch = rng.randrange(1, 400), rng.randrange(1, 9)
            worlds = [rng.randrange(1, 10) for _ in range(rng.randrange(1, 5))]
            one = worlds[0] if len(worlds) == 1 else 0
            ids, lists = self.run_epoch(n, batch, worlds, rng.randrange(1, 5))
            self.assertEqual(sorted(ids[0]), list(range(n)), (n, batch, worlds))
            self.assertEqual(len(ids), 1)
            for got in lists:
                sizes = [len(g) for g in got]
                self.assertLessEqual(max(sizes) - min(sizes), 1)
                self.assertLessEqual(max(sizes), batch)
                if one and batch > 1 and n >= one:
                    self.assertGreater(min(sizes), 0, (n, batch, one))

    def test_weights_make_the_mean_over_ranks_the_mean_over_samples(self):
        samplers = ranks_of(8, 1003, 4)
        for lists in zip(*samplers):
            whole = sum(len(part) for part in lists)
            mean = sum(sum(part) / len(part) * s.weight for part, s in zip(lists, samplers)) / 8
            self.assertAlmostEqual(mean, sum(map(sum, lists)) / whole)

    def test_a_restored_sampler_goes_on_where_the_other_was(self):
        a = Sampler(1003, 4, seed=9, rank=1, world=3)
        seen = []
        for _ in range(3):
            for i, ids in enumerate(a):
                seen.append((a.epoch, ids, a.state_dict()))
        for at in (0, 7, 83, 84, 100, len(seen) - 2):
            b = Sampler(1003, 4, seed=9, rank=1, world=3)
            b.load_state_dict(seen[at][2])
            again = []
            while len(again) < len(seen) - at - 1:
                for ids in b:
                    again.append(ids)
            self.assertEqual(again[: len(seen) - at - 1], [ids for _, ids, _ in seen[at + 1 :]])

    def test_a_loader_that_reads_ahead_says_what_was_used(self):
        a = Sampler(100, 3, rank=0, world=2)
        states = []
        stream = iter(a)
        for _ in range(10):
            next(stream)
            states.append(a.state_dict())
        self.assertEqual([a.state_dict(taken=k + 1) for k in range(10)], states)

    def test_epochs_and_seeds_differ_and_repeat(self):
        def order(seed, epoch):
            s = Sampler(500, 10, seed=seed, rank=0, world=1)
            s.epoch = epoch
            return sum(s, [])

        self.assertEqual(order(1, 0), order(1, 0))
        self.assertEqual(len({tuple(order(seed, epoch)) for seed in range(3) for epoch in range(3)}), 9)
        self.assertEqual(sum(Sampler(10, 3, shuffle=False, rank=0, world=1), []), list(range(10)))

    def test_the_order_is_pinned(self):
        """It must be the same in every version, or a resumed run sees samples twice."""
        self.assertEqual([Permutation(1003, 3, 0)[i] for i in range(8)], PINNED)

    def test_the_order_looks_random(self):
        n, places = 40, collections.Counter()
        for seed in range(2000):
            p = Permutation(n, seed, 0)
            self.assertEqual(sorted(p[i] for i in range(n)), list(range(n)))
            places.update(((0, p[0]), (17, p[17])))
        for first in (0, 17):
            counts = [places[(first, v)] for v in range(n)]
            chi = sum((c - 2000 / n) ** 2 / (2000 / n) for c in counts)
            self.assertLess(chi, 75)  # 39 degrees of freedom: p < 0.0005 above; the seeds are fixed

    def test_states_of_another_order_are_refused(self):
        state = Sampler(10, 2, seed=1).state_dict()
        for other in (Sampler(11, 2, seed=1), Sampler(10, 2, seed=2), Sampler(10, 2, seed=1, shuffle=False)):
            with self.assertRaisesRegex(ValueError, "no sample order in common"):
                other.load_state_dict(state)
        with self.assertRaisesRegex(ValueError, "is none of"):
            Sampler(10, 2, seed=1).load_state_dict(dict(state, position=11))
        with self.assertRaises(ValueError):
            Sampler(0)


PINNED = [552, 301, 461, 865, 851, 626, 781, 302]

if __name__ == "__main__":
    unittest.main()
