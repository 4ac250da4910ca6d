"""A sharded layer whose gradient is the mean of rank + 1."""
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel

from check import check

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
model = FullyShardedDataParallel(torch.nn.Linear(4, 1, bias=False), device_id=torch.device("cpu"))
model(torch.full((1, 4), rank + 1.0)).sum().backward()
# Each rank has its shard of the mean gradient; the layer has four weights, each with the same.
mine = torch.tensor([sum(p.grad.sum().item() for p in model.parameters() if p.grad is not None)])
dist.all_reduce(mine)
check(rank, world, mine.item() * world / 4)
dist.barrier()
dist.destroy_process_group()
