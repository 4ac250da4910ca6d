"""What a save of the SDK costs training, beside a plain copy and torch.save; what a restore costs beside a copy.

    stall.py MIB ROUNDS FOLDER     FERMI_SHM: the slots; FOLDER: on the disk

One JSON object of lists of seconds, the kinds measured in turn in every round. A line "check SLOT STEP" before it asks
whoever started this to read a slot as a launcher does, and to answer with a line.
"""

import ctypes
import json
import mmap
import os
import sys
import time

import torch

import fermi
from fermi import _session, checkpoint

TENSORS = 64


def main(mib, rounds, folder):
    torch.set_num_threads(1)
    each = (mib << 20) // 4 // TENSORS
    state = {"w%d" % i: torch.randn(each) for i in range(TENSORS)}
    fermi.init()
    warm = shared(os.environ["FERMI_SHM"], mib << 20)
    into = [warm[i * each : (i + 1) * each] for i in range(TENSORS)]
    model = {k: torch.zeros(each) for k in state}  # it is there already when it is restored
    saved_one = os.path.join(os.environ["FERMI_SHM"], "one")
    one_saved(saved_one, state)
    seen = {}

    def note(name, seconds):
        seen.setdefault(name, []).append(seconds)

    for i in range(rounds + 1):
        if i == 1:
            seen.clear()  # the first warms up: room is made in the slots, memory is touched
        note("memmove", timed(lambda: [ctypes.memmove(t.data_ptr(), w.data_ptr(), 4 * each) for t, w in zip(into, state.values())]))
        begin = time.perf_counter()
        saved = checkpoint.save(i + 1, state)
        note("save", time.perf_counter() - begin)
        if not saved:
            raise SystemExit("not saved: " + saved.why)
        checkpoint.flush()
        note("copy", timed(lambda: [t.copy_(w) for t, w in zip(into, state.values())]))
        note("torch.save", timed(lambda: to_disk(state, os.path.join(folder, "torch.save"))))
        [w.zero_() for w in model.values()]
        note("restore", restore(saved_one, state, model))
        note("restore, new memory", restore(saved_one, state, None))
        note("copy out", timed(lambda: [w.copy_(t) for w, t in zip(model.values(), into)]))
        note("copy out, new memory", timed(lambda: [t.clone() for t in into]))
    print(json.dumps({"torch": torch.__version__, "python": sys.version.split()[0], "seconds": seen}))


def one_saved(folder, state):
    """A folder of slots of which one is full."""
    os.mkdir(folder)
    memory = checkpoint.L0(folder, _session.Session({}))
    memory.save(1, state)
    memory.close()
    for i in (1, 2):
        os.truncate(os.path.join(folder, "rank-0.%d" % i), 0)


def restore(folder, state, into):
    """As a launcher and a process that starts do it: every byte is checked, then it is copied out."""
    session = _session.Session({"FERMI_SEALS": "1", "FERMI_SOCKET": "-"})
    session.restore = 1
    begin = time.perf_counter()
    memory = checkpoint.L0(folder, session)
    print("check %s 1" % os.path.join(folder, "rank-0.0"), flush=True)
    if sys.stdin.readline() != "ok\n":
        raise SystemExit("the state is damaged")
    held = memory.held()
    back = memory.restore(into)
    took = time.perf_counter() - begin
    memory.close()
    if held != [1] or not all(torch.equal(back.state[k], w) for k, w in state.items()):
        raise SystemExit("restored something else")
    return took


def shared(folder, length):
    """Shared memory that was touched, as a tensor."""
    path = os.path.join(folder, "warm")
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.posix_fallocate(fd, 0, length)
    memory = mmap.mmap(fd, length, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
    os.close(fd)
    os.unlink(path)
    return torch.frombuffer(memory, dtype=torch.float32)


def to_disk(state, path):
    with open(path, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())


def timed(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
