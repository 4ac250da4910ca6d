"""Checkpoints from and to other formats, with real PyTorch."""

import collections
import json
import os
import struct
import tempfile
import unittest

import torch

from fermi import checkpoint, convert


def model_state():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).to(torch.bfloat16)
    return collections.OrderedDict(model.state_dict())


def equal(a, b):
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    return type(a) is type(b) and a == b


class Convert(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="fsdk", dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.path = lambda name: os.path.join(folder.name, name)

    def test_a_state_goes_through_slot_and_torch_file_unchanged(self):
        state = {"model": model_state(), "step": 7, "list": [1, (2, None)], "e": torch.empty(0, 3)}
        convert.write(state, self.path("slot"), step=7)
        self.assertTrue(equal(convert.read(self.path("slot")), state))
        self.assertEqual(convert.main([self.path("slot"), self.path("out.pt")]), 0)
        self.assertTrue(equal(convert.read(self.path("out.pt")), state))
        self.assertEqual(convert.main([self.path("out.pt"), self.path("again"), "--step", "7"]), 0)
        with open(self.path("slot"), "rb") as a, open(self.path("again"), "rb") as b:
            self.assertEqual(a.read(), b.read())

    def test_safetensors_hold_a_model(self):
        state = {"model": dict(model_state(), flag=torch.tensor([True, False]), one=torch.tensor(5)), "step": 7}
        convert.write(state, self.path("slot"), step=7)
        with self.assertRaisesRegex(TypeError, "step: safetensors holds tensors only"):
            convert.write(state, self.path("bad.safetensors"))
        self.assertFalse(os.path.exists(self.path("bad.safetensors")))
        self.assertEqual(convert.main([self.path("slot"), self.path("m.safetensors"), "--only", "model"]), 0)
        back = convert.read(self.path("m.safetensors"))
        self.assertEqual(set(back), set(state["model"]))
        self.assertTrue(all(equal(back[k], v) for k, v in state["model"].items()))

    def test_broken_safetensors_are_refused(self):
        def file(header, data=b""):
            text = json.dumps(header).encode() if not isinstance(header, bytes) else header
            with open(self.path("x.safetensors"), "wb") as out:
                out.write(struct.pack("<Q", len(text)) + text + data)
            return self.path("x.safetensors")

        for header in (
            {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}},  # no data
            {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}},
            {"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}},
            {"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}},
            {"a": {"dtype": "EVIL", "shape": [1], "data_offsets": [0, 4]}},
            b"{",
        ):
            with self.assertRaises(ValueError, msg=header):
                convert.read(file(header, b"abcd"))
        with open(self.path("y.safetensors"), "wb") as out:
            out.write(struct.pack("<Q", 1 << 60))
        with self.assertRaisesRegex(ValueError, "no safetensors"):
            convert.read(self.path("y.safetensors"))

    def test_the_slots_of_all_ranks_become_one_state(self):
        whole = torch.arange(35.0).reshape(5, 7)
        names = []
        for rank, (begin, end) in enumerate(((0, 2), (2, 4), (4, 5))):
            part = checkpoint.shard(whole[begin:end], (5, 7), (begin, 0))
            names.append(self.path("rank-%d" % rank))
            convert.write({"w": part, "list": [part], "rank": rank}, names[-1], step=1)
        self.assertEqual(convert.main(names + [self.path("out.pt")]), 0)
        self.assertTrue(equal(convert.read(self.path("out.pt")), {"w": whole, "list": [whole], "rank": 0}))
        with self.assertRaisesRegex(ValueError, r"state\['w'\]: 7 of 35 elements are with none"):
            convert.merge([convert.read(name) for name in names[:2]])
        with self.assertRaisesRegex(TypeError, "a part of a larger tensor"):
            convert.write(convert.read(names[0]), self.path("part.pt"))

    def slots(self, folder, world=2, step=5):
        os.makedirs(self.path(folder))
        for rank in range(world):
            state = {"w": checkpoint.shard(torch.full((1, 3), float(rank)), (world, 3), (rank, 0)), "layer%d" % rank: torch.tensor([rank]), "same": 1}
            plan = convert._tree.Plan(state)
            tree = plan.encoded()
            slot = convert._slots.Slot(self.path("%s/rank-%d.slot" % (folder, rank)))
            slot.reserve(plan.length, len(tree))
            slot.put(plan)
            slot.commit(rank, world, 1, step, plan.length, tree)
            slot.close()

    def test_a_folder_of_slots_is_one_state(self):
        self.slots("f")
        want = {"w": torch.tensor([[0.0] * 3, [1.0] * 3]), "layer0": torch.tensor([0]), "same": 1, "layer1": torch.tensor([1])}
        self.assertEqual(convert.main([self.path("f"), self.path("out.pt")]), 0)
        self.assertTrue(equal(torch.load(self.path("out.pt"), weights_only=True), want))

    def test_a_folder_that_is_no_whole_checkpoint_is_refused(self):
        self.slots("f", world=3)
        os.rename(self.path("f/rank-1.slot"), self.path("aside"))
        with self.assertRaisesRegex(ValueError, r"rank-1.slot is missing; there were 3 ranks"):
            convert.read(self.path("f"))
        self.slots("g", world=3, step=6)
        os.rename(self.path("g/rank-1.slot"), self.path("f/rank-1.slot"))
        with self.assertRaisesRegex(ValueError, r"rank 1 of 3 at step 6, which does not belong here"):
            convert.read(self.path("f"))

    def test_a_file_becomes_a_folder_of_slots(self):
        state = {"model": model_state(), "step": 7}
        torch.save(state, self.path("in.pt"))
        self.assertEqual(convert.main([self.path("in.pt"), self.path("f") + "/", "--step", "7"]), 0)
        self.assertEqual(os.listdir(self.path("f")), ["rank-0.slot"])
        self.assertTrue(equal(convert.read(self.path("f")), state))
        self.assertEqual(convert.main([self.path("in.pt"), self.path("f") + "/", "--step", "8"]), 1)  # never two steps in one

    def test_a_file_with_code_in_it_is_not_read(self):
        marker = self.path("ran")

        class Evil:
            def __reduce__(self):
                return os.mkdir, (marker,)

        torch.save({"w": Evil()}, self.path("evil.pt"))
        self.assertEqual(convert.main([self.path("evil.pt"), self.path("slot"), "--step", "1"]), 1)
        self.assertFalse(os.path.exists(marker) or os.path.exists(self.path("slot")))

    def test_a_damaged_slot_is_not_read(self):
        convert.write({"w": torch.ones(1000)}, self.path("slot"), step=1)
        with open(self.path("slot"), "r+b") as file:
            file.seek(5000)
            file.write(b"\xff")
        with self.assertRaisesRegex(ValueError, "not whole"):
            convert.read(self.path("slot"))


if __name__ == "__main__":
    unittest.main()
