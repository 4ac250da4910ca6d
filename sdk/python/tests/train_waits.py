"""A DDP training whose rank 1 is slow: the others wait for it."""

import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

import fermi

fermi.init()
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = torch.nn.Linear(16, 16)
ddp = DDP(model)
for step in range(1, 1000):
    if fermi.rank() == 1:
        time.sleep(0.2)
    ddp(torch.ones(4, 16)).square().mean().backward()
    fermi.report(step=step)
