"""The wire between a rank and its launcher: JSON lines over a unix socket.

One object with one key a line, at most 64 KiB. The rank never waits for the launcher while it
trains: what can't be sent at once is kept, and progress is dropped rather than kept for ever. There
is no thread: messages are read when the rank asks for them, which it does at every step. Reports of short
steps may be gathered: a message for each would cost both ends more than what it says.
"""

import json
import select
import socket
import sys
import threading
import time

LINE = 64 * 1024  # the longest line either side may send
BACKLOG = 256 * 1024  # bytes kept for a launcher that does not read; beyond that only news that must not be lost
GATHER = 0.5  # seconds that what may be gathered waits for more
GATHERED = 64  # messages
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class Link:
    """One connection. All methods may be called from any thread."""

    def __init__(self, path):
        self._lock = threading.Lock()
        self._out = bytearray()
        self._sent = -GATHER  # when something was sent last
        self._later = []  # what may wait behind _out; it costs least made into lines together
        self._in = b""
        self._messages = []
        self.dropped = 0
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(path)
        except BaseException:
            sock.close()
            raise
        sock.setblocking(False)
        self._sock = sock

    @property
    def open(self):
        return self._sock is not None

    def send(self, name, body, must=False, gather=False):
        """Sends {name: body}. Without must the message is dropped when the launcher is far behind; with gather it may wait for others."""
        message = {name: body}
        line = b"" if gather else _line(message)
        with self._lock:
            if self._sock is None:
                return False
            if gather:
                self._later.append(message)
                self._flush_due()
                return True
            self._gathered()
            if not must and len(self._out) + len(line) > BACKLOG:
                self.dropped += 1
                return False
            self._out += line
            self._flush()
            return True

    def _gathered(self):
        """What waited goes behind what is on its way, or nowhere if the launcher is far behind."""
        later, self._later = self._later, []
        for message in later:
            line = _line(message)
            if len(self._out) + len(line) > BACKLOG:
                self.dropped += 1
            else:
                self._out += line

    def _flush_due(self):
        if len(self._later) >= GATHERED or time.monotonic() - self._sent >= GATHER:
            self._gathered()
        self._flush()

    def _flush(self):
        while self._sock is not None and self._out:
            try:
                with memoryview(self._out) as view:
                    n = self._sock.send(view[:LINE])
            except (BlockingIOError, InterruptedError):
                return
            except OSError as err:
                self._lose("cannot send: %s" % err)
                return
            del self._out[:n]
            self._sent = time.monotonic()

    def poll(self):
        """Returns the messages that are there, as (name, body) in the order sent, without waiting."""
        with self._lock:
            self._flush_due()
            self._read()
            messages, self._messages = self._messages, []
            return messages

    def wait(self, seconds):
        """Like poll, but waits up to so long for the first message; [] after that or when the link is lost."""
        end = time.monotonic() + seconds
        with self._lock:
            self._gathered()
        while True:
            messages = self.poll()
            left = end - time.monotonic()
            sock = self._sock
            if messages or sock is None or left <= 0:
                return messages
            select.select([sock], [sock] if self._out else [], [], min(left, 1.0))

    def _read(self):
        while self._sock is not None:
            try:
                data = self._sock.recv(LINE)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as err:
                self._lose("cannot read: %s" % err)
                return
            if not data:
                self._lose("")
                return
            self._in += data
            self._split()

    def _split(self):
        *lines, self._in = self._in.split(b"\n")
        for line in lines:
            message = _decode(line)
            if message is None:
                self._lose("the launcher sent what is no message: %r" % line[:80])
                return
            self._messages.append(message)
        if len(self._in) > LINE:
            self._lose("the launcher sent a line longer than %d bytes" % LINE)

    def _lose(self, why):
        """Training goes on without a launcher: it is told once, and nothing else changes."""
        if why:
            print("fermi: link to the launcher lost: %s" % why, file=sys.stderr)
        self._sock.close()
        self._sock = None
        self._out.clear()
        self._later.clear()
        self._in = b""

    def close(self):
        with self._lock:
            if self._sock is not None:
                self._gathered()
                self._flush()
                self._lose("")


def _line(message):
    line = _encode(message).encode() + b"\n"
    if len(line) > LINE:
        raise ValueError("a message %r of %d bytes is over the limit of %d" % (next(iter(message)), len(line), LINE))
    return line


def _decode(line):
    """One line as (name, body), or None when it is no message."""
    if len(line) > LINE:
        return None
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or len(message) != 1:
        return None
    name, body = next(iter(message.items()))
    return (name, body) if isinstance(body, dict) else None
