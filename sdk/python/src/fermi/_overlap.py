"""Copies of a card's tensors beside the next forward and backward pass: save(step, state, overlap=optimizer).

What an optimizer keeps, its parameters and their moments, changes in its step() and nowhere else. So those tensors may
still be on their way while the next step computes its gradients; the optimizer's next step() waits for them, on the card
and not in Python. Everything else in a state, such as running averages that a forward pass changes, is copied before
save() returns.
"""

import functools
import sys
import weakref

_of = weakref.WeakKeyDictionary()  # optimizer → Overlap


def of(optimizer):
    """The one Overlap of an optimizer."""
    if optimizer not in _of:
        _of[optimizer] = Overlap(optimizer)
    return _of[optimizer]


class Overlap:
    def __init__(self, optimizer):
        if not callable(getattr(optimizer, "step", None)) or not hasattr(optimizer, "param_groups"):
            raise TypeError("overlap: a torch optimizer is needed, this is a %s" % type(optimizer).__qualname__)
        self._optimizer = weakref.ref(optimizer)
        self._under_way = []  # (device, event) of copies that the next step must wait for
        self._streams = {}
        if hasattr(optimizer, "register_step_pre_hook"):
            optimizer.register_step_pre_hook(lambda *_: self.hold())
        else:  # a torch before 2.0
            step = optimizer.step

            @functools.wraps(step)
            def held(*args, **kwargs):
                self.hold()
                return step(*args, **kwargs)

            optimizer.step = held

    def hold(self):
        """What is computed from now on waits for the copies; Python does not."""
        torch = sys.modules["torch"]
        while self._under_way:
            device, event = self._under_way.pop()
            torch.cuda.current_stream(device).wait_event(event)

    def pointers(self):
        """Where the tensors begin that only the optimizer changes."""
        optimizer = self._optimizer()
        found = {p.data_ptr() for group in optimizer.param_groups for p in group["params"]}
        for moments in optimizer.state.values():
            found.update(v.data_ptr() for v in moments.values() if hasattr(v, "data_ptr"))
        return found

    def begin(self, device, copies):
        """Starts copies from a device as its tensors are now; the answer waits for their end."""
        torch = sys.modules["torch"]
        stream = self._streams.setdefault(device, torch.cuda.Stream(device))
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for copy in copies:
                copy()
            event = stream.record_event()
        self._under_way.append((device, event))
        return event.synchronize
