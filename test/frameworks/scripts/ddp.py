"""Every rank's loss is its parameter times rank + 1; DDP averages the gradients."""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from check import check

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
model = torch.nn.Linear(1, 1, bias=False)
ddp = DistributedDataParallel(model)
ddp(torch.tensor([[rank + 1.0]])).sum().backward()
check(rank, world, model.weight.grad.item() * world)
dist.barrier()
dist.destroy_process_group()
