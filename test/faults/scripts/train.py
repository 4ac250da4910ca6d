"""A small DDP training of STEPS steps that says where it is. Its rank HANGS falls asleep in the first generation; PAUSE: seconds a
long evaluation takes, which nobody announces, and a save. BREAK: seconds between steps."""

import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

import fermi


def asleep():
    time.sleep(1000)


def evaluate(seconds):
    """Works, as an evaluation does, and reports nothing."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        torch.randn(64, 64).matmul(torch.randn(64, 64))


def main():
    torch.set_num_threads(1)
    fermi.init()
    dist.init_process_group("gloo")
    model = torch.nn.Linear(64, 64)
    ddp = DDP(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    got = fermi.checkpoint.restore()
    step = got.step if got else 0
    if got:
        model.load_state_dict(got.state)
    pause = float(os.environ.get("PAUSE", "0"))
    while step < int(os.environ["STEPS"]):
        optimizer.zero_grad()
        ddp(torch.randn(16, 64)).square().mean().backward()
        if fermi.generation() == 1 and step == 20 and os.environ.get("HANGS") == str(fermi.rank()):
            asleep()
        optimizer.step()
        step += 1
        fermi.checkpoint.save(step, model.state_dict())
        fermi.report(step=step)
        if pause and step == 20:
            evaluate(pause)
            with fermi.phase("save"):
                time.sleep(pause)
        time.sleep(float(os.environ.get("BREAK", "0.02")))
    dist.destroy_process_group()


main()
