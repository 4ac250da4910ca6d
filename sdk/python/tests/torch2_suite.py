"""make e2e-torch2: what Debian's PyTorch is too old for. DTensor, ShardedTensor, DCP folders, and the safetensors library itself."""

import os
import subprocess
import sys
import tempfile
import unittest
import warnings

import safetensors.torch
import torch
import torch.distributed as dist

from fermi import convert
from tests.convert_suite import equal, model_state
from tests.test_tree import through

HERE = os.path.dirname(os.path.abspath(__file__))


def rank_of_two(rank, store):
    """One of two ranks, as a process: prints what it keeps of tensors that are cut over both."""
    from torch.distributed._shard import sharded_tensor
    from torch.distributed._shard.sharding_spec import ChunkShardingSpec
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, init_device_mesh

    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=2)
    whole, mesh = torch.arange(15.0).reshape(5, 3), init_device_mesh("cpu", (2,))
    rows, columns = (distribute_tensor(whole, mesh, [Shard(d)]) for d in (0, 1))
    cut = sharded_tensor.empty(ChunkShardingSpec(dim=0, placements=["rank:0/cpu", "rank:1/cpu"]), 5, 3)
    cut.local_shards()[0].tensor.copy_(rows.to_local())
    for value in (rows, columns, cut):
        back = through([value])[0]
        print(list(back.offsets), list(back.global_shape), back.split, back.tensor.tolist())
    assert torch.equal(through(distribute_tensor(whole, mesh, [Replicate()])), whole)
    from torch.distributed.tensor import Partial

    try:
        through({"w": DTensor.from_local(whole, mesh, [Partial()])})
    except TypeError as err:
        print(err)
    dist.barrier()


class Torch2(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="fsdk", dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.path = lambda name: os.path.join(folder.name, name)

    def test_tensors_cut_by_torch_say_where_they_lie(self):
        ranks = [
            subprocess.Popen([sys.executable, "-m", "tests.torch2_suite", str(rank), self.path("store")], cwd=os.path.dirname(HERE), stdout=subprocess.PIPE, text=True)
            for rank in range(2)
        ]
        said = [r.communicate(timeout=300)[0].splitlines() for r in ranks]
        self.assertEqual([r.returncode for r in ranks], [0, 0])
        whole = torch.arange(15.0).reshape(5, 3)
        for rank, (row, column) in enumerate(((slice(0, 3), slice(0, 2)), (slice(3, 5), slice(2, 3)))):
            rows = "[%d, 0] [5, 3] 0 %s" % (row.start, whole[row].tolist())
            columns = "[0, %d] [5, 3] 1 %s" % (column.start, whole[:, column].tolist())
            self.assertEqual(said[rank][:3], [rows, columns, rows])
            self.assertRegex(said[rank][3], r"state\['w'\]: a DTensor placed as .*Partial")

    def test_the_safetensors_library_reads_ours_and_we_its(self):
        state = dict(model_state(), flag=torch.tensor([True]), one=torch.tensor(5), none=torch.empty(0, 4))
        convert.write(state, self.path("ours.safetensors"))
        theirs = safetensors.torch.load_file(self.path("ours.safetensors"))
        self.assertEqual(set(theirs), set(state))
        self.assertTrue(all(equal(theirs[k], v) for k, v in state.items()))
        safetensors.torch.save_file(state, self.path("theirs.safetensors"), metadata={"format": "pt"})
        ours = convert.read(self.path("theirs.safetensors"))
        self.assertTrue(set(ours) == set(state) and all(equal(ours[k], v) for k, v in state.items()))

    def test_dcp_folders_there_and_back(self):
        import torch.distributed.checkpoint as dcp

        state = {"model": dict(model_state()), "step": 7, "lr": 0.1}
        convert.write(state, self.path("slot"), step=7)
        self.assertEqual(convert.main([self.path("slot"), self.path("dcp") + "/"]), 0)
        into = {"model": {k: torch.zeros_like(v) for k, v in state["model"].items()}, "step": 0, "lr": 0.0}
        dcp.load(into, checkpoint_id=self.path("dcp"))
        self.assertTrue(equal(into, state))
        dcp.save(state, checkpoint_id=self.path("theirs"))
        self.assertEqual(convert.main([self.path("theirs"), self.path("back"), "--step", "7"]), 0)
        self.assertEqual(convert.read(self.path("back"))["lr"], 0.1)
        back = convert.read(self.path("back"))
        self.assertTrue(all(equal(back["model"][k], v) for k, v in state["model"].items()))


if __name__ == "__main__":
    rank_of_two(int(sys.argv[1]), sys.argv[2])
