"""Horovod's all-reduce of a tensor."""
import horovod.torch as hvd
import torch

from check import check

hvd.init()
check(hvd.rank(), hvd.size(), hvd.allreduce(torch.tensor([hvd.rank() + 1.0]), op=hvd.Sum).item())
hvd.shutdown()
