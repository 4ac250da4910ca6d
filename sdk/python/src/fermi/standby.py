"""python3 -m fermi.standby: a fork server with the imports done, so that a replacement rank runs in milliseconds.

The launcher starts one a replica, with the environment the ranks get, and is at the other end of its standard
input, a unix socket that nobody else can reach. Modules in $FERMI_STANDBY_PRELOAD (comma-separated) are imported
first; {"ready": {}} says so. Then, a line each way:

    {"fork": {"id": …, "argv": […], "cwd": …, "env": {…}, "each": [{…}, …], "preload": […]}}
    {"forked": {"id": …, "pids": […]}}  or  {"refused": {"id": …, "why": …}}

A process is made for each of "each", which has the variables of its own; stdout and stderr of all of them come with the
request (SCM_RIGHTS). They are forked twice, so that the launcher, a child-subreaper, inherits them; each has its own
session, the given environment and folder, default signals and no other file. What a fork can't give exactly as a fresh
interpreter would (another interpreter or its options, variables that are read while libraries load, threads
already running, a CUDA context) is refused with the reason, and the launcher starts a fresh one.
"""

import contextlib
import gc
import importlib
import io
import json
import os
import signal
import socket
import sys
import threading

from . import _link, _script, _store

# Read when the interpreter or a library starts: a fork can't change them any more.
_LOADED = ("PYTHON", "LD_", "OMP_", "GOMP_", "OPENBLAS_", "GOTO_", "MKL_", "KMP_", "BLIS_", "NUMEXPR_", "MALLOC_", "GLIBC_TUNABLES", "LC_", "LANG")

# What a module imports only when it is first used: PyTorch 2 does so with its compiler, for any optimizer, and takes five seconds.
LATE = {"torch": "torch._dynamo"}

FILES = 253  # the most that the kernel takes with one message


