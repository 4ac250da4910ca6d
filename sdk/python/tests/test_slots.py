"""A slot is whole or empty, whatever happened to the process that wrote it or to the bytes since."""

import os
import random
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import unittest
import zlib

from fermi import _session, _slots, _tree, checkpoint


def state_of(step, size):
    """A state that says which step it is in every byte."""
    return {"step": step, "a": random.Random(step).randbytes(size), "b": [bytearray([step % 256]) * (size // 3), step / 7]}


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="fsdk", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def write(self, path, step, size=1000):
        slot = _slots.Slot(path)
        plan = _tree.Plan(state_of(step, size))
        tree = plan.encoded()
        slot.reserve(plan.length, len(tree))
        slot.put(plan)
        slot.commit(0, 1, 1, step, plan.length, tree)
        slot.close()


class Link:
    """A launcher that sums when it is told to."""

    open = True

    def __init__(self):
        self.sent = []

    def poll(self):
        return []

    def send(self, name, body, must=False, gather=False):
        self.sent.append((name, body))
        return True


class Sealed(Folder):
    def memory(self):
        session = _session.Session({"FERMI_SEALS": "1", "FERMI_SOCKET": "x"})
        session.link = Link()
        memory = checkpoint.L0(self.folder, session)
        self.addCleanup(memory.close)
        return memory, session

    def seal(self, memory, body):
        """What a launcher does."""
        slot = memory._slots[body["slot"]]
        raw = bytearray(slot._map[: _slots._HEADER.size])
        struct.pack_into("<I", raw, 8, _slots.WHOLE)
        header = _slots.Header.unpack(bytes(raw) + struct.pack("<I", zlib.crc32(raw)))
        self.assertEqual(header.step, body["step"])
        tree, table, _ = _slots._places(header.data, header.tree, header.table)
        slot.commit(header.rank, header.world, header.generation, header.step, header.data, slot._map[tree:table])
        slot.header = None  # it is another process's doing

    def test_a_slot_taken_as_soon_as_it_was_made_stays_taken(self):
        memory, session = self.memory()
        self.addCleanup(setattr, session.link, "open", False)
        last, go = memory._slots[-1], threading.Event()
        reserve = last.reserve
        last.reserve = lambda *args: (go.wait(), reserve(*args))
        for step in (1, 2):
            self.assertTrue(memory.save(step, state_of(step, 100)))
        go.set()
        with memory._made:
            memory._made.wait_for(lambda: not memory._making)
        self.assertEqual(memory._busy, set(memory._copied))
        self.assertTrue(memory.save(3, state_of(3, 100)))
        for _, body in [said for said in session.link.sent if said[0] == "copied"]:
            self.seal(memory, body)
        memory._rest()
        self.assertEqual(sorted(s.header.step for s in memory._slots), [1, 2, 3])

    def test_a_state_counts_once_the_launcher_has_summed_it(self):
        memory, session = self.memory()
        self.assertTrue(memory.save(7, state_of(7, 1000)))
        self.assertEqual([name for name, _ in session.link.sent], ["saving", "copied"])
        other = _slots.Slot(memory._slots[0].path)
        self.assertIsNone(other.look())
        other.close()
        self.assertEqual(len(memory._busy - memory._making), 1)
        self.seal(memory, session.link.sent[-1][1])
        memory._rest()
        self.assertEqual((len(memory._busy), memory._slots[0].header.step), (0, 7))
        self.assertFalse(memory.save(7, state_of(7, 1000)))
        session.restore = 7
        self.assertEqual(memory.restore().state, state_of(7, 1000))

    def test_one_that_the_launcher_empties_is_not_saved(self):
        memory, session = self.memory()
        memory.save(7, state_of(7, 1000))
        other = _slots.Slot(memory._slots[0].path)
        other.wipe()
        other.close()
        memory._rest()
        self.assertEqual((len(memory._busy), memory._slots[0].header), (0, None))

    def test_nobody_waits_for_a_launcher_that_is_gone(self):
        memory, session = self.memory()
        memory.save(7, state_of(7, 1000))
        session.link.open = False
        memory.flush()
        self.assertIsNone(memory._slots[0].header)


class Slots(Folder):
    def test_a_slot_reads_back_in_another_process_as_it_was(self):
        path = os.path.join(self.folder, "x")
        self.write(path, 12, 9 << 20)  # several chunks
        slot = _slots.Slot(path)
        self.assertEqual(slot.verify().step, 12)
        tree, data = slot.read()
        with data:
            self.assertEqual(_tree.decode(tree, data), state_of(12, 9 << 20))
        slot.close()

    def test_every_flipped_bit_that_counts_is_found(self):
        path = os.path.join(self.folder, "x")
        self.write(path, 3, 300)
        slot = _slots.Slot(path)
        tree, table, end = _slots._places(*slot.verify()[4:7])
        gaps = set(range(_slots._HEADER.size + 4, _slots.DATA))  # between header and data nothing is kept
        rng = random.Random(1)
        for at in range(end):
            if at in gaps:
                continue
            bit = 1 << rng.randrange(8)
            slot._map[at] ^= bit
            self.assertIsNone(slot.verify(), "byte %d of %d" % (at, end))
            slot._map[at] ^= bit
        self.assertIsNotNone(slot.verify())
        slot.close()

    def test_a_file_cut_short_or_of_noise_is_empty(self):
        path = os.path.join(self.folder, "x")
        self.write(path, 3)
        slot = _slots.Slot(path)
        end = _slots._places(*slot.verify()[4:7])[2]
        slot.close()
        with open(path, "rb") as file:
            whole = file.read()
        rng = random.Random(2)
        for size in [0, 1, 63, 64, 4095, 4096, 4097, end - 1] + [rng.randrange(end) for _ in range(50)]:
            with open(path, "wb") as file:
                file.write(whole[:size])
            slot = _slots.Slot(path)
            self.assertIsNone(slot.verify(), size)
            slot.close()
        for _ in range(50):
            with open(path, "wb") as file:
                file.write(_slots.MAGIC + rng.randbytes(rng.randrange(10000)))
            slot = _slots.Slot(path)
            self.assertIsNone(slot.verify())
            slot.close()

    def test_killed_at_any_byte_of_a_save_leaves_no_wrong_slot(self):
        """The child kills itself after so many bytes of the copy, or in the middle of the last writes."""
        size, rng = 3000, random.Random(3)
        for round_ in range(60):
            path = os.path.join(self.folder, "x")
            self.write(path, 1, size)
            limit = rng.randrange(0, size + size // 3 + 200)
            if os.fork() == 0:
                _die_after(limit)
                self.write(path, 2, size)
                os.kill(os.getpid(), signal.SIGKILL)
            os.wait()
            slot = _slots.Slot(path)
            header = slot.verify()
            if header is not None:
                tree, data = slot.read()
                with data:
                    self.assertEqual(_tree.decode(tree, data), state_of(header.step, size))
                self.assertEqual(header.step, 2)  # once begun, step 1 is gone
            slot.close()


def _die_after(limit):
    """From here on this process ends by SIGKILL once so many bytes of a state were copied."""
    left = [limit]

    def copier(view):
        def copy(destination):
            n = min(left[0], len(view))
            destination[:n] = view[:n]
            left[0] -= n
            if n < len(view):
                os.kill(os.getpid(), signal.SIGKILL)

        return copy

    _tree._copier = copier


class Saves(Folder):
    def l0(self, watermark=None, restore=None):
        session = _session.Session({"RANK": "0", "WORLD_SIZE": "1"})
        session.watermark, session.restore, session.may_offer = watermark, restore, True
        session.link = Quiet()
        memory = checkpoint.L0(self.folder, session)
        return memory, session

    def test_a_slot_is_reused_only_behind_the_watermark(self):
        memory, session = self.l0()
        for step in (1, 2, 3):
            self.assertTrue(memory.save(step, state_of(step, 100)))
        memory.flush()
        self.assertGreater(session.stalled, 0)
        session.stalled = 0
        full = memory.save(4, state_of(4, 100))
        self.assertFalse(full)
        self.assertEqual(session.stalled, 0)  # nothing was copied
        self.assertIn("[1, 2, 3]", full.why)
        session.watermark = 1  # step 1 is what everybody would restore: it stays
        self.assertFalse(memory.save(4, state_of(4, 100)))
        session.watermark = 2
        self.assertTrue(memory.save(4, state_of(4, 100)))
        memory.flush()
        self.assertEqual(sorted(s.header.step for s in memory._slots), [2, 3, 4])
        self.assertFalse(memory.save(4, state_of(4, 100)))  # held already
        self.assertEqual(memory.skipped, 3)
        with self.assertRaisesRegex(ValueError, "steps count from 1"):
            memory.save(0, {})
        memory.close()

    def test_a_slot_that_the_launcher_reads_is_kept(self):
        memory, session = self.l0()
        for step in (1, 2, 3):
            self.assertTrue(memory.save(step, state_of(step, 100)))
        memory.flush()
        session._act("watermark", {"step": 3, "keep": 1})
        self.assertTrue(memory.save(4, state_of(4, 100)))
        self.assertFalse(memory.save(5, state_of(5, 100)))  # of 1, 3 and 4 none is free
        session._act("watermark", {"step": 3})
        self.assertTrue(memory.save(5, state_of(5, 100)))
        memory.flush()
        self.assertEqual(sorted(s.header.step for s in memory._slots), [3, 4, 5])
        memory.close()

    def test_nothing_is_offered_to_a_launcher_that_would_not_answer(self):
        memory, session = self.l0()
        session.may_offer = False
        for step in range(1, 20):
            memory.save(step, state_of(step, 100))
        memory.flush()
        self.assertNotIn("held", [name for name, _ in session.link.sent])
        session.watermark = 3
        self.assertTrue(memory.save(20, state_of(20, 100)))
        memory.close()

    def test_steps_are_given_up_only_when_the_coordinator_knows(self):
        memory, session = self.l0()
        for step in (1, 2, 3):
            memory.save(step, state_of(step, 100))
        memory.flush()
        session.watermark = 1
        for step in range(4, 4 + checkpoint.STUCK + 2):
            self.assertFalse(memory.save(step, state_of(step, 100)))
        self.assertEqual([body for name, body in session.link.sent if name == "held"], [{"steps": [1]}])
        self.assertEqual(sorted(s.header.step for s in memory._slots), [1, 2, 3])  # nothing is lost before the answer
        session._act("watermark", {"step": 2, "held": True})  # step 2 had become whole everywhere before
        self.assertTrue(memory.save(20, state_of(20, 100)))
        memory.flush()
        self.assertIn(2, [s.header.step for s in memory._slots if s.header])
        self.assertNotIn(3, [s.header.step for s in memory._slots if s.header])
        memory.close()

    def test_steps_that_peers_do_not_have_are_forgotten(self):
        memory, session = self.l0()
        for step in (5, 6, 7):
            memory.save(step, state_of(step, 100))
        memory.close()
        memory, session = self.l0()
        self.assertEqual(memory.held(), [5, 6, 7])
        session.restore = 6
        memory.settle()
        self.assertEqual(memory.held(), [5, 6])
        got = memory.restore()
        self.assertEqual((got.step, got.state), (6, state_of(6, 100)))
        session.restore = None
        memory.settle()
        self.assertEqual(memory.held(), [])
        memory.close()

    def test_a_slot_of_another_rank_is_nobodys(self):
        memory, session = self.l0()
        memory.save(5, state_of(5, 100))
        memory.flush()
        session.rank = 1
        self.assertEqual(memory.held(), [])
        memory.close()

    def test_a_step_gone_bad_is_not_restored_and_said(self):
        memory, session = self.l0()
        memory.save(5, state_of(5, 100))
        memory.flush()
        memory._slots[0]._map[_slots.DATA + 7] ^= 1
        self.assertEqual(memory.held(), [])
        session.restore = 5
        with self.assertRaises(checkpoint.RestoreError):
            memory.restore()
        self.assertEqual(session.link.sent[-1], ("held", {"steps": []}))
        memory.close()

    def test_a_state_grows_and_shrinks(self):
        memory, session = self.l0()
        for step, size in enumerate((100, 300000, 10, 9 << 20, 0, 5000), 1):
            session.watermark = step - 1
            self.assertTrue(memory.save(step, state_of(step, size)))
            memory.flush()
            session.restore = step
            self.assertEqual(memory.restore().state, state_of(step, size))
        memory.close()

    def test_a_state_that_cannot_be_kept_leaves_the_slots_as_they_were(self):
        memory, session = self.l0()
        memory.save(1, state_of(1, 100))
        memory.flush()
        for _ in range(5):
            with self.assertRaises(TypeError):
                memory.save(2, {"f": print})
        self.assertTrue(memory.save(2, state_of(2, 100)))
        memory.flush()
        self.assertEqual(memory.held(), [1, 2])
        memory.close()

    def held_up(self, memory, first=1):
        """Room is made in no slot after the first ones until the answer is set."""
        go, real = threading.Event(), _slots.Slot.reserve

        def reserve(slot, *args):
            if memory._slots.index(slot) >= first:
                go.wait()
            real(slot, *args)

        self.patch(_slots.Slot, "reserve", reserve)
        self.addCleanup(go.set)
        return go

    def patch(self, owner, name, value):
        self.addCleanup(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, value)

    def test_the_first_save_does_not_wait_for_room_in_other_slots(self):
        memory, session = self.l0()
        go = self.held_up(memory)
        self.assertTrue(memory.save(1, state_of(1, 100)))
        memory.flush()
        self.assertTrue(memory.holds(1))
        self.assertEqual(memory._making, set(memory._slots[1:]))
        go.set()
        memory._rest()
        self.assertTrue(all(s.ready(100, 100) for s in memory._slots))
        memory.close()

    def test_a_save_that_needs_a_slot_in_the_making_waits_for_it(self):
        memory, session = self.l0()
        go, wait = self.held_up(memory), memory._made.wait_for
        self.assertTrue(memory.save(1, state_of(1, 100)))
        memory.flush()
        self.assertEqual(memory.save(1, state_of(1, 100)).why, "step 1 is held already")  # and waits for nothing

        def waits(predicate):
            go.set()
            return wait(predicate)

        memory._made.wait_for = waits
        for step in (2, 3):
            self.assertTrue(memory.save(step, state_of(step, 100)))
        self.assertTrue(go.is_set())
        self.assertEqual(memory.skipped, 1)
        memory.close()

    def test_one_that_ended_while_room_was_made_leaves_what_it_had_saved(self):
        pid = os.fork()
        if pid == 0:
            try:
                memory, session = self.l0()
                saved, real = threading.Event(), _slots._populate

                def half(mapping):
                    if mapping is not memory._slots[0]._map:
                        saved.wait()
                        os.kill(os.getpid(), signal.SIGKILL)
                    return real(mapping)

                _slots._populate = half
                memory.save(1, state_of(1, 300_000))
                memory.flush()
                saved.set()
                memory._rest()  # for ever
            finally:
                os._exit(1)
        self.assertEqual(os.waitpid(pid, 0)[1], signal.SIGKILL)
        memory, session = self.l0()
        self.assertEqual(memory.held(), [1])
        self.assertTrue(memory.save(2, state_of(2, 300_000)))
        memory.flush()
        self.assertEqual(memory.held(), [1, 2])
        memory.close()

    def test_no_memory_for_more_than_one_slot_is_said_by_the_save_that_needs_it(self):
        memory, session = self.l0()
        real = _slots._populate

        def full(mapping):
            if mapping is not memory._slots[0]._map:
                raise OSError(28, "No space left on device")
            return real(mapping)

        self.patch(_slots, "_populate", full)
        self.assertTrue(memory.save(1, state_of(1, 100)))
        self.assertIn("No space left", memory.save(2, state_of(2, 100)).why)
        memory.close()

    def test_no_memory_skips_and_says_so(self):
        memory, session = self.l0()

        def full(mapping):
            raise OSError(28, "No space left on device")

        self.patch(_slots, "_populate", full)
        saved = memory.save(1, state_of(1, 100))
        self.assertFalse(saved)
        self.assertIn("No space left", saved.why)
        memory.close()

    def test_a_full_file_system_is_said_and_not_kept_full(self):
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", self.folder], capture_output=True, check=False).returncode:
            self.skipTest("no file system can be mounted here")
        self.addCleanup(subprocess.run, ["umount", self.folder], check=True)
        memory, session = self.l0()
        saved = memory.save(1, state_of(1, 8 << 20))
        self.assertFalse(saved)
        self.assertIn("No space left", saved.why)
        self.assertTrue(memory.save(2, state_of(2, 1 << 20)))
        memory.flush()
        memory.close()
        memory, session = self.l0()
        self.assertEqual(memory.held(), [2])
        memory.close()

    def test_after_a_restart_no_save_makes_room(self):
        """The slots that are there are made ready while training goes on, and keep what they hold."""
        memory, session = self.l0()
        for step in (1, 2):
            memory.save(step, state_of(step, 300_000))
        memory.close()
        memory, session = self.l0()
        self.assertEqual(memory.held(), [1, 2])
        session.restore = 2
        self.assertEqual(memory.restore().state, state_of(2, 300_000))
        memory._rest()
        self.assertTrue(all(s._there for s in memory._slots))
        self.assertEqual(memory.held(), [1, 2])
        self.patch(_slots, "_populate", None)
        for step in (3, 4, 5):
            session.watermark = step - 1
            self.assertTrue(memory.save(step, state_of(step, 300_000)))
            memory.flush()
        memory.close()

    def test_a_start_from_nothing_makes_room_for_the_state_it_is_shown(self):
        memory, session = self.l0()
        self.assertIsNone(memory.restore(state_of(0, 300_000)))
        memory._rest()
        self.assertTrue(all(s._there for s in memory._slots))
        self.patch(_slots, "_populate", None)
        self.assertTrue(memory.save(1, state_of(1, 300_000)))
        self.assertIsNone(memory.restore({"f": print}))  # which no save would take
        memory.close()

    def test_kill_dash_nine_at_random_moments(self):
        """A process saves as fast as it can and is killed; whatever is whole then is what was saved."""
        rng = random.Random(4)
        size, whole = 50_000, 0
        for _ in range(30):
            ready, begin = os.pipe()
            pid = os.fork()
            if pid == 0:
                _save_for_ever(self.l0, size, begin)
            os.close(begin)
            for _ in range(1 + rng.randrange(4)):  # a byte a save: so many were taken, all but the last are whole
                os.read(ready, 1)
            for _ in range(rng.randrange(2000)):
                pass
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(ready)
            memory, session = self.l0()
            for step in memory.held():
                session.restore = step
                self.assertEqual(memory.restore().state, state_of(step, size))
                whole += 1
            memory.close()
        self.assertGreater(whole, 0)


def _save_for_ever(l0, size, begin):
    try:
        memory, session = l0()
        held = memory.held()
        step = session.watermark = held[-1] if held else 0
        states = [state_of(s, size) for s in range(step + 1, step + 10)]
        while True:
            for state in states:
                if memory.save(state["step"], state):
                    os.write(begin, b".")
                memory.flush()
                session.watermark = state["step"]
            os.kill(os.getpid(), signal.SIGKILL)
    finally:
        os._exit(1)


class Quiet:
    """A link that keeps what is sent."""

    open = True

    def __init__(self):
        self.sent = []

    def send(self, name, body, must=False):
        self.sent.append((name, body))
        return True

    def poll(self):
        return []


if __name__ == "__main__":
    unittest.main()
