"""How the loops of Transformers, Lightning and Accelerate are saved and go on (see _instant).

Each is changed where one step is over with everything that belongs to it, evaluation included, so that the process that goes on
draws the same random numbers. What a library restores itself it restores by its own code, from a state in memory instead of a file.
"""

import contextlib
import functools
import json
import os
import shutil
import tempfile

from . import _instant, _rng, _torch


# Transformers: Trainer.train goes on by its own resume_from_checkpoint, whose parts come from memory.


def transformers(module):
    trainer = module.Trainer
    if hasattr(trainer, "_fermi_train"):
        return
    trainer._fermi_train = trainer.train
    after = trainer._maybe_log_save_evaluate

    @functools.wraps(trainer.train)
    def train(self, resume_from_checkpoint=None, *args, **kwargs):
        saver = _sharded(self) or _instant.claim("transformers")
        if saver is None or saver is True:
            return trainer._fermi_train(self, resume_from_checkpoint, *args, **kwargs)
        self._fermi_saver, self._fermi_at = saver, None
        with contextlib.ExitStack() as stack:
            stack.callback(self.__dict__.pop, "_fermi_saver", None)
            got = saver.restore()
            if got is not None:
                resume_from_checkpoint = _resume(self, got[1], stack)
            return trainer._fermi_train(self, resume_from_checkpoint, *args, **kwargs)

    @functools.wraps(after)
    def over(self, *args, **kwargs):
        result = after(self, *args, **kwargs)
        saver = self.__dict__.get("_fermi_saver")
        if saver is not None:
            step, epoch = self.state.global_step, self.state.epoch or 0.0
            # What ends an epoch comes after its last step, in a second call.
            whole = abs(epoch - round(epoch)) > 1e-9 or self._fermi_at == step
            self._fermi_at = step
            if step > 0:
                saver.done(step, lambda: _trainer_state(self), may=whole)
        return result

    trainer.train, trainer._maybe_log_save_evaluate = train, over


def _sharded(trainer):
    """Loops whose state no rank has whole."""
    for name in ("is_deepspeed_enabled", "is_fsdp_enabled", "is_fsdp_xla_enabled"):
        if getattr(trainer, name, False):
            _instant.say("no instant saves with DeepSpeed or FSDP; name the folder of checkpoints (checkpoint.folder)")
            return True
    return None


def _exports(trainer):
    """Callbacks with a state of their own, as the Trainer writes them down."""
    try:
        from transformers.trainer_callback import ExportableState
    except ImportError:  # an older one has none
        return {}
    out = {}
    for callback in trainer.callback_handler.callbacks + [trainer.control]:
        if isinstance(callback, ExportableState):
            name = type(callback).__name__
            if isinstance(out.get(name), list):
                out[name].append(callback.state())
            elif name in out:
                out[name] = [out[name], callback.state()]
            else:
                out[name] = callback.state()
    return out


def _trainer_state(trainer):
    state = dict(trainer.state.__dict__)
    exports = _exports(trainer)
    if exports:
        state["stateful_callbacks"] = exports
    scaler = getattr(trainer.accelerator, "scaler", None)
    return {
        "trainer": state,
        "model": trainer.model.state_dict(),
        "optimizer": trainer.optimizer.state_dict(),
        "scheduler": trainer.lr_scheduler.state_dict(),
        "scaler": scaler.state_dict() if scaler is not None else None,
        "rng": _rng.rng_state(),
    }


def _resume(trainer, state, stack):
    """A folder that the Trainer takes for a checkpoint; what it would read there comes from memory."""
    folder = tempfile.mkdtemp(prefix="fermi-instant-")
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    with open(os.path.join(folder, "trainer_state.json"), "w", encoding="utf-8") as file:
        json.dump(state["trainer"], file)

    def model(path, model=None):
        (model or trainer.model).load_state_dict(state["model"])

    def optimizer(path):
        trainer.optimizer.load_state_dict(state["optimizer"])
        trainer.lr_scheduler.load_state_dict(state["scheduler"])
        scaler(path)

    def scaler(path):
        if state["scaler"] is not None and getattr(trainer.accelerator, "scaler", None) is not None:
            trainer.accelerator.scaler.load_state_dict(state["scaler"])

    parts = {
        "_load_from_checkpoint": model, "_load_optimizer_and_scheduler": optimizer, "_load_scaler": scaler, "_load_rng_state": lambda path: _rng.set_rng_state(state["rng"]),
    }
    for name, part in parts.items():
        if hasattr(type(trainer), name):
            def load(path=None, *args, _own=getattr(trainer, name), _part=part, **kwargs):
                return _part(path, *args, **kwargs) if path == folder else _own(path, *args, **kwargs)

            setattr(trainer, name, load)
            stack.callback(trainer.__dict__.pop, name, None)
    return folder


