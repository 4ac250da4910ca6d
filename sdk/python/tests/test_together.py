"""Memory is copied whole, by however many threads."""

import ctypes
import os
import random
import threading
import unittest
from unittest import mock

from fermi import _together


class Copies(unittest.TestCase):
    def jobs(self, lengths):
        """Random bytes of these lengths, and room for them."""
        random.seed(7)
        source = random.randbytes(sum(lengths)) if hasattr(random, "randbytes") else os.urandom(sum(lengths))
        to, at, jobs = bytearray(len(source)), 0, []
        first = ctypes.addressof(ctypes.c_char.from_buffer(to))
        self.source = ctypes.create_string_buffer(source, len(source))
        for length in lengths:
            jobs.append((first + at, ctypes.addressof(self.source) + at, length))
            at += length
        return source, to, jobs

    def test_every_byte_by_one_thread_and_by_many(self):
        many = [1, 63, _together.PIECE, 3 * _together.PIECE + 5, 17, 2 * _together.PIECE - 1]
        for lengths in ([], [1, 2, 3], many):
            for threads in (1, 2, 5):
                source, to, jobs = self.jobs(lengths) if lengths else (b"", bytearray(), [])
                with mock.patch.object(_together, "_threads", lambda: threads):
                    _together.copy(jobs)
                self.assertEqual(bytes(to), source)

    def test_no_thread_can_be_had(self):
        source, to, jobs = self.jobs([5 * _together.PIECE])
        with mock.patch.object(_together, "_threads", lambda: 4), mock.patch.object(threading.Thread, "start", side_effect=RuntimeError):
            _together.copy(jobs)
        self.assertEqual(bytes(to), source)

    def test_nobody_copies_on_after_an_exception(self):
        _, _, jobs = self.jobs([9 * _together.PIECE])
        real, this = _together._work, threading.current_thread()

        def work(pieces):
            if threading.current_thread() is this:
                raise KeyboardInterrupt
            real(pieces)

        with mock.patch.object(_together, "_threads", lambda: 4), mock.patch.object(_together, "_work", work), self.assertRaises(KeyboardInterrupt):
            _together.copy(jobs)
        self.assertFalse([t for t in threading.enumerate() if t.name == "fermi-copy"])

    def test_neighbours_share_the_cores(self):
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        for ranks, expected in (("1", cores), (str(cores), 1), (str(2 * cores), 1), ("0", cores), ("x", cores)):
            with mock.patch.dict(os.environ, LOCAL_WORLD_SIZE=ranks):
                self.assertEqual(_together._threads(), min(_together.THREADS, expected))
