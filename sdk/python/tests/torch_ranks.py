"""What the ranks of the torch tests run: one function a test, named by the first argument, over a gloo group."""

import datetime
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
    print(model[0].weight.grad.flatten()[:200].tolist(), flush=True)
    dist.barrier()
    if os.environ.get("FERMI_GRAD_COMPRESSION") == "powersgd":
        os._exit(0)  # torch 1.13's PowerSGD on gloo aborts now and then while the process ends, with and without the SDK


def timeouts():
    """Prints after how many seconds a collective counts as hung: in the default group, in another one, in one with a time of its own."""

    def of(group):
        group = group._get_backend(torch.device("cpu")) if hasattr(group, "_get_backend") else group
        return int(group.options._timeout.total_seconds())

    groups = [dist.distributed_c10d._get_default_group(), dist.new_group(), dist.new_group(timeout=datetime.timedelta(seconds=999))]
    print(*map(of, groups), flush=True)


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


def cost():
    """Prints the median milliseconds of a step of DDP and of virtual ranks on the same samples, taken in turns."""
    import time

    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 8))
    ddp, shards = fermi.wrap_ddp(model), 8
    ranks = fermi.VirtualRanks(model, shards)
    xs = torch.randn(shards, 32, 256)
    mine = ranks.mine()

    def plain(step):
        model.zero_grad()
        ddp(xs[mine.start : mine.stop].reshape(-1, 256)).pow(2).mean().backward()

    def fixed(step):
        ranks.step(step, lambda shard: model(xs[shard]).pow(2).mean())

    times = {plain: [], fixed: []}
    for step in range(24):
        for way in times:
            dist.barrier()
            begin = time.perf_counter()
            way(step)
            times[way].append(time.perf_counter() - begin)
    if dist.get_rank() == 0:
        print("1.3 M parameters, %d shards on %d ranks: DDP %.1f ms, virtual ranks %.1f ms" % (shards, dist.get_world_size(), *(sorted(t)[12] * 1e3 for t in times.values())))


def handover():
    """Only rank 1 holds the step; the last rank's older steps fill its slots. All end with rank 1's bits, in slots of their own."""
    import tempfile

    from fermi import _session, checkpoint

    session = _session.current()
    session.elastic = True
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        memory = checkpoint.L0(folder, session)
        if dist.get_rank() == 1:
            memory.save(4, {"w": torch.arange(3_000_000, dtype=torch.float64) / 7, "n": 5, "list": [1, "two"]})
        elif dist.get_rank() == dist.get_world_size() - 1:
            for step in (1, 2, 3):
                memory.save(step, {"w": torch.zeros(3)})
        memory.flush()
        session.restore = session.watermark = 4
        got = memory.restore()
        kept = memory.held()
        print(digest(got.state), got.step, 4 in kept, flush=True)
        memory.close()
    dist.barrier()


def main():
    torch.set_num_threads(1)
    own = os.environ.get("OWN_TIMEOUT")
    dist.init_process_group("gloo", **({"timeout": datetime.timedelta(seconds=int(own))} if own else {}))
    {"virtual": virtual, "compression": compression, "timeouts": timeouts, "agreement": agreement, "cost": cost, "handover": handover}[sys.argv[1]]()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