# Lightning: Trainer.fit goes on by its own ckpt_path. Its place in the data, and random numbers, it does not keep.


def lightning(module):
    import importlib
    import sys

    trainer, root = module.Trainer, module.__name__.rsplit(".trainer.trainer", 1)[0]
    if hasattr(trainer, "_fermi_fit"):
        return
    loops = importlib.import_module(root + ".loops.training_epoch_loop")._TrainingEpochLoop
    fetcher = importlib.import_module(root + ".loops.fetchers")._DataFetcher
    trainer._fermi_fit = trainer.fit
    begin, end, first = loops.on_run_start, loops.on_advance_end, fetcher.__iter__

    @functools.wraps(trainer.fit)
    def fit(self, *args, **kwargs):
        saver = None
        if type(self.strategy).__name__ in ("SingleDeviceStrategy", "DDPStrategy"):
            saver = _instant.claim("lightning")
        elif _instant.owner() is None:
            _instant.say("no instant saves with %s; name the folder of checkpoints (checkpoint.folder)" % type(self.strategy).__name__)
        if saver is None:
            return trainer._fermi_fit(self, *args, **kwargs)
        self._fermi_saver = saver
        with contextlib.ExitStack() as stack:
            stack.callback(self.__dict__.pop, "_fermi_saver", None)
            got = saver.restore()
            if got is not None:
                file = tempfile.NamedTemporaryFile(prefix="fermi-instant-", suffix=".ckpt", delete=False)
                stack.callback(os.unlink, file.name)
                with file:
                    sys.modules["torch"].save(got[1]["checkpoint"], file)
                self._fermi_from = got[1]
                kwargs["ckpt_path"] = file.name
                if "weights_only" in trainer._fermi_fit.__code__.co_varnames:
                    kwargs["weights_only"] = False
            return trainer._fermi_fit(self, *args, **kwargs)

    @functools.wraps(first)
    def __iter__(self):
        if _instant.owner() == "lightning":
            self._fermi_rng, self._fermi_drawn = _rng.rng_state(), _rng.generator_states(_loaders(self))
        return first(self)

    @functools.wraps(begin)
    def on_run_start(self, data_fetcher):
        state = self.trainer.__dict__.pop("_fermi_from", None)
        if state is None or state["stateful"]:
            begin(self, data_fetcher)
            if state is not None:
                _rng.set_rng_state(state["rng"])
            return
        if state["start"] is not None:
            _rng.set_rng_state(state["start"])
            _rng.set_generator_states(_loaders(data_fetcher), state["drawn"])
        iter(data_fetcher)  # as the epoch began
        for _ in range(state["batches"]):
            next(data_fetcher)
        data_fetcher.fetched = 0  # Lightning adds what it has seen
        begin(self, data_fetcher)
        _rng.set_rng_state(state["rng"])

    @functools.wraps(end)
    def on_advance_end(self, data_fetcher):
        saver = self.trainer.__dict__.get("_fermi_saver")
        validates = saver is not None and self._should_check_val_fx(data_fetcher)
        end(self, data_fetcher)
        if saver is not None:
            # The end of an epoch is a step of its own, and Lightning validates again what it finds at a validation; a batch whose gradients wait for others is no step yet.
            may = not (validates or self.batch_progress.is_last_batch or self._should_accumulate() or self._is_training_done)
            saver.done(self.trainer.global_step, lambda: _fit_state(self, data_fetcher), may)

    trainer.fit, loops.on_run_start, loops.on_advance_end, fetcher.__iter__ = fit, on_run_start, on_advance_end, __iter__


def _loaders(data_fetcher):
    return data_fetcher.combined_loader.flattened


def _fit_state(loop, data_fetcher):
    """What Lightning would save at the end of a batch, and where it was in the data."""
    progress, trainer = loop.batch_progress, loop.trainer
    batches = progress.current.completed
    progress.current.completed -= 1  # so its checkpoints of the end of a batch look
    progress.total.completed -= 1
    loop._batches_that_stepped -= 1
    try:
        checkpoint = trainer._checkpoint_connector.dump_checkpoint(weights_only=False)
    finally:
        progress.current.completed += 1
        progress.total.completed += 1
        loop._batches_that_stepped += 1
    loaders = trainer.fit_loop._combined_loader.flattened
    return {
        "checkpoint": checkpoint,
        "batches": batches,
        "stateful": all(hasattr(l, "state_dict") and hasattr(l, "load_state_dict") for l in loaders),
        "start": data_fetcher.__dict__.get("_fermi_rng"),
        "drawn": data_fetcher.__dict__.get("_fermi_drawn"),
        "rng": _rng.rng_state(),
    }


