"""A sharded layer whose gradient is the mean of rank + 1."""
from importlib.metadata import version

from check import check, not_verified

if int(version("torch").split(".")[0]) < 2:
    not_verified(f"FSDP of torch {version('torch')} needs CUDA")

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
model = FullyShardedDataParallel(torch.nn.Linear(4, 1, bias=False))
model(torch.full((1, 4), rank + 1.0)).sum().backward()
check(rank, world, sum(p.grad.sum().item() for p in model.parameters() if p.grad is not None) * world)
dist.barrier()
