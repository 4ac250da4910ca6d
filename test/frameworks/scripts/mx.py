"""MXNet's parameter servers: what all workers push is summed up. Scheduler and server work inside the import."""
import mxnet as mx

from check import check

store = mx.kv.create("dist_sync")
store.init("sum", mx.nd.zeros(1))
store.push("sum", mx.nd.ones(1) * (store.rank + 1))
total = mx.nd.zeros(1)
store.pull("sum", out=total)
check(store.rank, store.num_workers, total.asscalar())
store._barrier()
