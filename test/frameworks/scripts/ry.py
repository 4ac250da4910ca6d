"""Ray's head runs this; its tasks run on both nodes, two on each, and are summed up."""
import os

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


ray.init(address=os.environ["RAY_ADDRESS"])
while len([n for n in ray.nodes() if n["Alive"]]) < 2:  # the worker comes by itself
    ray.get(ray.remote(lambda: None).remote())


@ray.remote(num_cpus=0)
def mine(rank):
    return rank + 1, os.environ["FERMI_REPLICA"]


nodes = sorted(n["NodeID"] for n in ray.nodes() if n["Alive"])
jobs = [mine.options(scheduling_strategy=NodeAffinitySchedulingStrategy(nodes[r // 2], soft=False)).remote(r) for r in range(4)]
done = ray.get(jobs)
for rank, (_, replica) in enumerate(done):
    print(f"CHECK rank={rank} world={len(done)} sum={sum(v for v, _ in done)} replica={replica}", flush=True)
