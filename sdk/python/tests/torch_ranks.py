"""What the ranks of the torch tests run: one function a test, named by the first argument, over a gloo group."""

import os
import sys

import torch
import torch.distributed as dist
from train_ddp import digest

import fermi


def virtual():
    """Trains with virtual ranks up to STEPS, from the state in FILE where it is; leaves state and digest there.
    Batch norm and dropout, so that buffers and random numbers matter."""
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU(), torch.nn.Dropout(0.4), torch.nn.Linear(64, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    shards = 12
    sampler = fermi.Sampler(1003, 5, seed=2, rank=0, world=shards)
    ranks = fermi.VirtualRanks(model, shards, seed=9)
    generator = torch.Generator().manual_seed(1)
    xs, ys = torch.randn(1003, 16, generator=generator), torch.randint(0, 4, (1003,), generator=generator)
    path, step = os.environ["FILE"], 0
    if os.path.exists(path):
        state = torch.load(path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        sampler.load_state_dict(state["sampler"])
        step = state["step"]
    losses = []
    while step < int(os.environ["STEPS"]):
        for lists in sampler.by_rank():
            losses.append(ranks.step(step, lambda shard: torch.nn.functional.cross_entropy(model(xs[lists[shard]]), ys[lists[shard]])))
            optimizer.step()
            step += 1
            if step >= int(os.environ["STEPS"]):
                break
    print(digest(model.state_dict(), optimizer.state_dict(), sampler.state_dict(), losses[-1]), flush=True)
    if dist.get_rank() == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "sampler": sampler.state_dict(), "step": step}, path)
        os.replace(path, path)
    dist.barrier()


def compression():
    """An unchanged script: no word of fermi in it. Prints the mean gradient after one step."""
    from torch.nn.parallel import DistributedDataParallel as DDP

    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 8))
    ddp = DDP(model)
    if os.environ.get("OWN_HOOK"):
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

        ddp.register_comm_hook(None, allreduce_hook)
    for step in range(14):
        model.zero_grad()
        torch.manual_seed(100 + dist.get_rank() + 10 * step)
        ddp(torch.randn(16, 64)).pow(2).mean().backward()
    print(model[0].weight.grad.flatten()[:200].tolist())


def agreement():
    """Every rank is told to save and to stop at its own moment; all must do it at the same steps."""
    fermi.init()
    tensor, saves = torch.zeros(1), []
    for step in range(1, 100000):
        dist.all_reduce(tensor)
        fermi.report(step=step)
        if fermi.should_checkpoint():
            saves.append(step)
        if fermi.should_stop():
            break
    print("at", step, saves, flush=True)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    {"virtual": virtual, "compression": compression, "agreement": agreement}[sys.argv[1]]()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
