"""Random numbers: one seed for every library in use, and all their states as one value."""

import hashlib
import os
import random
import sys


def set_seed(seed=None, *stream):
    """Seeds Python's random, and numpy and torch where they are imported.

    Without a seed the task's is taken (FERMI_SEED, or 0). More whole numbers name a stream of that seed,
    for example set_seed(1, fermi.rank()): streams are unrelated to each other.
    """
    if seed is None:
        seed = int(os.environ.get("FERMI_SEED") or 0)
    if stream:
        text = "/".join(str(int(part)) for part in (seed,) + stream)
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
    random.seed(seed)
    numpy, torch = _libraries()
    if numpy is not None:
        numpy.random.seed(seed % (1 << 32))
    if torch is not None:
        torch.manual_seed(seed % (1 << 63))
    return seed


def rng_state():
    """The states of all generators in use, as plain values and tensors that a checkpoint can keep."""
    numpy, torch = _libraries()
    state = {"python": random.getstate()}
    if numpy is not None:
        state["numpy"] = numpy.random.get_state()
    if torch is not None:
        state["torch"] = torch.get_rng_state()
        if torch.cuda.is_initialized():
            state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_rng_state(state):
    """Puts back what rng_state gave."""
    random.setstate(state["python"])
    if "numpy" in state:
        import numpy

        numpy.random.set_state(state["numpy"])
    if "torch" in state:
        import torch

        torch.set_rng_state(state["torch"])
        if "cuda" in state:
            torch.cuda.set_rng_state_all(state["cuda"])


def _libraries():
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    return (numpy if hasattr(numpy, "random") else None), (torch if hasattr(torch, "manual_seed") else None)
