"""A small DDP training that steps until a file named stop is beside it, and waits while there is one named pause.

With SDK=1 it saves every step in memory; otherwise every step to a file of its own, as scripts under torchrun do.
Each rank appends to events.RANK: what, when, generation, number."""

import os
import time

BEGUN = time.time()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: E402

SDK = os.environ.get("SDK") == "1"
if SDK:
    import fermi

RANK = os.environ["RANK"]
GENERATION = os.environ.get("FERMI_GENERATION") or os.environ.get("TORCHELASTIC_RESTART_COUNT")
WARM = 0.05  # seconds a step takes besides its work


def note(what, when=None, number=0):
    with open("events." + RANK, "a") as events:
        events.write("%s %.6f %s %d\n" % (what, when or time.time(), os.environ.get("FERMI_GENERATION") or GENERATION, number))


def restore(model, optimizer):
    if SDK:
        got = fermi.checkpoint.restore()
        state, step = (got.state, got.step) if got else (None, 0)
    else:
        state = torch.load("checkpoint") if os.path.exists("checkpoint") else None
        step = state["step"] if state else 0
    if state:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    return step


def save(step, model, optimizer):
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    if SDK:
        fermi.checkpoint.save(step, state)
        fermi.report(step=step)
    elif RANK == "0":
        torch.save(state, "checkpoint.new")
        os.rename("checkpoint.new", "checkpoint")


def train():
    note("begun", BEGUN, os.getpid())
    with open("/proc/self/stat") as stat:  # the start tells it from a process of another namespace
        note("ticks", BEGUN, int(stat.read().rsplit(")", 1)[1].split()[19]))
    dist.init_process_group("gloo")
    note("met")
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
    ddp = DDP(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    step = restore(model, optimizer)
    note("restored", number=step)
    while True:
        while RANK == "0" and os.path.exists("pause"):
            time.sleep(0.01)
        optimizer.zero_grad()
        ddp(torch.randn(16, 64)).square().mean().backward()
        optimizer.step()
        step += 1
        note("step", number=step)
        save(step, model, optimizer)
        stop = torch.tensor(float(os.path.exists("stop")))
        dist.all_reduce(stop)
        if stop:
            return
        time.sleep(WARM)


torch.set_num_threads(1)
if SDK:
    fermi.init()
    if os.environ.get("PARTIAL") == "1":
        fermi.rejoin(train)
    else:
        train()
else:
    train()
