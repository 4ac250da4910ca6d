"""What the SDK changes in torch: the time-out of collectives and compressed gradients as the task says, and exact resume.

DDP sorts its gradient buckets anew after the first backward pass of a process, by the order in which
gradients came. Sums depend on a gradient's place in its bucket, so a resumed process computes its first
step with other bits than the process that was not interrupted. Here every DDP makes one pass for nothing
at its first forward call, with the batch it was given: after it the buckets are the sorted ones, in every
process alike. Random numbers, buffers and gradients are as before it.
"""

import contextlib
import importlib.abc
import importlib.machinery
import os
import sys

from . import _session, _store, _timeout, _waits

MODULE = "torch.nn.parallel.distributed"
COMPRESSIONS = ("none", "fp16", "bf16", "powersgd")


def compression():
    name = os.environ.get("FERMI_GRAD_COMPRESSION") or "none"
    if name not in COMPRESSIONS:
        raise ValueError("FERMI_GRAD_COMPRESSION is %r, none of %s" % (name, ", ".join(COMPRESSIONS)))
    return name


_exact = False


def install(exact=True):
    """Changes torch now if it is imported, otherwise the moment it is: as the task says, and DDP's resume to be exact."""
    global _exact
    _exact = _exact or exact
    compression(), _timeout.given()  # a wrong word is an error at the start, not at the first step
    module = sys.modules.get(MODULE)
    if module is not None and hasattr(module, "DistributedDataParallel"):
        patch(module.DistributedDataParallel)
    elif not any(isinstance(f, _Finder) for f in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                patch(module.DistributedDataParallel)

            spec.loader.exec_module = exec_module
        return spec


def patch(ddp):
    """The class itself is changed: scripts may have imported it under any name. Twice changes nothing."""
    _store.install()
    _timeout.install()
    if hasattr(ddp, "_fermi_forward"):
        return
    ddp._fermi_forward = ddp.forward
    ddp._fermi_register = ddp.register_comm_hook

    def forward(self, *inputs, **kwargs):
        import torch

        if "_fermi_ready" not in self.__dict__ and torch.is_grad_enabled():
            self.__dict__["_fermi_ready"] = True
            if _exact:
                warm(self, inputs, kwargs)
                _waits.follow(self, _session.current())
            compress(self)
        return ddp._fermi_forward(self, *inputs, **kwargs)

    def register_comm_hook(self, *args, **kwargs):
        self.__dict__["_fermi_hooked"] = True  # the script's own hook goes before the task's word
        return ddp._fermi_register(self, *args, **kwargs)

    ddp.forward, ddp.register_comm_hook = forward, register_comm_hook


def warm(model, inputs, kwargs):
    """One pass for nothing, that makes DDP sort its buckets at the next forward call."""
    if model.find_unused_parameters:
        return  # then it never sorts them anew
    if not getattr(model.module, "automatic_optimization", True):
        return  # Lightning's: its pass trains by itself
    import torch

    from . import _rng

    random = _rng.rng_state()
    buffers = [(b, b.detach().clone()) for b in model.module.buffers()]
    parameters = [p for p in model.module.parameters() if p.requires_grad]
    gradients = [p.grad for p in parameters]
    sync, model.require_backward_grad_sync = model.require_backward_grad_sync, True
    for p in parameters:
        p.grad = None
    with _unseen(model.module):
        outputs = [t for t in _tensors(type(model)._fermi_forward(model, *inputs, **kwargs)) if t.requires_grad]
        if outputs:
            torch.autograd.backward(sum(t.sum() for t in outputs))
    torch.clear_autocast_cache()
    model.require_backward_grad_sync = sync
    with torch.no_grad():
        for p, gradient in zip(parameters, gradients):
            p.grad = gradient
        for b, before in buffers:
            b.copy_(before)
    _rng.set_rng_state(random)


@contextlib.contextmanager
def _unseen(module):
    """A pass of the module that leaves nothing behind. Lightning's forward is its training step, for one call: it stays so for the next. What that
    step logs and counts is not taken down."""
    own = module.__dict__
    before = {name: own[name] for name in ("forward", "log") if name in own}
    if _is_of(module, "lightning", "pytorch_lightning"):
        own["log"] = lambda *args, **kwargs: None
    counts = [(m, _counted(m)) for m in module.modules() if _is_of(m, "torchmetrics") and hasattr(m, "_defaults")]
    try:
        yield
    finally:
        for name in ("forward", "log"):
            own.pop(name, None)
        own.update(before)
        for metric, states in counts:
            metric.__dict__.update(states)


def _counted(metric):
    """What a metric has counted."""
    names = set(metric._defaults) | {"_update_count", "_computed"}
    copies = {k: list(v) if isinstance(v, list) else v for k, v in metric.__dict__.items() if k in names}
    return {k: v.detach().clone() if hasattr(v, "detach") else v for k, v in copies.items()}


def _is_of(module, *packages):
    return any(c.__module__.split(".")[0] in packages for c in type(module).__mro__)


def _tensors(value):
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for v in value.values():
            yield from _tensors(v)
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from _tensors(v)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from _tensors(getattr(value, name))


def compress(model):
    """Registers the compression that the task asks for, unless the script has a hook of its own."""
    name = compression()
    if name == "none" or "_fermi_hooked" in model.__dict__:
        return
    import torch.distributed as dist

    # The default group goes unnamed: a hook that holds it keeps its threads running into the end of the process, which aborts.
    group = model.process_group if model.process_group is not dist.distributed_c10d._get_default_group() else None
    register = type(model)._fermi_register
    if name == "powersgd":
        from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powersgd

        register(model, powersgd.PowerSGDState(group, matrix_approximation_rank=2, start_powerSGD_iter=10), powersgd.powerSGD_hook)
    elif name == "fp16":
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

        register(model, group, fp16_compress_hook)
    else:
        register(model, group, _bf16_hook)


def _bf16_hook(group, bucket):
    """Gradients travel as bf16. gloo can't sum those, so there they are gathered as bytes and summed in rank order."""
    import torch
    import torch.distributed as dist

    whole = bucket.buffer()
    half = whole.to(torch.bfloat16).div_(dist.get_world_size(group))
    if dist.get_backend(group) != "gloo":
        future = dist.all_reduce(half, group=group, async_op=True).get_future()
        return future.then(lambda f: whole.copy_(f.value()[0]))
    parts = [torch.empty_like(half) for _ in range(dist.get_world_size(group))]
    future = dist.all_gather([p.view(torch.uint8) for p in parts], half.view(torch.uint8), group=group, async_op=True).get_future()

    def add(done):
        done.wait()
        whole.copy_(parts[0])
        for part in parts[1:]:
            whole.add_(part)
        return whole

    return future.then(add)


def wrap_ddp(model, **kwargs):
    """DistributedDataParallel whose resumed run has the bits of the uninterrupted one; the model itself where
    there is no process group."""
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    if not dist.is_available() or not dist.is_initialized():
        return model
    patch(DistributedDataParallel)
    return DistributedDataParallel(model, **kwargs)
