"""jax.distributed with what the recipe tells, and a sum over all processes' devices."""
import os

import jax
import jax.numpy as jnp

from check import check

# JAX itself reads the coordinator's address from the environment, the two numbers it does not.
jax.distributed.initialize(num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=int(os.environ["JAX_PROCESS_ID"]))
from jax.experimental import multihost_utils

mine = jnp.array([jax.process_index() + 1.0])
check(jax.process_index(), jax.process_count(), multihost_utils.process_allgather(mine).sum())
