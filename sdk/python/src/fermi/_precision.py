"""Mixed precision as the task says: autocast, and a loss scale where it is needed."""

import contextlib
import os
import sys

from . import _session

NAMES = ("fp32", "fp16", "bf16")


class Precision:
    """with p.autocast(): … ; p.backward(loss); p.step(optimizer). Keep state_dict() in the checkpoint.

    The loss scale and the number of steps skipped for it are in every report.
    """

    def __init__(self, name, device):
        if name not in NAMES:
            raise ValueError("precision %r is none of %s" % (name, ", ".join(NAMES)))
        import torch

        if name == "fp16" and device != "cuda":
            print("fermi: no fp16 on %s; computing in fp32" % device, file=sys.stderr)
            name = "fp32"
        self.name, self.device, self.skipped = name, device, 0
        amp = getattr(torch, "amp", None)  # since PyTorch 2.3 the scaler is there
        self.scaler = amp.GradScaler("cuda", enabled=name == "fp16") if hasattr(amp, "GradScaler") else torch.cuda.amp.GradScaler(enabled=name == "fp16")
        self._autocast, self._dtype = torch.autocast, {"fp16": torch.float16, "bf16": torch.bfloat16}.get(name)

    def autocast(self):
        return self._autocast(self.device, dtype=self._dtype) if self._dtype is not None else contextlib.nullcontext()

    def backward(self, loss):
        self.scaler.scale(loss).backward()

    def step(self, optimizer):
        """optimizer.step(), or nothing where a gradient was not finite; returns whether it stepped."""
        if not self.scaler.is_enabled():
            optimizer.step()
            return True
        before = self.scaler.get_scale()
        self.scaler.step(optimizer)
        self.scaler.update()
        stepped = self.scaler.get_scale() >= before  # the scale shrinks exactly when a step was skipped
        self.skipped += not stepped
        return stepped

    def state_dict(self):
        return {"name": self.name, "skipped": self.skipped, "scaler": self.scaler.state_dict()}

    def load_state_dict(self, state):
        if state["name"] != self.name:
            raise ValueError("the checkpoint was made in %s, this run computes in %s" % (state["name"], self.name))
        self.skipped = state["skipped"]
        if state["scaler"]:
            self.scaler.load_state_dict(state["scaler"])


def precision(name=None, device=None):
    """The precision the task asks for (FERMI_PRECISION, or fp32) on the device there is."""
    import torch

    made = Precision(name or os.environ.get("FERMI_PRECISION") or "fp32", device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if made.scaler.is_enabled():
        gauges = _session.current().gauges
        gauges["loss_scale"] = made.scaler.get_scale
        gauges["skipped_steps"] = lambda: made.skipped
    return made
