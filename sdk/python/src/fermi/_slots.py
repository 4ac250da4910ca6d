"""One L0 slot: a file in memory that outlives the process, whole or not there.

    0      header: magic, state, rank, world, generation, step, lengths, check sums; written last
    4096   data: the blobs, each at a multiple of 64
    ...    tree: JSON
    ...    table: CRC-32 of every 8 MiB of the data

A slot under change has no valid header, so a process killed at any byte of a save leaves a slot that
is empty, never one that is wrong. Every byte that counts is covered: the header by its own CRC, tree
and table by CRCs in the header, the data by the table. CRC-32 and not CRC-32C: decision 0014. A launcher that
can takes the sums, and checks them before a restore: its processor's instructions are faster than zlib.
"""

import ctypes
import errno
import mmap
import os
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from ._layout import COPIED, DATA, MAGIC, ROOM, WHOLE
from ._layout import SUM as CHUNK

_HEADER = struct.Struct("<8sIIIIQQQQQII")  # magic, state, rank, world, 0, generation, step, data, tree, table, crc of tree and table


class Header(NamedTuple):
    """What a whole slot says of itself; lengths in bytes."""

    rank: int
    world: int
    generation: int
    step: int
    data: int
    tree: int
    table: int
    tree_crc: int
    table_crc: int

    def pack(self, state=WHOLE):
        fields = _HEADER.pack(
            MAGIC, state, self.rank, self.world, 0, self.generation, self.step, self.data, self.tree, self.table, self.tree_crc, self.table_crc
        )
        return fields + struct.pack("<I", zlib.crc32(fields))

    @staticmethod
    def unpack(raw):
        """The header, or None when these bytes are none."""
        fields, crc = raw[: _HEADER.size], raw[_HEADER.size : _HEADER.size + 4]
        if len(crc) < 4 or struct.pack("<I", zlib.crc32(fields)) != crc:
            return None
        magic, state, rank, world, zero, *rest = _HEADER.unpack(fields)
        if magic != MAGIC or state != WHOLE or zero != 0:
            return None
        return Header(rank, world, *rest)


