"""A launcher for tests: speaks the contract between rank and launcher, and supervises the ranks of one task on
one machine. Single-threaded; every wait is for an event, with a limit that only a broken run meets."""

import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

SRC = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "src")
LIMIT = 300.0  # seconds a wait may take on a slow machine


def rank_environ(**more):
    env = {k: os.environ[k] for k in ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES") if k in os.environ}
    env.update(PYTHONPATH=SRC, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
    env.update({k: str(v) for k, v in more.items()})
    return env


class Peer:
    """One connection: lines in, lines out."""

    def __init__(self, sock):
        self.sock, self.data, self.rank = sock, b"", None

    def lines(self):
        """The messages that are there, and whether the peer is still."""
        try:
            data = self.sock.recv(1 << 16)
        except ConnectionResetError:
            data = b""
        self.data += data
        *lines, self.data = self.data.split(b"\n")
        return [next(iter(json.loads(line).items())) for line in lines], bool(data)

    def send(self, name, body):
        try:
            self.sock.sendall(json.dumps({name: body}).encode() + b"\n")
        except (BrokenPipeError, ConnectionResetError):
            pass  # killed a moment ago


class Standby:
    """A fork server of the SDK; this process must be a child-subreaper."""

    def __init__(self, env, preload=""):
        self.sock, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen([sys.executable, "-m", "fermi.standby"], env=dict(env, FERMI_STANDBY_PRELOAD=preload), stdin=theirs)
        self.sock.settimeout(LIMIT)
        self.answers = self.sock.makefile("rb")
        ready = json.loads(self.answers.readline())
        if ready != {"ready": {}}:
            raise AssertionError(ready)

    def fork(self, argv, env, cwd, stdout, stderr, **more):
        body = dict({"id": "x", "argv": argv, "cwd": cwd, "env": env}, **more)
        socket.send_fds(self.sock, [json.dumps({"fork": body}).encode() + b"\n"], [stdout, stderr])
        return next(iter(json.loads(self.answers.readline()).items()))

    def close(self):
        self.answers.close()
        self.sock.close()
        self.process.wait(LIMIT)


def reserve_port():
    """Bound and never listening: nobody else is given this port, and torch, which reuses addresses, can have it. On
    every address of both families, as torch binds it: a port free on one address only is no use to it."""
    port = socket.socket(socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET)
    port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if port.family == socket.AF_INET6:
        port.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    port.bind(("", 0))
    return port


def sockets_on(port):
    """The lines of /proc/net/tcp{,6} that name this port at either end."""
    found, mark = [], ":%04X" % port
    for name in ("tcp", "tcp6"):
        with open("/proc/net/" + name) as file:
            found += [" ".join(line.split()[1:4]) for line in file if any(end.endswith(mark) for end in line.split()[1:3])]
    return found


def become_subreaper():
    import ctypes

    PR_SET_CHILD_SUBREAPER = 36
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


class Launcher:
    """Runs a task: start() opens a generation, turn() handles what happened next, kill() is the fault."""

    def __init__(self, argv, world, env=None, standby=None):
        self.folder = tempfile.mkdtemp(prefix="fsdk", dir="/tmp")
        self.shm = tempfile.mkdtemp(prefix="fsdk", dir="/dev/shm")
        self.argv, self.world, self.env, self.standby = argv, world, env or {}, standby
        self.selector = selectors.DefaultSelector()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.path = os.path.join(self.folder, "s")
        self.listener.bind(self.path)
        self.listener.listen(64)
        self.selector.register(self.listener, selectors.EVENT_READ, self._accept)
        self.generation = 0
        self.pids, self.peers, self.codes = {}, {}, {}
        self.processes = {}  # by pid; a Popen nobody holds any more would reap its child itself
        self.held, self.saved, self.watermark, self.restores = {}, {}, None, []
        self.events = []  # (rank, name, body) since the last turn
        self.port = None
        self.log = open(os.path.join(self.folder, "log"), "wb")

    def start(self, ranks=None):
        """The next generation; with ranks only those are new processes, the others stayed."""
        self.open_generation()
        for rank in ranks if ranks is not None else range(self.world):
            self.spawn(rank)

    def open_generation(self):
        self.generation += 1
        self.held, self.saved, self.watermark = {}, {}, None
        if self.port is not None:
            self.port.close()
        self.port = reserve_port()

    def spawn(self, rank):
        env = rank_environ(
            RANK=rank,
            LOCAL_RANK=rank,
            WORLD_SIZE=self.world,
            LOCAL_WORLD_SIZE=self.world,
            GROUP_RANK=0,
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=self.port.getsockname()[1],
            FERMI_GENERATION=self.generation,
            FERMI_SOCKET=self.path,
            FERMI_SHM=self.shm,
            **self.env,
        )
        argv = [sys.executable] + self.argv
        if self.standby is not None:
            name, body = self.standby.fork(argv, env, self.folder, self.log.fileno(), self.log.fileno())
            if name != "forked":
                raise AssertionError(body)
            pid = body["pids"][0]
        else:
            process = subprocess.Popen(argv, env=env, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
            pid = process.pid
            self.processes[pid] = process
        self.pids[rank] = pid
        fd = os.pidfd_open(pid)
        self.selector.register(fd, selectors.EVENT_READ, lambda: self._exit(rank, pid, fd))

    def _accept(self):
        peer = Peer(self.listener.accept()[0])
        self.selector.register(peer.sock, selectors.EVENT_READ, lambda: self._read(peer))

    def _read(self, peer):
        messages, still = peer.lines()
        for name, body in messages:
            if name == "hello":
                peer.rank = body["rank"]
                self.peers[peer.rank] = peer
            self._handle(peer.rank, name, body)
        if not still:
            self.selector.unregister(peer.sock)
            peer.sock.close()
            if self.peers.get(peer.rank) is peer:
                del self.peers[peer.rank]
                self.events.append((peer.rank, "gone", {}))

    def _handle(self, rank, name, body):
        self.events.append((rank, name, body))
        if name == "held":
            if rank in self.held:  # it gives up what is newer than the watermark
                self.saved[rank] = set(body["steps"])
                return self.peers[rank].send("watermark", {"step": self.watermark, "held": True})
            self.held[rank] = set(body["steps"])
            if len(self.held) == self.world:
                self._welcome()
        elif name == "saved":
            self.saved.setdefault(rank, set()).add(body["step"])
            whole = set.intersection(*(self.saved.get(r, set()) for r in range(self.world)))
            if whole and (self.watermark is None or max(whole) > self.watermark):
                self.watermark = max(whole)
                self.tell("watermark", {"step": self.watermark})

    def _welcome(self):
        whole = set.intersection(*self.held.values())
        restore = max(whole) if whole else None
        self.restores.append(restore)
        self.tell("welcome", {"generation": self.generation, "restore": restore, "offers": True})

    def tell(self, name, body):
        for peer in list(self.peers.values()):
            peer.send(name, body)

    def _exit(self, rank, pid, fd):
        self.selector.unregister(fd)
        os.close(fd)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if pid in self.processes:
            self.processes.pop(pid).returncode = code
        if self.pids.get(rank) == pid:
            del self.pids[rank]
            self.codes[rank] = code
            self.events.append((rank, "exit", {"code": code}))

    def turn(self, patience=None):
        """Waits for the next events and returns them; none where there is a patience and it ends."""
        end = time.monotonic() + (patience or LIMIT)
        while not self.events:
            ready = self.selector.select(max(0.0, end - time.monotonic()))
            if not ready and patience:
                return []
            if not ready:
                raise AssertionError("nothing happened for %d s:\n%s" % (LIMIT, self.story()))
            for key, _ in ready:
                if self.selector.get_map().get(key.fd) is key or key.fileobj in self.selector.get_map():
                    key.data()
        events, self.events = self.events, []
        return events

    def until(self, true):
        """Turns until true(rank, name, body) holds for an event, and returns it."""
        while True:
            for event in self.turn():
                if true(*event):
                    return event

    def kill(self, ranks=None):
        """SIGKILL, and waits until they are gone; returns what else happened meanwhile."""
        pids = [self.pids[r] for r in (ranks if ranks is not None else list(self.pids)) if r in self.pids]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        events = []
        while any(pid in self.pids.values() for pid in pids):
            events += self.turn()
        return [e for e in events if e[1] != "exit"]

    def finish(self):
        """Runs to the end; all ranks must end well."""
        while self.pids:
            for rank, name, body in self.turn():
                if name == "exit" and body["code"] != 0:
                    raise AssertionError("rank %d ended with %d:\n%s" % (rank, body["code"], self.story()))

    def output(self):
        self.log.flush()
        with open(self.log.name, "r", errors="replace") as log:
            return log.read()[-20000:]

    def story(self):
        """What a failure is explained with."""
        return self.output() + "sockets on the port: %s\n" % sockets_on(self.port.getsockname()[1])

    def close(self):
        self.kill()
        self.selector.close()
        self.listener.close()
        for peer in self.peers.values():
            peer.sock.close()
        if self.port is not None:
            self.port.close()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self.shm, ignore_errors=True)