class Server:
    def __init__(self, sock):
        self.sock = sock
        self.data, self.fds = b"", []
        self.threads = 0  # native threads that the imports left; those libraries stop theirs around a fork
        self.environ = _loaded(_initial())
        # An interpreter without a locale chooses one for itself, and its children, as it starts.
        self.chosen = {k: v for k, v in os.environ.items() if k == "LC_CTYPE" and self.environ.get(k) != v}

    def serve(self):
        """Answers until the launcher goes away (None), or returns in a child the program it is to run."""
        while True:
            line = self._line()
            if line is None:
                return None
            program = self._answer(line)
            if program is not None:
                return program

    def _line(self):
        while b"\n" not in self.data:
            data, fds, flags, _ = socket.recv_fds(self.sock, _link.LINE, FILES, socket.MSG_CMSG_CLOEXEC)
            self.fds += fds
            if not data or len(self.data) > _link.LINE or flags & socket.MSG_CTRUNC:
                return None
            self.data += data
        line, self.data = self.data.split(b"\n", 1)
        return line

    def _answer(self, line):
        message = _link._decode(line)
        fds, self.fds = self.fds, []
        try:
            if message is None or message[0] != "fork":
                return self._say("refused", {"id": None, "why": "no fork request: %r" % line[:80]})
            request = message[1]
            try:
                program = self._accept(request, fds)
            except ValueError as err:
                return self._say("refused", {"id": request.get("id"), "why": str(err)})
            return self._fork(request, program, fds)
        finally:
            for fd in fds:
                os.close(fd)

    def _say(self, name, body):
        """A launcher that went away meanwhile is noticed at the next read."""
        try:
            self.sock.sendall(json.dumps({name: body}).encode() + b"\n")
        except OSError:
            pass

    def _accept(self, request, fds):
        """The program of a request that a fork can serve as a fresh interpreter would; ValueError says why not."""
        argv, env, each, cwd = request.get("argv"), request.get("env"), request.setdefault("each", [{}]), request.get("cwd")
        if not _words(argv) or not argv or not _named(env) or not isinstance(each, list) or not all(map(_named, each)) or not isinstance(cwd, str):
            raise ValueError("argv must be words, env and each words by name, cwd a folder")
        if not each or len(fds) != 2 * len(each):
            raise ValueError("stdout and stderr of %d processes must come with the request, %d files did" % (len(each), len(fds)))
        if not _same_file(_which(argv[0], env, cwd), sys.executable):
            raise ValueError("%s is not this interpreter, %s" % (argv[0], sys.executable))
        program = _script.Program.parse(argv[2:] if argv[1:2] == ["-u"] else argv[1:])
        if not program.module and not (program.name.endswith(".py") and os.path.isfile(os.path.join(cwd, program.name))):
            raise ValueError("%s is no Python file" % program.name)
        if not os.path.isdir(cwd):
            raise ValueError("%s is no folder" % cwd)
        for own in each:
            wanted = _loaded(dict(env, **own))
            for name in sorted(set(wanted) | set(self.environ)):
                if wanted.get(name) != self.environ.get(name):
                    raise ValueError("%s differs from the standby's, and is read only when an interpreter starts" % name)
        preload = request.get("preload") or []
        if not _words(preload):
            raise ValueError("preload must be names of modules")
        self.preload(preload)
        self._check_quiet()
        return program

    def preload(self, names):
        """Imports what can be imported; what can't will fail in the program, where its error belongs."""
        fresh = [n for n in names if n not in sys.modules]
        for name in fresh:
            try:
                importlib.import_module(name)
            except Exception as err:
                print("fermi.standby: cannot import %s: %s" % (name, err), file=sys.stderr)
            with contextlib.suppress(Exception):  # older versions have no such thing
                importlib.import_module(LATE.get(name, name))
        if fresh:
            gc.collect()
            gc.freeze()  # children share these pages; a collection would copy them

    def _check_quiet(self):
        torch = sys.modules.get("torch")
        if threading.active_count() > 1:
            raise ValueError("an imported module runs a thread: %s" % ", ".join(t.name for t in threading.enumerate()[1:]))
        if _native_threads() > max(1, self.threads):
            raise ValueError("an imported module runs %d native threads" % (_native_threads() - 1))
        if torch is not None and hasattr(torch, "cuda") and torch.cuda.is_initialized():
            raise ValueError("an imported module made a CUDA context")

    def _fork(self, request, program, fds):
        """Makes the processes; returns the program in each of them."""
        read, write = os.pipe()
        middle = os.fork()
        if middle:
            os.close(write)
            with open(read, "rb") as pipe:
                pids = [int(pid) for pid in pipe.read().split()]
            os.waitpid(middle, 0)
            if len(pids) != len(request["each"]):
                return self._say("refused", {"id": request.get("id"), "why": "only %d processes could be made" % len(pids)})
            return self._say("forked", {"id": request.get("id"), "pids": pids})
        try:
            for i, own in enumerate(request["each"]):
                pid = os.fork()
                if not pid:
                    break
                os.write(write, b"%d " % pid)
            else:
                os._exit(0)
            os.close(read)
            os.close(write)
            self._become(request, own, fds, 2 * i)
        except BaseException as err:
            os.write(2, ("fermi.standby: %s\n" % err).encode())
            os._exit(1)
        return program

    def _become(self, request, own, fds, at):
        """Turns this child into what the launcher would have started."""
        os.setsid()
        self.sock.close()
        null = os.open(os.devnull, os.O_RDONLY)
        for fd, place in ((null, 0), (fds[at], 1), (fds[at + 1], 2)):
            os.dup2(fd, place)
        os.close(null)
        for fd in fds[:at] + fds[at + 2 :]:  # the others', which hold their pipes open; the caller closes its own
            os.close(fd)
        del fds[:at], fds[2:]
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, _SIGNALS.get(number, signal.SIG_DFL))
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        if request["argv"][1] == "-u":
            sys.stdout, sys.stderr = _unbuffered(sys.stdout), _unbuffered(sys.stderr)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"], **own)
        os.environ.update(self.chosen)
        importlib.invalidate_caches()
        _store.install()
        numpy = sys.modules.get("numpy")
        if hasattr(numpy, "random"):
            numpy.random.seed()  # Python's own generator does this by itself after a fork


# What a fresh interpreter does with signals.
_SIGNALS = {signal.SIGINT: signal.default_int_handler, signal.SIGPIPE: signal.SIG_IGN, signal.SIGXFSZ: signal.SIG_IGN}


def _unbuffered(stream):
    raw = open(stream.fileno(), "wb", buffering=0, closefd=False)
    return io.TextIOWrapper(raw, stream.encoding, stream.errors, newline="\n", write_through=True)


def _loaded(environ):
    return {k: v for k, v in environ.items() if k.startswith(_LOADED)}


def _initial():
    """The environment this process was started with."""
    with open("/proc/self/environ", "rb") as file:
        return dict(os.fsdecode(kv).partition("=")[::2] for kv in file.read().split(b"\0") if kv)


def _named(value):
    return isinstance(value, dict) and _words(list(value.values()))


def _words(value):
    return isinstance(value, list) and all(isinstance(v, str) and "\0" not in v for v in value)


def _which(name, env, cwd):
    import shutil

    return os.path.join(cwd, name) if "/" in name else shutil.which(name, path=env.get("PATH", os.defpath))


def _same_file(a, b):
    try:
        return a is not None and os.path.samefile(a, b)
    except OSError:
        return False


def _native_threads():
    return len(os.listdir("/proc/self/task"))


def launcher():
    """The launcher's socket, moved away from standard input, which is empty from then on."""
    sock = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return sock


def main():
    server = Server(launcher())
    server.preload([n for n in os.environ.pop("FERMI_STANDBY_PRELOAD", "").split(",") if n])
    server.threads = _native_threads()
    server._say("ready", {})
    return server.serve()


if __name__ == "__main__":
    _program = main()
    if _program is not None:
        _program.run()