class Slot:
    """A slot and its mapping. One process at a time writes it."""

    def __init__(self, path):
        self.path = path
        self.header = None  # of what was found whole, or committed
        self._map = None
        self._there = False  # every page of the mapping is
        self._pinned = None  # address, while CUDA knows the mapping
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._open()

    def _open(self):
        size = os.fstat(self._fd).st_size
        if size >= DATA:
            self._map = mmap.mmap(self._fd, size)

    def look(self):
        """Sets and returns the header if there is one; whether the bytes are as they were written somebody else has seen."""
        self.header = None
        header = Header.unpack(self._map[: _HEADER.size + 4]) if self._map else None
        if header is None or header.table != 4 * -(-header.data // CHUNK):
            return None
        if _places(header.data, header.tree, header.table)[2] > len(self._map):
            return None
        self.header = header
        return header

    def empty(self):
        return not any(self._map[: len(MAGIC)])

    def verify(self):
        """Reads every byte; sets and returns the header if all of them are as they were written."""
        header, self.header = self.look(), None
        if header is None:
            return None
        tree, table, end = _places(header.data, header.tree, header.table)
        sums = self._map[table:end]
        if zlib.crc32(self._map[tree:table]) != header.tree_crc or zlib.crc32(sums) != header.table_crc:
            return None
        if self._sums(header.data) != sums:
            return None
        self.header = header
        return header

    def _sums(self, length):
        """The table of check sums of the data; chunks are summed side by side, for zlib lets other threads run."""
        with memoryview(self._map) as view:
            parts = [view[DATA + i : DATA + min(i + CHUNK, length)] for i in range(0, length, CHUNK)]
            sums = _side_by_side(zlib.crc32, parts)
            for p in parts:
                p.release()
        return struct.pack("<%dI" % len(sums), *sums)

    def wipe(self):
        """From here on the slot is empty, also for whoever reads it after this process."""
        self.header = None
        if self._map:
            self._map[: _HEADER.size + 4] = bytes(_HEADER.size + 4)

    def fits(self, data, tree):
        return self._map is not None and len(self._map) >= _need(data, tree)

    def ready(self, data, tree, torch=None):
        """There is room, and CUDA was asked to know it where there is a torch."""
        return self._there and self.fits(data, tree) and (torch is None or self._pinned is not None)

    def reserve(self, data, tree, torch=None):
        """Makes room: every page is there now, so that no save meets one that is not, or no memory. With torch CUDA copies
        straight into it. Only where it must grow it loses what it held."""
        if not self.fits(data, tree):
            self.wipe()
            self._unmap()
            os.ftruncate(self._fd, -(-(_need(data, tree) + ROOM) // ROOM) * ROOM)
            self._open()
            try:
                self._fill()
            except OSError:
                self._unmap()
                os.ftruncate(self._fd, 0)  # or it would keep from others the part that it got
                raise
        elif not self._there:
            self._fill()
        if torch is not None:
            self.pin(torch)

    def _fill(self):
        if not _populate(self._map):
            size = len(self._map)
            os.posix_fallocate(self._fd, 0, size)
            self._unmap()
            self._map = mmap.mmap(self._fd, size, flags=mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0))
        self._there = True

    def pin(self, torch):
        """Lets CUDA copy straight into the mapping, at the speed of pinned memory. Where it may not, copies only take longer."""
        if self._pinned is None:
            address = torch.frombuffer(self._map, dtype=torch.uint8).data_ptr()
            failed = int(torch.cuda.cudart().cudaHostRegister(address, len(self._map), 0))
            self._pinned = 0 if failed else address

    def _unmap(self):
        if self._pinned:
            import torch

            torch.cuda.cudart().cudaHostUnregister(self._pinned)
        self._pinned, self._there = None, False
        if self._map:
            self._map.close()
            self._map = None

    def put(self, plan):
        """Copies the blobs in; plan.finish waits for those that may take their time. The slot is empty until commit."""
        self.wipe()
        with memoryview(self._map) as view:
            plan.copy(view[DATA : DATA + plan.length])

    def copied(self, rank, world, generation, step, data, tree):
        """Leaves the sums to the launcher, which makes the slot whole; look sees when it is."""
        at, table, end = _places(data, len(tree), 4 * -(-data // CHUNK))
        self._map[at:table] = tree
        packed = Header(rank, world, generation, step, data, len(tree), end - table, zlib.crc32(tree), 0).pack(COPIED)
        self._map[: len(packed)] = packed
        return end

    def commit(self, rank, world, generation, step, data, tree):
        """Sums what put copied, and makes the slot whole with one last short write."""
        sums = self._sums(data)
        at, table, end = _places(data, len(tree), len(sums))
        self._map[at:table] = tree
        self._map[table:end] = sums
        header = Header(rank, world, generation, step, data, len(tree), len(sums), zlib.crc32(tree), zlib.crc32(sums))
        packed = header.pack()
        self._map[: len(packed)] = packed
        self.header = header
        return end

    def bytes(self, length):
        """A view of the data's place; release it after use."""
        return memoryview(self._map)[DATA : DATA + length]

    def read(self):
        """(tree, view of the data) of a slot that verify or commit found whole; release the view after use."""
        tree, table, _ = _places(self.header.data, self.header.tree, self.header.table)
        return self._map[tree:table], memoryview(self._map)[DATA : DATA + self.header.data]

    def close(self):
        self._unmap()
        os.close(self._fd)


_POPULATE_WRITE = 23  # of madvise, Linux 5.14
_PIECE = 64 << 20  # bytes that are not worth a thread of their own


def _populate(mapping):
    """Makes every page be there, by threads side by side: one alone takes three times as long. False where the system can't; an
    OSError when there is no memory."""
    address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
    piece = max(-(-len(mapping) // _THREADS // mmap.PAGESIZE) * mmap.PAGESIZE, _PIECE)
    madvise = ctypes.CDLL(None, use_errno=True).madvise

    def make(at):
        failed = madvise(ctypes.c_void_p(address + at), ctypes.c_size_t(min(piece, len(mapping) - at)), _POPULATE_WRITE)
        return ctypes.get_errno() if failed else 0

    failed = set(_side_by_side(make, range(0, len(mapping), piece))) - {0}
    if failed - {errno.EINVAL}:  # it says EFAULT where a write would have been the end of us
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return not failed


_THREADS = min(4, os.cpu_count() or 1)


def _side_by_side(do, parts):
    """What do gives for each part; it lets other threads run."""
    if len(parts) > 1:
        try:
            with ThreadPoolExecutor(_THREADS) as pool:
                return list(pool.map(do, parts))
        except RuntimeError:  # the interpreter is ending and starts no threads any more
            pass
    return [do(p) for p in parts]


def _need(data, tree):
    return _places(data, tree, 4 * -(-data // CHUNK))[2]


def _places(data, tree, table):
    """Where tree and table begin, and where all ends."""
    at = DATA + data
    return at, at + tree, at + tree + table
