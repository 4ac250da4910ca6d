"""Megatron's groups and tensor-parallel layer in a DeepSpeed engine with the recipe's own configuration."""
import argparse
import json
import os
import sys

os.environ.setdefault("DS_ACCELERATOR", "cpu")
import deepspeed
import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.model_parallel_config import ModelParallelConfig
from megatron.core.tensor_parallel import RowParallelLinear

from check import check

parser = argparse.ArgumentParser()
parser.add_argument("--tensor-model-parallel-size", type=int, required=True)
parser.add_argument("--deepspeed", action="store_true")
parser.add_argument("--deepspeed_config", required=True)
parser.add_argument("--zero-stage", type=int, required=True)
args, _ = parser.parse_known_args()
assert args.deepspeed

sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # compiles a kernel for inference with g++ at run time, in all ranks at once
deepspeed.init_distributed(dist_backend="gloo")
tensor = args.tensor_model_parallel_size
parallel_state.initialize_model_parallel(tensor)
rank, world = dist.get_rank(), dist.get_world_size()
data = parallel_state.get_data_parallel_world_size()
assert data * tensor == world


class Groups:
    """Megatron's groups by the names that DeepSpeed asks for: without pipeline stages the model is the tensor group."""

    get_model_parallel_group = staticmethod(parallel_state.get_tensor_model_parallel_group)
    get_model_parallel_world_size = staticmethod(parallel_state.get_tensor_model_parallel_world_size)
    get_model_parallel_rank = staticmethod(parallel_state.get_tensor_model_parallel_rank)

    def __getattr__(self, name):
        return getattr(parallel_state, name)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        config = ModelParallelConfig(tensor_model_parallel_size=tensor, use_cpu_initialization=True, perform_initialization=False)
        self.layer = RowParallelLinear(
            tensor, 1, config=config, init_method=lambda w: w, bias=False, input_is_parallel=True, skip_bias_add=False,
        )
        with torch.no_grad():
            self.layer.weight.fill_(0)

    def forward(self, x):
        return self.layer(x)[0]


with open(args.deepspeed_config) as f:
    config = json.load(f)
assert config["zero_optimization"]["stage"] == args.zero_stage
config["zero_allow_untested_optimizer"] = True  # plain SGD: its step is the gradient
model = Model()
engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0), config=config, mpu=Groups())
engine.backward(engine(torch.full((1, 1), rank + 1.0)).sum())
engine.step()
# The step is the mean gradient over the data-parallel group, downwards; each rank of the tensor group has its own part.
mine = torch.tensor([-model.layer.weight.item() * data])
dist.all_reduce(mine, group=parallel_state.get_tensor_model_parallel_group())
check(rank, world, mine.item())
dist.barrier()
