"""Paddle's collective all-reduce on CPUs."""
import paddle
import paddle.distributed as dist

from check import check

paddle.set_device("cpu")
dist.init_parallel_env()
mine = paddle.to_tensor([dist.get_rank() + 1.0])
dist.all_reduce(mine)
check(dist.get_rank(), dist.get_world_size(), mine.item())
