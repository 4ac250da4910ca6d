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


def generators(loader):
    """The generators of its own that a loader of data draws from: in itself, its samplers and its data. Always in the same order."""
    torch, found, seen = sys.modules["torch"], [], set()

    def walk(part, depth):
        if part is None or id(part) in seen or depth > 6:
            return
        seen.add(id(part))
        for name in ("generator", "synchronized_generator"):
            value = getattr(part, name, None)
            if isinstance(value, torch.Generator) and not any(value is g for g in found):
                found.append(value)
        for name in ("base_dataloader", "batch_sampler", "sampler", "dataset"):
            walk(getattr(part, name, None), depth + 1)

    walk(loader, 0)
    return found


def generator_states(loaders):
    """The states of the generators of some loaders, to be given to set_generator_states."""
    return [[g.get_state() for g in generators(loader)] for loader in loaders]


def set_generator_states(loaders, states):
    for loader, kept in zip(loaders, states):
        for generator, state in zip(generators(loader), kept):
            generator.set_state(state)


def _libraries():
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    return (numpy if hasattr(numpy, "random") else None), (torch if hasattr(torch, "manual_seed") else None)