# Accelerate: the loop is the script's own. It is seen by the loaders, whose next batch is asked for when a step is over. A script that
# starts again goes through its epochs anew: those that were done have no batches, and the one that was under way has the rest.


def accelerate(module):
    import importlib

    accelerator = module.Accelerator
    if hasattr(accelerator, "_fermi_init"):
        return
    if os.environ.get("FERMI_SOCKET"):
        _torch.install()  # the script has its DDP made before the loop is seen
    loaders = importlib.import_module("accelerate.data_loader")
    optimizers = importlib.import_module("accelerate.optimizer").AcceleratedOptimizer
    accelerator._fermi_init = accelerator.__init__
    step = optimizers.step

    @functools.wraps(accelerator.__init__)
    def __init__(self, *args, **kwargs):
        accelerator._fermi_init(self, *args, **kwargs)
        _Script.accelerator = self

    @functools.wraps(step)
    def counted(self, *args, **kwargs):
        result = step(self, *args, **kwargs)
        if self.gradient_state.sync_gradients:
            _Script.steps += 1
        return result

    accelerator.__init__, optimizers.step = __init__, counted
    for loader in (loaders.DataLoaderShard, loaders.DataLoaderDispatcher):
        loader.__iter__ = _followed(loader.__iter__)


class _Script:
    """The loop of a script, as far as it can be seen."""

    accelerator = None
    saver = None
    asked = False
    steps = 0  # of the optimizer; with several optimizers each counts
    begun = {}  # loader's number → how often it was begun
    state = None  # to go on from, until the loop is there


def _followed(iterate):
    @functools.wraps(iterate)
    def __iter__(self):
        number = _begin(self)
        if number is None:
            yield from iterate(self)
            return
        loaders, turn = _Script.accelerator._dataloaders, _Script.begun.get(number, 0)
        _Script.begun[number] = turn + 1
        state, skip = _Script.state, 0
        if state is not None and number == state["loader"]:
            if turn < state["turn"]:
                self.iteration += 1
                return
            _Script.state = None
            skip = state["batches"]
            self.iteration = state["iteration"]
            _rng.set_rng_state(state["start"])
            _rng.set_generator_states(loaders, state["drawn"])
        start, drawn, iteration, at = _rng.rng_state(), _rng.generator_states(loaders), self.iteration, skip
        batches = iterate(self)
        if skip:
            for _ in range(skip):
                next(batches)
            _load(_Script.accelerator, state)
            _rng.set_rng_state(state["rng"])
            _Script.steps = state["steps"]
        for batch in batches:
            before = _Script.steps
            yield batch
            at += 1
            if _Script.steps > before:  # an optimizer stepped: it is training
                place = {"loader": number, "turn": turn, "batches": at, "iteration": iteration, "start": start, "drawn": drawn, "steps": _Script.steps}
                _Script.saver.done(_Script.steps, lambda: dict(_script_state(_Script.accelerator), rng=_rng.rng_state(), **place))

    return __iter__


def _begin(loader):
    """The number of a loader that belongs to the loop of the script; None: it is another library's."""
    if _instant.owner() not in (None, "accelerate") or _Script.accelerator is None:
        return None
    found = [i for i, l in enumerate(_Script.accelerator._dataloaders) if l is loader]
    if not found:
        return None
    if not _Script.asked:
        _Script.asked = True
        kind = str(getattr(_Script.accelerator.distributed_type, "value", ""))
        if kind not in ("NO", "MULTI_CPU", "MULTI_GPU"):
            _instant.say("no instant saves with %s; name the folder of checkpoints (checkpoint.folder)" % kind)
            return None
        _Script.saver = _instant.claim("accelerate")
        got = _Script.saver.restore() if _Script.saver is not None else None
        if got is not None:
            _Script.state = got[1]
            _load(_Script.accelerator, got[1])  # what the script evaluates on its way there is of what was trained
    return found[0] if _Script.saver is not None else None


def _script_state(accelerator):
    return {
        "models": [m.state_dict() for m in accelerator._models],
        "optimizers": [o.state_dict() for o in accelerator._optimizers],
        "schedulers": [s.state_dict() for s in accelerator._schedulers],
        "custom": [c.state_dict() for c in accelerator._custom_objects],
        "scaler": accelerator.scaler.state_dict() if accelerator.scaler is not None else None,
        "accumulated": accelerator.step,
    }


def _load(accelerator, state):
    pairs = ((accelerator._models, "models"), (accelerator._optimizers, "optimizers"), (accelerator._schedulers, "schedulers"), (accelerator._custom_objects, "custom"))
    for objects, name in pairs:
        for value, saved in zip(objects, state[name]):
            value.load_state_dict(saved)
    if state["scaler"] is not None and accelerator.scaler is not None:
        accelerator.scaler.load_state_dict(state["scaler"])
    accelerator.step = state["accumulated"]
