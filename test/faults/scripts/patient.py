"""A small DDP training that goes wrong as it is told.

The file `order` holds the number of the newest order, `order.N` what it is: whose rank, how, when (start: before the ranks
meet; step: at the next step) and whether every generation does it. After the orders `end` and `mixed` the others have done their work. `fired.N` holds the step
in which order N was obeyed: later generations don't do it again, or, where they shall, do it at the same step. Rank 0 tells
in `steps` when it began and how many steps it has made since.
"""

import ctypes
import os
import signal
import socket
import sys
import threading
import time

BEGUN = time.time()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: E402

import fermi  # noqa: E402

RANK = int(os.environ["RANK"])


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


def crashed():
    ctypes.string_at(0)


def aborted():
    os.abort()


def terminated():
    os.kill(os.getpid(), signal.SIGTERM)


def code():
    sys.exit(7)


def shapes():
    torch.nn.Linear(3, 4)(torch.randn(2, 5))


def module():
    import no_such_module  # noqa: F401


def file():
    torch.load("no-such-file")


def syntax():
    exec(compile("def collate(:\n", "plugin.py", "exec"))


def assertion():
    assert torch.zeros(3).any(), "an empty batch"


def not_finite():
    loss = torch.zeros(1) / 0 * 0
    if not torch.isfinite(loss).all():
        raise FloatingPointError("loss is nan")


def host_memory():
    torch.empty(1 << 50)


def address():
    first, second = socket.socket(), socket.socket()
    first.bind(("127.0.0.1", 0))
    second.bind(first.getsockname())


def disk_full():
    with open("/dev/full", "wb") as full:
        torch.save(torch.randn(1 << 16), full)


def stopped():
    os.kill(os.getpid(), signal.SIGSTOP)


def asleep():
    time.sleep(1000)


def locked():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def left():
    sys.exit(0)


def mixed():
    sys.exit(3)


def end():
    pass


def eats():
    kept = []
    while True:
        kept.append(torch.ones(1 << 22))


def read(name):
    try:
        with open(name) as f:
            return f.read().split()
    except FileNotFoundError:
        return []


def write(name, *words):
    with open(name + ".new", "w") as f:
        f.write(" ".join(map(str, words)))
    os.rename(name + ".new", name)


def due(when, step):
    """The number of the order that is to be obeyed now; 0: none."""
    number = (read("order") or ["0"])[0]
    if number == "0":
        return 0
    _, _, then, every = read("order." + number)
    fired = read("fired." + number)
    if then != when or fired and (every != "every" or int(fired[0]) != step):
        return 0
    return int(number)


def obey(number, step):
    rank, how, _, _ = read("order.%d" % number)
    if int(rank) == RANK:
        write("fired.%d" % number, step)
        globals()[how]()


def main():
    torch.set_num_threads(1)
    write("replica.%d" % RANK, os.environ["FERMI_REPLICA"])
    number = due("start", 0)
    if number:
        obey(number, 0)
    fermi.init()
    dist.init_process_group("gloo")
    model = torch.nn.Linear(64, 64)
    ddp = DDP(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    got = fermi.checkpoint.restore()
    begin = step = got.step if got else 0
    if got:
        model.load_state_dict(got.state)
    while True:
        now = torch.tensor(due("step", step))
        dist.broadcast(now, 0)
        if now:
            obey(int(now), step)
            how = read("order.%d" % int(now))[1]
            if how == "end":  # gloo aborts a process whose peer has gone before it has heard its last word
                dist.barrier()
                time.sleep(0.5 if RANK == 0 else 0)
            if how in ("end", "mixed"):
                break
        optimizer.zero_grad()
        ddp(torch.randn(16, 64)).square().mean().backward()
        optimizer.step()
        step += 1
        fermi.checkpoint.save(step, model.state_dict())
        fermi.report(step=step)
        if RANK == 0:
            write("steps", BEGUN, step - begin)
        time.sleep(0.05)


main()
