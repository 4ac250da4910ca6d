"""A DDP training in blocks: block.N says "steps repeats", done.N has rank 0's seconds of each step, cpu.N.RANK the seconds of CPU that
the process and, of them, the SDK has used so far, and for how long how many saves held it up. With SDK=1 it reports every step and saves every
tenth in memory; otherwise it is plain. STATE_MIB is how much more of a state there is, all of which changes in every step."""

import contextlib
import os
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

SDK = os.environ.get("SDK") == "1"
if SDK:
    import fermi

RANK = int(os.environ.get("RANK", "0"))
WARM = 3  # steps of a block that don't count
EVERY = 10
spent = 0.0  # of CPU by the main thread within the SDK
stalled, saves = 0.0, 0
rest = torch.randn(int(os.environ.get("STATE_MIB", "0")) << 18)


def wait_for(block):
    """What the next block is: rank 0 looks, the others hear it."""
    order = torch.zeros(2, dtype=torch.int64)
    with fermi.phase("load") if SDK else contextlib.nullcontext():
        if RANK == 0:
            while not os.path.exists("block.%d" % block):
                time.sleep(0.02)
            with open("block.%d" % block) as file:
                order = torch.tensor([int(word) for word in file.read().split()])
        dist.broadcast(order, 0)
    return order.tolist()


def move_to(block):
    """Begins a block on the processor on which the other's rank does: none is as fast as the next, and a process stays
    where it was. From there the system may move it."""
    every = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(every)[(block + RANK) % len(every)]})
    os.sched_setaffinity(0, every)


def tell(step, model, optimizer):
    global spent, stalled, saves
    begin = time.thread_time()
    fermi.report(step=step)
    if step % EVERY == 0:
        saved = fermi.checkpoint.save(step, {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rest": rest})
        stalled, saves = stalled + saved.stall, saves + bool(saved)
    spent += time.thread_time() - begin


def threads():
    """CPU of the threads that Python made, which are the SDK's: torch's are not Python's."""
    total = 0
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            with open("/proc/self/task/%d/schedstat" % thread.native_id) as file:
                total += int(file.read().split()[0])
    return total / 1e9


def write(name, text):
    with open(name + ".new", "w") as out:
        out.write(text)
    os.rename(name + ".new", name)


def main():
    torch.set_num_threads(1)
    if SDK:
        fermi.init()
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    else:  # the only one
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256))
    ddp = DDP(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    batch, step, block = torch.randn(64, 256), 0, 0
    while True:
        steps, repeats = wait_for(block)
        move_to(block)
        seconds, last = [], time.perf_counter()
        for _ in range(WARM + steps):
            optimizer.zero_grad()
            with ddp.no_sync():
                for _ in range(repeats - 1):
                    ddp(batch).square().mean().backward()
            ddp(batch).square().mean().backward()
            optimizer.step()
            rest.mul_(0.999)
            step += 1
            if SDK:
                tell(step, model, optimizer)
            now = time.perf_counter()
            seconds.append(now - last)
            last = now
        write("cpu.%d.%d" % (block, RANK), "%.6f %.6f %.6f %d\n" % (time.process_time(), spent + threads() if SDK else 0, stalled, saves))
        dist.barrier()
        if RANK == 0:
            write("done.%d" % block, "\n".join("%.6f" % s for s in seconds[WARM:]) + "\n")
        block += 1


main()
