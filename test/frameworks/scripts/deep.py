"""A DeepSpeed engine with the recipe's own configuration: one step with averaged gradients."""
import json
import os
import sys

os.environ.setdefault("DS_ACCELERATOR", "cpu")
import deepspeed
import torch
import torch.distributed as dist

from check import check

sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # compiles a kernel for inference with g++ at run time, in all ranks at once
deepspeed.init_distributed(dist_backend="gloo")
if "--local_rank" in " ".join(sys.argv):  # as its own launcher says it
    assert sys.argv[1:] == ["--local_rank=" + os.environ["LOCAL_RANK"]], sys.argv
rank, world = dist.get_rank(), dist.get_world_size()
with open(os.environ["FERMI_DS_CONFIG"]) as f:
    config = json.load(f)
config["zero_allow_untested_optimizer"] = True  # plain SGD: its step is the gradient
model = torch.nn.Linear(1, 1, bias=False)
with torch.no_grad():
    model.weight.fill_(0)
engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0), config=config)
engine.backward(engine(torch.tensor([[rank + 1.0]])).sum())
engine.step()
check(rank, world, -model.weight.item() * world)  # the step is the mean gradient, downwards
dist.barrier()
