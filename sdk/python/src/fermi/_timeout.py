"""The time after which a collective counts as hung, as the task says it (FERMI_COLLECTIVE_TIMEOUT, in seconds), is what torch
takes where a script names none. It is the default of torch's own functions that changes: whoever imported them has it."""

import datetime
import inspect
import os
import sys

MODULE = "torch.distributed.distributed_c10d"
FUNCTIONS = ("init_process_group", "new_group")


def given():
    """What the task says; None: nothing."""
    text = os.environ.get("FERMI_COLLECTIVE_TIMEOUT")
    if not text:
        return None
    if not text.isdigit() or int(text) == 0:
        raise ValueError("FERMI_COLLECTIVE_TIMEOUT is %r, no number of seconds" % text)
    return datetime.timedelta(seconds=int(text))


def install():
    """Changes torch if it is imported. Twice changes nothing."""
    timeout, module = given(), sys.modules.get(MODULE)
    if timeout is None:
        return
    for name in FUNCTIONS:
        function = inspect.unwrap(getattr(module, name, install))
        words, defaults = inspect.getfullargspec(function).args, function.__defaults__ or ()
        if "timeout" in words[len(words) - len(defaults) :]:
            at = words.index("timeout") - len(words)
            function.__defaults__ = defaults[:at] + (timeout,) + defaults[len(defaults) + at + 1 :]
