"""MultiWorkerMirroredStrategy by TF_CONFIG: every process is a worker."""
import json
import os

import tensorflow as tf

from check import check

strategy = tf.distribute.MultiWorkerMirroredStrategy()
config = json.loads(os.environ["TF_CONFIG"])
rank, world = config["task"]["index"], strategy.num_replicas_in_sync


@tf.function
def total():
    def each():
        mine = tf.constant(rank + 1.0)
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, mine)
    return strategy.run(each)


check(rank, world, total().numpy())
