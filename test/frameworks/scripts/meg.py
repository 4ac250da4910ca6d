"""Megatron's tensor-parallel layer sums over its tensor group, its data-parallel group over the rest."""
import argparse

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.model_parallel_config import ModelParallelConfig
from megatron.core.tensor_parallel import RowParallelLinear

from check import check

parser = argparse.ArgumentParser()
parser.add_argument("--tensor-model-parallel-size", type=int, required=True)
parser.add_argument("--pipeline-model-parallel-size", type=int, required=True)
parser.add_argument("--distributed-backend", required=True)
args, _ = parser.parse_known_args()

dist.init_process_group(args.distributed_backend)
parallel_state.initialize_model_parallel(args.tensor_model_parallel_size, args.pipeline_model_parallel_size)
rank, world, tensor = dist.get_rank(), dist.get_world_size(), args.tensor_model_parallel_size
assert parallel_state.get_data_parallel_world_size() * tensor == world

config = ModelParallelConfig(tensor_model_parallel_size=tensor, use_cpu_initialization=True, perform_initialization=False)
layer = RowParallelLinear(
    tensor, 1, config=config, init_method=lambda w: w, bias=False, input_is_parallel=True, skip_bias_add=False,
)
with torch.no_grad():
    layer.weight.fill_(1)
total, _ = layer(torch.full((1, 1), rank + 1.0))  # summed over the tensor group by the layer
total = total.detach().clone()
dist.all_reduce(total, group=parallel_state.get_data_parallel_group())
check(rank, world, total.item())
dist.barrier()
dist.destroy_process_group()
