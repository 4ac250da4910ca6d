"""A script whose bits don't depend on the number of ranks, as the tests of elastic tasks run it: virtual ranks, checkpoints in
memory, a newcomer that takes a peer's state. OUT names the files for the digests, TRACE those for every rank's steps."""

import os

import torch
import torch.distributed as dist
from train_ddp import digest, trace

import fermi

STEPS = int(os.environ["STEPS"])
N, SHARDS = 1008, 4  # the last batch of an epoch has two samples a shard: batch norm wants more than one


def main():
    torch.set_num_threads(1)
    fermi.init()
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU(), torch.nn.Dropout(0.4), torch.nn.Linear(64, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    sampler = fermi.Sampler(N, 5, seed=2, rank=0, world=SHARDS)
    ranks = fermi.VirtualRanks(model, SHARDS, seed=9)
    generator = torch.Generator().manual_seed(1)
    xs, ys = torch.randn(N, 16, generator=generator), torch.randint(0, 4, (N,), generator=generator)
    got, step, stop = fermi.checkpoint.restore(), 0, False
    if got:
        step = got.step
        model.load_state_dict(got.state["model"])
        optimizer.load_state_dict(got.state["optimizer"])
        sampler.load_state_dict(got.state["sampler"])
    while not stop:
        for lists in sampler.by_rank():
            loss = ranks.step(step, lambda shard: torch.nn.functional.cross_entropy(model(xs[lists[shard]]), ys[lists[shard]]))
            optimizer.step()
            step += 1
            fermi.checkpoint.save(step, {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "sampler": sampler.state_dict()})
            fermi.report(step=step, loss=loss)
            trace(step)
            stop = step >= STEPS or fermi.should_stop()
            if stop:
                break
    fermi.checkpoint.flush()
    with open("%s.%d" % (os.environ["OUT"], fermi.rank()), "w") as out:
        out.write("%d %s\n" % (step, digest(model.state_dict(), optimizer.state_dict(), sampler.state_dict())))
    dist.destroy_process_group()
    fermi.close()


if __name__ == "__main__":
    main()
