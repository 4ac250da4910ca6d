"""States go through the tree unchanged, and nothing else does."""

import collections
import json
import math
import random
import struct
import unittest

from fermi import _tree


def through(state):
    plan = _tree.Plan(state)
    data = bytearray(plan.length)
    plan.copy(memoryview(data))
    return _tree.decode(plan.encoded(), memoryview(data))


class Trees(unittest.TestCase):
    def test_values_come_back_with_their_types(self):
        states = [
            None,
            True,
            1 << 200,
            -0.0,
            0.1,
            5e-324,
            "字\ud800\n",
            [1, [2, (3, ())]],
            {"a": 1, 2: "b", (1, 2): [None], None: False},
            {1, 2, "x"},
            frozenset([(1, 2)]),
            b"\0\xff",
            bytearray(b"abc"),
            b"",
            collections.OrderedDict([("z", 1), ("a", 2)]),
            collections.Counter("hello"),
            {"d": 1, "x": [], "t": {"l": 2}},  # keys that look like the encoding's own
            random.getstate(),
        ]
        for state in states:
            with self.subTest(state=repr(state)[:60]):
                back = through(state)
                self.assertEqual(back, state)
                self.assertIs(type(back), type(state))
                if not isinstance(state, (set, frozenset)):  # those have no order
                    self.assertEqual(repr(back), repr(state))

    def test_numbers_that_json_has_not_keep_their_bits(self):
        odd = struct.unpack("<d", bytes.fromhex("010000000000f87f"))[0]
        for value in (math.inf, -math.inf, math.nan, odd):
            self.assertEqual(struct.pack("<d", through(value)), struct.pack("<d", value))

    def test_metadata_of_modules_is_kept(self):
        state = collections.OrderedDict(w=1)
        state._metadata = collections.OrderedDict({"": {"version": 2}})
        self.assertEqual(through(state)._metadata, state._metadata)

    def test_what_is_not_known_is_refused_by_its_path(self):
        class Thing:
            pass

        class Words(dict):
            pass

        for bad, path in (({"a": [1, Thing()]}, r"state\['a'\]\[1\]: cannot keep a .*Thing"), (Words(), "cannot keep a .*Words"), (lambda: 0, "function"), (1j, "complex")):
            with self.assertRaisesRegex(TypeError, path):
                _tree.Plan(bad)
        deep = []
        for _ in range(200):
            deep = [deep]
        with self.assertRaisesRegex(ValueError, "nested more than"):
            _tree.Plan(deep)

    def test_blobs_are_aligned_and_apart(self):
        plan = _tree.Plan([b"x" * n for n in range(200)])
        end = 0
        for offset, length, _ in plan.blobs:
            self.assertEqual(offset % _tree.ALIGN, 0)
            self.assertGreaterEqual(offset, end)
            end = offset + length
        self.assertLessEqual(end, plan.length)

    def test_broken_trees_raise_and_do_nothing_else(self):
        rng = random.Random(5)
        good = _tree.Plan({"a": (1, {2}, b"xyz", 0.5), "b": bytearray(100)}).encoded()
        data = memoryview(bytes(256))
        for _ in range(3000):
            bad = bytearray(good)
            for _ in range(rng.randrange(1, 4)):
                bad[rng.randrange(len(bad))] = rng.choice(b'{}[]",:0123456789abxyztnfm- e')
            try:
                _tree.decode(bytes(bad), data)
            except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, ImportError, RuntimeError, struct.error):
                pass
        for leaf in ([0, 300], [-1, 4], [250, 10]):
            with self.assertRaisesRegex(ValueError, "outside"):
                _tree.decode(json.dumps({"y": leaf}), data)


if __name__ == "__main__":
    unittest.main()
