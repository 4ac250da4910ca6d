"""A DDP script without a word of the SDK. Each rank writes FILE.<how it came to be>.<rank>: after how many seconds a
collective counts as hung, and whether its mean gradients went through fp16. WAIT=1: a fresh one then waits to be killed."""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(7)
model = torch.nn.Linear(64, 8)
ddp = DDP(model)
if os.environ.get("OWN_HOOK"):
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    ddp.register_comm_hook(None, allreduce_hook)
torch.manual_seed(100 + dist.get_rank())
ddp(torch.randn(16, 64)).pow(2).mean().backward()
gradient = model.weight.grad
rounded = torch.equal(gradient, gradient.half().float())
timeout = dist.distributed_c10d._get_default_group().options._timeout.total_seconds()
how = "forked" if "wave" in sys.modules else "fresh"
path = "%s.%s.%d" % (os.environ["FILE"], how, dist.get_rank())
with open(path + ".new", "w") as out:
    out.write("%d %s\n" % (timeout, "fp16" if rounded else "fp32"))
os.rename(path + ".new", path)
while os.environ.get("WAIT") and how == "fresh":
    time.sleep(0.05)
dist.barrier()
