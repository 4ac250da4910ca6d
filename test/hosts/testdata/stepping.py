"""A small DDP training that steps until a file named stop is in its outputs on rank 0's host, saves every step in memory and writes down when it made which."""

import os
import time

import torch
import torch.distributed as dist

import fermi

RANK, OUT = int(os.environ["RANK"]), os.environ["FERMI_OUTPUT"]
torch.set_num_threads(1)
fermi.init()
dist.init_process_group("gloo")
torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
ddp = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
got = fermi.checkpoint.restore()
step = 0
if got:
    step = got.step
    model.load_state_dict(got.state["model"])
    optimizer.load_state_dict(got.state["optimizer"])
with open("/proc/self/stat") as stat:  # the start tells it from a process of another namespace
    ticks = int(stat.read().rsplit(")", 1)[1].split()[19])
stop = torch.zeros(1)
while not stop:
    optimizer.zero_grad()
    ddp(torch.randn(16, 64)).square().mean().backward()
    optimizer.step()
    step += 1
    with open(os.path.join(OUT, "events.%d" % RANK), "a") as events:
        events.write("%.6f %s %d %d %d\n" % (time.time(), os.environ["FERMI_GENERATION"], step, os.getpid(), ticks))
    fermi.checkpoint.save(step, {"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    fermi.report(step=step)
    stop = torch.tensor(float(RANK == 0 and os.path.exists(os.path.join(OUT, "stop"))))
    dist.all_reduce(stop)
    time.sleep(0.05)
