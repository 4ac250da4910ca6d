"""DDP over a fixed number of samples: the more ranks, the fewer steps. What a device would compute in a step is a wait, so that the machine's cores don't count."""

import os
import time

import torch
import torch.distributed as dist

SAMPLES, BATCH, COMPUTE = 9600, 16, 0.06
torch.set_num_threads(1)
dist.init_process_group("gloo")
world = dist.get_world_size()
ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8)))


def step():
    time.sleep(COMPUTE)
    ddp(torch.randn(BATCH, 64)).square().mean().backward()


for _ in range(3):
    step()
dist.barrier()
begin = time.time()
steps = SAMPLES // (BATCH * world)
for _ in range(steps):
    step()
dist.barrier()
if dist.get_rank() == 0:
    print("rate %.6f" % (steps * BATCH / (time.time() - begin)), flush=True)  # samples a second and rank
dist.destroy_process_group()
