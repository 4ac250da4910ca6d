"""Copies of much memory, by several threads: one alone does not get all that the memory gives."""

import collections
import ctypes
import os
import threading

PIECE = 4 << 20  # bytes that a thread takes at a time
ALONE = 8 << 20  # bytes that are copied before threads would have begun
THREADS = 8


def copy(jobs):
    """Does jobs of (to, from, bytes): addresses that stay valid until it returns."""
    total = sum(length for _, _, length in jobs)
    if total <= ALONE:
        for to, source, length in jobs:
            ctypes.memmove(to, source, length)
        return
    pieces = collections.deque((to + at, source + at, min(PIECE, length - at)) for to, source, length in jobs for at in range(0, length, PIECE))
    helpers = []
    try:
        for _ in range(min(_threads(), -(-total // ALONE)) - 1):
            helper = threading.Thread(target=_work, args=(pieces,), name="fermi-copy", daemon=True)
            try:
                helper.start()
            except RuntimeError:  # none can be had, or the interpreter is ending: this thread does it all
                break
            helpers.append(helper)
        _work(pieces)
    finally:  # also when a signal's handler raised: nobody writes after this
        pieces.clear()
        for helper in helpers:
            helper.join()


def _work(pieces):
    while True:
        try:
            to, source, length = pieces.popleft()
        except IndexError:
            return
        ctypes.memmove(to, source, length)  # other threads run meanwhile


def _threads():
    """This rank's share of the cores: its neighbours save at the same time."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        cores = os.cpu_count() or 1
    try:
        ranks = max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    except ValueError:
        ranks = 1
    return max(1, min(THREADS, cores // ranks))
