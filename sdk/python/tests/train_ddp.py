"""A plain DDP script with `import fermi`, as the bit-exactness tests run it. OUT names the file for the digests;
EVERY the steps between saves; DEVICE=cuda the card; TRACE, if set, the file for every rank's steps; PACE the seconds it rests after each; PARTIAL=1 stays in the process
when a peer dies; PLAIN=1 without the SDK's DDP."""

import hashlib
import os
import random
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

import fermi

DEVICE = os.environ.get("DEVICE", "cpu")
STEPS = int(os.environ.get("STEPS", "40"))
N = 1003


def digest(*states):
    """SHA-256 over every byte of tensors and the text of everything else."""
    h = hashlib.sha256()

    def add(value):
        if isinstance(value, torch.Tensor):
            h.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
        elif isinstance(value, dict):
            for k in value:
                h.update(repr(k).encode())
                add(value[k])
        elif isinstance(value, (list, tuple)):
            for v in value:
                add(v)
        else:
            h.update(repr(value).encode())

    add(states)
    return h.hexdigest()


def build():
    torch.manual_seed(7)
    return torch.nn.Sequential(
        torch.nn.Linear(32, 96), torch.nn.BatchNorm1d(96), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(96, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)
    )


def next_ids(sampler, count=100):
    copy = fermi.Sampler(sampler.n, sampler.batch, sampler.shuffle, sampler.seed)
    copy.load_state_dict(sampler.state_dict())
    ids = []
    while len(ids) < count:
        for batch in copy:
            ids += batch
    return ids[:count]


def trace(step):
    if os.environ.get("TRACE"):
        with open("%s.%d" % (os.environ["TRACE"], fermi.rank()), "a") as out:
            with open("/proc/self/stat") as stat:  # the start tells it from a process of another namespace
                start = int(stat.read().rsplit(")", 1)[1].split()[19])
            out.write("%d %d %d %d\n" % (fermi.generation(), step, os.getpid(), start))


def train():
    dist.init_process_group("nccl" if DEVICE == "cuda" else "gloo")
    generator = torch.Generator().manual_seed(1)
    xs = torch.randn(N, 32, generator=generator).to(DEVICE)
    ys = torch.randint(0, 8, (N,), generator=generator).to(DEVICE)
    model = build().to(DEVICE)
    ddp = DDP(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [10, 20], 0.5)
    sampler = fermi.Sampler(N, 8, seed=3)
    fermi.set_seed(11, fermi.rank())

    got = fermi.checkpoint.restore()
    step = 0
    if got:
        step = got.step
        model.load_state_dict(got.state["model"])
        optimizer.load_state_dict(got.state["optimizer"])
        schedule.load_state_dict(got.state["schedule"])
        sampler.load_state_dict(got.state["sampler"])
        fermi.set_rng_state(got.state["rng"])

    while step < STEPS:
        for ids in sampler:
            noise = random.random() * 1e-3
            loss = torch.nn.functional.cross_entropy(ddp(xs[ids] + noise), ys[ids])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            step += 1
            if step % int(os.environ.get("EVERY", "1")) == 0:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()}
                fermi.checkpoint.save(step, dict(state, sampler=sampler.state_dict(), rng=fermi.rng_state()))
            fermi.report(step=step, loss=loss)
            trace(step)
            time.sleep(float(os.environ.get("PACE", "0")))
            if step >= STEPS or fermi.should_stop():
                break
        if fermi.should_stop():
            break
    fermi.checkpoint.flush()
    with open("%s.%d" % (os.environ["OUT"], fermi.rank()), "w") as out:
        out.write("%d %s\n" % (step, digest(model.state_dict(), optimizer.state_dict(), fermi.rng_state(), next_ids(sampler))))
    dist.destroy_process_group()


def main():
    torch.set_num_threads(1)
    if DEVICE == "cuda":
        torch.use_deterministic_algorithms(True)
    fermi.init()
    if os.environ.get("PLAIN"):
        DDP.forward = DDP._fermi_forward
    if os.environ.get("PARTIAL"):
        fermi.rejoin(train)
    else:
        train()
    fermi.close()


if __name__ == "__main__":
    sys.exit(main())
