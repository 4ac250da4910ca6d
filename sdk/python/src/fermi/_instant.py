"""Instant saves of scripts that know nothing of them.

When Transformers, Lightning or Accelerate is imported, their training loop gets a hook (_trainers): every few steps it
saves model, optimizer, scheduler, scaler, random numbers and the place in the data into memory, and a process that starts again
goes on from there. Nothing happens without a launcher, nor in a script that uses the SDK itself.
"""

import importlib.abc
import importlib.machinery
import io
import os
import pickle
import sys
import time

EVERY = 2  # steps between two saves: with the one under way at most three are made again

# module → the function of _trainers that changes it
MODULES = {
    "transformers.trainer": "transformers",
    "lightning.pytorch.trainer.trainer": "lightning",
    "pytorch_lightning.trainer.trainer": "lightning",
    "accelerate.accelerator": "accelerate",
}


def asked():
    """Whether the task asks for it: checkpoint.instant."""
    return os.environ.get("FERMI_INSTANT") == "auto"


def install():
    """Changes the libraries that are imported now, and the others the moment they are. Again does nothing."""
    if not any(isinstance(f, _Finder) for f in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
        for name in MODULES:
            if name in sys.modules:
                _change(name, sys.modules[name])


def _change(name, module):
    from . import _trainers

    try:
        getattr(_trainers, MODULES[name])(module)
    except Exception as err:  # a version that we don't know
        say("no instant saves with this version of %s: %s" % (name.split(".")[0], err))


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name not in MODULES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                _change(name, module)

            spec.loader.exec_module = exec_module
        return spec


def say(text):
    print("fermi: %s" % text, file=sys.stderr)


_owner = None  # whose loop is saved; one a process


def claim(who):
    """Makes a loop the one that is saved, and gives the Saver; None: another one is, there is no launcher, or the script saves itself."""
    global _owner
    if _owner is not None:
        return None
    import fermi

    if fermi._begun:
        _owner = "script"
        return None
    _owner = who
    try:
        fermi.init()
    except (OSError, ValueError) as err:
        say("no instant saves: %s" % err)
        return None
    if fermi.checkpoint._l0 is None:
        return None
    return Saver()


def owner():
    return _owner


class Saver:
    """Saves now and then, and gives back what was saved."""

    def __init__(self):
        from . import _session

        self.session = _session.current()
        self.every = max(1, int(os.environ.get("FERMI_INSTANT_EVERY") or EVERY))
        self.last = self.session.restore or 0

    def restore(self):
        """(step, state) to go on from; None: the beginning."""
        from . import checkpoint

        got = checkpoint.restore()
        if got is None:
            return None
        say("goes on after step %d" % got.step)
        return got.step, joined(got.state)

    def done(self, step, state, may=True):
        """A step is done: it is reported, and saved where that is due. state makes what is saved; may: it can be had now."""
        from . import _agree, checkpoint

        session = self.session
        if session.step is None or session.step < step:
            session.report(step, {})
            session.poll()
        if not may or step <= self.last:
            return
        if session.every:  # checkpoint.auto
            due = _agree.current().should_save(step) or self._leaves()
        else:
            due = step - self.last >= self.every or self._leaves()
        if not due:
            return
        began = time.monotonic()
        if checkpoint.save(step, split(state())):
            self.last = step
        session.stalled = max(session.stalled, time.monotonic() - began)  # with what it takes to gather the state

    def _leaves(self):
        return self.session.world == 1 and self.session.stop is not None


class _Pickler(pickle.Pickler):
    """Tensors are left out, and copied as they are."""

    def __init__(self, file, tensors):
        super().__init__(file, protocol=4)
        self.torch, self.tensors, self.at = sys.modules["torch"], tensors, {}

    def persistent_id(self, value):
        if type(value) not in (self.torch.Tensor, self.torch.nn.Parameter) or value.layout != self.torch.strided or value.is_quantized:
            return None
        if id(value) not in self.at:
            self.at[id(value)] = len(self.tensors), value  # which stays, so that no other gets its id
            self.tensors.append(value.detach())
        return self.at[id(value)][0]


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, tensors):
        super().__init__(file)
        self.tensors = tensors

    def persistent_load(self, at):
        return self.tensors[at]


def split(value):
    """Any value as a state that checkpoint.save takes: its tensors, and all else as bytes."""
    tensors, out = [], io.BytesIO()
    _Pickler(out, tensors).dump(value)
    return {"instant": 1, "objects": out.getvalue(), "tensors": tensors}


def joined(state):
    """What split was given."""
    if not isinstance(state, dict) or state.get("instant") != 1:
        raise ValueError("the state in memory was not saved by instant saves")
    return _Unpickler(io.BytesIO(state["objects"]), state["tensors"]).load()
