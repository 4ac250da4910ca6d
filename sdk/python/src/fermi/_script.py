"""Runs a Python program as __main__ inside a process that did something else before, so that the program,
its traceback and its exit code are those of a fresh interpreter."""

import atexit
import io
import os
import runpy
import signal
import sys
import types
from importlib.machinery import SourceFileLoader
from typing import List, NamedTuple


# What exec itself counts for in the limit of recursion.
_EXEC = 2 if sys.version_info < (3, 12) else 0


class Program(NamedTuple):
    """A script or a module, with its arguments."""

    module: bool
    name: str
    args: List[str]

    @staticmethod
    def parse(words):
        """Reads `script.py args…` or `-m module args…`, the words behind the interpreter."""
        if len(words) >= 2 and words[0] == "-m":
            return Program(True, words[1], list(words[2:]))
        if words and not words[0].startswith("-"):
            return Program(False, words[0], list(words[1:]))
        raise ValueError("neither a script nor -m and a module: %s" % " ".join(words[:2]))

    def run(self):
        """Runs it in the current folder and ends with SystemExit; nothing of this module is seen in a traceback."""
        main = _fresh_main()
        sys.path[0] = os.getcwd() if self.module else os.path.dirname(os.path.realpath(self.name))
        sys.argv = ["-m" if self.module else self.name] + self.args
        if hasattr(sys, "orig_argv"):
            sys.orig_argv = [sys.executable] + (["-m", self.name] if self.module else [self.name]) + self.args
        path = self.name if os.path.isabs(self.name) else os.getcwd() + "/" + self.name
        sys.setrecursionlimit(sys.getrecursionlimit() + _depth() + (0 if self.module else _EXEC))
        try:
            if self.module:
                runpy._run_module_as_main(self.name)
            else:
                exec(_code(main, path), main.__dict__)
            _done()
        except SystemExit as end:
            if not end.code:
                _done()
            raise
        except BaseException as err:
            first = runpy._run_module_as_main.__code__.co_filename if self.module else path
            _show(err, first)
            raise SystemExit(1) from None


def _done():
    """Tells the launcher that the program returned, with success: a thread that it left behind does not keep the task."""
    session = getattr(sys.modules.get(__package__ + "._session"), "_current", None)
    if session is not None:
        session.send("bye", {"code": 0}, must=True)


def _fresh_main():
    main = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=sys.modules["builtins"], __annotations__={}, __package__=None)
    sys.modules["__main__"] = main
    return main


def _code(main, path):
    main.__dict__.update(__file__=path, __cached__=None, __loader__=SourceFileLoader("__main__", path))
    with io.open_code(path) as file:
        return compile(file.read(), path, "exec", dont_inherit=True)


def _depth():
    """How many frames stand above the program that would not in a fresh interpreter."""
    depth, frame = 0, sys._getframe(1)
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    return depth


def _show(err, first):
    """Prints an uncaught exception as the interpreter would, from the first frame of the program on."""
    tb = err.__traceback__
    while tb is not None and tb.tb_frame.f_code.co_filename != first:
        tb = tb.tb_next
    err = err.with_traceback(tb)
    sys.last_type, sys.last_value, sys.last_traceback = type(err), err, tb
    if sys.version_info >= (3, 12):
        sys.last_exc = err
    sys.excepthook(type(err), err, tb)
    if isinstance(err, KeyboardInterrupt):
        atexit.register(_interrupt)


def _interrupt():
    """An interpreter that was interrupted ends by that signal."""
    sys.stdout.flush()
    sys.stderr.flush()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
