"""The wire and the session against a launcher that does, and does not, what it should; and without one."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import shutil
import struct
import threading
import time
import unittest
from unittest import mock

import fermi
from fermi import _agree, _link, _session
from tests import standin


class BatchShare(unittest.TestCase):
    def test_the_parts_of_all_ranks_are_the_batch(self):
        for world in (1, 2, 3, 4, 6, 8, 9):
            parts = []
            for rank in range(world):
                env = {"RANK": str(rank), "WORLD_SIZE": str(world), "FERMI_BASE_WORLD_SIZE": "8", "FERMI_BATCH": "keepGlobal"}
                _session.begin(_session.Session(env))
                self.addCleanup(_session.begin, None)
                share = fermi.batch_share()
                self.assertEqual((share.of, share.lr), (max(8, world), 1.0))
                parts += share.parts
            self.assertEqual(parts, list(range(max(8, world))))

    def test_or_the_learning_rate_is_scaled(self):
        _session.begin(_session.Session({"RANK": "1", "WORLD_SIZE": "2", "FERMI_BASE_WORLD_SIZE": "8", "FERMI_BATCH": "rescaleLR"}))
        self.addCleanup(_session.begin, None)
        share = fermi.batch_share()
        self.assertEqual((share.parts, share.of, share.lr), (range(1, 2), 2, 0.25))


class Wire(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="fsdk", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder)
        self.path = os.path.join(self.folder, "s")
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(self.listener.close)
        self.listener.bind(self.path)
        self.listener.listen(1)

    def link(self):
        link = _link.Link(self.path)
        self.addCleanup(link.close)
        server = self.listener.accept()[0]
        server.settimeout(standin.LIMIT)
        self.addCleanup(server.close)
        return link, server

    def test_messages_go_both_ways(self):
        link, server = self.link()
        link.send("progress", {"step": 1, "metrics": {"损失": 0.5}})
        self.assertEqual(json.loads(server.makefile("rb").readline()), {"progress": {"step": 1, "metrics": {"损失": 0.5}}})
        server.sendall(b'{"watermark":{"st')
        self.assertEqual(link.poll(), [])
        server.sendall(b'ep":3}}\n{"stop":{}}\n')
        self.assertEqual(link.wait(standin.LIMIT), [("watermark", {"step": 3}), ("stop", {})])

    def test_a_launcher_that_does_not_read_never_blocks_a_rank(self):
        link, server = self.link()
        while link.dropped < 100:
            link.send("progress", {"step": 1, "metrics": {"x" * 1000: 1.0}})
        self.assertTrue(link.send("saved", {"step": 1}, must=True))
        read = threading.Thread(target=lambda: self.drain(server))
        read.start()
        while link._out:
            link.poll()
        link.close()
        read.join()
        self.assertEqual(json.loads(self.last), {"saved": {"step": 1}})

    def drain(self, server):
        for line in server.makefile("rb"):
            self.last = line

    def test_nonsense_ends_the_link_and_not_the_rank(self):
        for bad in (b"{]\n", b"[]\n", b'{"a":1}\n', b'{"a":{},"b":{}}\n', b"\xff\n", b"x" * (_link.LINE + 2), b"[" * 60000 + b"\n"):
            with self.subTest(bad=bad[:20]):
                link, server = self.link()
                server.sendall(bad)
                while link.open:
                    self.assertEqual(link.wait(1.0), [])
                self.assertFalse(link.send("progress", {"step": 1}))
                self.assertEqual(link.poll(), [])

    def test_what_may_be_gathered_waits_and_goes_with_what_may_not(self):
        link, server = self.link()
        with mock.patch.object(_link, "GATHER", standin.LIMIT):
            link._sent = time.monotonic()
            link.send("progress", {"step": 1}, gather=True)
            link.send("progress", {"step": 2}, gather=True)
            self.assertEqual(link.poll(), [])
            server.setblocking(False)
            self.assertRaises(BlockingIOError, server.recv, 1)
            link.send("saving", {"step": 2})
            self.assertEqual(server.recv(1000).count(b"\n"), 3)
            for step in range(3, 3 + _link.GATHERED):  # so many don't wait
                link.send("progress", {"step": step}, gather=True)
            self.assertEqual(server.recv(1 << 16).count(b"\n"), _link.GATHERED)
            link.send("progress", {"step": 3000}, gather=True)
        link._sent -= _link.GATHER  # it has waited for long enough
        link.poll()
        self.assertEqual(server.recv(1000), b'{"progress":{"step":3000}}\n')

    def test_lines_beyond_the_limit_are_not_sent(self):
        link, _ = self.link()
        with self.assertRaisesRegex(ValueError, "over the limit"):
            link.send("progress", {"x": "y" * _link.LINE})


class Fake:
    """A link that plays what a launcher says."""

    open = True

    def __init__(self, *said):
        self.said, self.sent = list(said), []

    def poll(self):
        said, self.said = self.said, []
        return said

    def wait(self, seconds):
        return self.poll()

    def send(self, name, body, must=False, gather=False):
        self.sent.append((name, body))
        return True


class Sessions(unittest.TestCase):
    def session(self, *said, **environ):
        session = _session.Session(dict({"RANK": "1", "WORLD_SIZE": "4", "FERMI_GENERATION": "2"}, **environ))
        session.link = Fake(*said)
        return session

    def test_reports_are_numbers(self):
        session = self.session()
        session.report(5, {"loss": 0.25, "none": None, "nan": float("nan"), "big": float("inf"), "flag": True})
        session.report(7, {})
        self.assertEqual(session.link.sent[0], ("progress", {"step": 5, "t": 0.0, "metrics": {"loss": 0.25, "nan.nonfinite": 1.0, "big.nonfinite": 2.0, "flag": 1.0}}))
        self.assertGreater(session.link.sent[1][1]["t"], 0)
        with self.assertRaisesRegex(ValueError, "64 is the most"):
            session.report(8, {"m%d" % i: i for i in range(65)})

    def test_the_step_is_seen_in_memory(self):
        folder = tempfile.mkdtemp(prefix="fsdk", dir="/tmp")
        self.addCleanup(shutil.rmtree, folder)
        session = self.session()
        path = os.path.join(folder, "rank-1.at")
        session._at = _session._page(path)
        self.addCleanup(session._at.close)
        session.report(5, {})
        session.report(6, {})
        with open(path, "rb") as file:
            self.assertEqual(struct.unpack("<QQ", file.read(16)), (2, 6))
        self.assertIsNone(_session._page(os.path.join(folder, "none", "x")))

    def test_waiting_for_data_is_reported_once(self):
        session = self.session()
        session.waited = 0.5
        session.report(5, {"samples": 8})
        session.report(6, {"samples": 8})
        self.assertEqual([m["metrics"] for _, m in session.link.sent], [{"samples": 8.0, "data_wait": 0.5}, {"samples": 8.0}])

    def test_orders_are_acted_on(self):
        session = self.session(
            ("watermark", {"step": 9}), ("watermark", {"step": 4}), ("checkpoint", {}), ("stop", {"grace": 30, "reason": "preempted"}), ("of-a-later-version", {}), ("watermark", {"step": "x"})
        )
        session.poll()
        self.assertEqual((session.watermark, session.checkpoints, session.stop), (9, 1, {"grace": 30, "reason": "preempted"}))

    def test_leave_is_obeyed_inside_rejoin_only(self):
        session = self.session(("leave", {"generation": 2}))
        session.poll()
        session.may_leave = True
        with self.assertRaises(_session.Left):
            session.poll()

    def test_a_place_in_the_next_generation_is_taken(self):
        session = self.session(("generation", {"generation": 3, "rank": 0, "world": 2, "master_addr": "h", "master_port": 9, "group_rank": "1", "group_world_size": "2", "restore": 7}))
        before = dict(os.environ)
        try:
            self.assertTrue(session.rejoin(1))
            self.assertEqual((os.environ["RANK"], os.environ["WORLD_SIZE"], os.environ["MASTER_PORT"]), ("0", "2", "9"))
            self.assertEqual((os.environ["GROUP_RANK"], os.environ["GROUP_WORLD_SIZE"]), ("1", "2"))
        finally:
            os.environ.clear()
            os.environ.update(before)
        self.assertEqual(session.link.sent, [("left", {"generation": 2, "why": ""})])
        self.assertEqual((session.generation, session.rank, session.world, session.restore), (3, 0, 2, 7))

    def test_what_a_save_cost_is_told_with_the_next_report(self):
        session = self.session()
        session.stalled = 0.5
        session.report(1, {"loss": 2.0})
        session.report(2, {"loss": 2.0})
        session.stalled = 0.5
        session.report(3, {str(i): 1.0 for i in range(64)})  # no room: the script's own come first
        told = [body["metrics"] for _, body in session.link.sent]
        self.assertEqual([t.get("save_stall") for t in told], [0.5, None, None])
        self.assertEqual(session.stalled, 0.0)

    def test_bad_environments_are_named(self):
        for environ, why in (({"RANK": "x"}, "RANK is 'x'"), ({"RANK": "4", "WORLD_SIZE": "4"}, "RANK is 4 of WORLD_SIZE 4")):
            with self.assertRaisesRegex(ValueError, why):
                _session.Session(environ)


class Alone(unittest.TestCase):
    def test_stop_and_save_are_answered_once(self):
        session = _session.Session({})
        session.link = Fake(("checkpoint", {}))
        agreement = _agree.Agreement(session)
        self.assertEqual([agreement.should_save(s) for s in (1, 2, 3)], [True, False, False])
        session.link.said = [("checkpoint", {}), ("stop", {})]
        self.assertEqual([(agreement.should_save(s), agreement.should_stop(s)) for s in (4, 5)], [(True, True), (False, True)])

    def test_a_save_is_due_at_multiples_of_the_interval(self):
        session = _session.Session({})
        session.restore, session.link = 17, Fake(("interval", {"steps": 10}))
        agreement = _agree.Agreement(session)

        def saves(steps):
            return [s for s in steps if (agreement.should_stop(s), agreement.should_save(s))[1]]

        self.assertEqual(saves(range(18, 51)), [20, 30, 40, 50])
        self.assertEqual(saves(range(53, 90, 3)), [62, 71, 80])  # who asks at few steps saves at the next that it asks at
        session.link.said = [("interval", {"steps": 25})]
        self.assertEqual(saves(range(90, 151)), [100, 125, 150])
        session.link.said = [("interval", {"steps": 0}), ("checkpoint", {})]
        self.assertEqual(saves(range(151, 300)), [151])

    def test_ranks_that_hear_of_an_interval_one_after_the_other_save_the_same_steps(self):
        ranks, _ = self.pair()
        saves = ([], [])
        for step in range(1, 60):
            for rank in (0, 1):
                if step == 10 + 7 * rank:
                    ranks[rank].session.link.said = [("interval", {"steps": 5})]
                if step == 40 - 3 * rank:
                    ranks[rank].session.link.said = [("interval", {"steps": 3})]
                if ranks[rank].should_save(step):
                    saves[rank].append(step)
        self.assertEqual(saves[0], saves[1])
        self.assertEqual(saves[0][:4], [12, 17, 22, 27])
        self.assertGreater(len([s for s in saves[0] if s >= 40]), 5)

    def pair(self):
        class Store(dict):
            def add(self, key, n):
                self[key] = self.get(key, 0) + n
                return self[key]

        ranks = [_agree.Agreement(_session.Session({"RANK": str(rank), "WORLD_SIZE": "2"})) for rank in range(2)]
        store = Store()
        for rank in ranks:
            rank.session.link, rank._store = Fake(), lambda: store
        return ranks, store

    def test_who_knows_the_last_step_needs_no_store_any_more(self):
        ranks, store = self.pair()
        ranks[0].session.link.said = [("stop", {})]
        self.assertEqual([[rank.should_stop(step) for rank in ranks] for step in (1, 2)], [[False, False], [False, False]])
        self.assertTrue(ranks[0].should_stop(3))
        store.add = None  # rank 0 has gone
        self.assertTrue(ranks[1].should_stop(3))

    def test_a_rank_that_is_last_at_the_end_needs_no_store_either(self):
        ranks, store = self.pair()
        self.assertEqual([rank.should_stop(1) for rank in ranks], [False, False])

        def gone(key, n):
            raise RuntimeError("Connection reset by peer")

        store.add = gone  # rank 0 made the last step, and ended
        self.assertEqual((ranks[1].should_stop(2), ranks[1].should_save(2)), (False, False))
        with self.assertRaises(RuntimeError):
            ranks[0].should_stop(2)  # its own

    def test_a_wish_at_the_step_of_a_save_comes_after_it(self):
        """Rank 0 is first at every step; what it hears at the step of a save must not hide that save from rank 1."""
        for word in ("checkpoint", "stop"):
            with self.subTest(word=word):
                ranks, _ = self.pair()
                ranks[0].session.link.said = [("checkpoint", {})]
                saves, stops = ([], []), ([], [])
                for step in range(1, 9):
                    if step == 3:  # the save's
                        for rank in ranks:
                            rank.session.link.said = [(word, {})]
                    for rank in (0, 1):
                        if ranks[rank].should_save(step):
                            saves[rank].append(step)
                        if ranks[rank].should_stop(step):
                            stops[rank].append(step)
                self.assertEqual(saves[0], saves[1])
                self.assertEqual(stops[0], stops[1])
                self.assertEqual(saves[0][0], 3)
                self.assertGreater(len(saves[0]), 1)
                self.assertEqual(bool(stops[0]), word == "stop")

    def run_script(self, text, **environ):
        env = standin.rank_environ(**environ)
        return subprocess.run([sys.executable, "-W", "error", "-c", text], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=standin.LIMIT, text=True)

    def test_without_a_launcher_everything_is_a_no_op(self):
        done = self.run_script(
            """
import fermi
fermi.init()
got = fermi.checkpoint.restore()
sampler = fermi.Sampler(10, 3)
fermi.set_seed(1)
for step, ids in enumerate(fermi.data(sampler), 1):
    fermi.report(step=step, loss=0.5)
    saved = fermi.checkpoint.save(step, {"rng": fermi.rng_state(), "sampler": sampler.state_dict()})
    with fermi.phase("eval"):
        pass
    assert not fermi.should_checkpoint() and not fermi.should_stop()
fermi.close()
print(fermi.rank(), fermi.world_size(), fermi.generation(), got, bool(saved), fermi.rejoin(lambda x: x, 5))
"""
        )
        self.assertEqual((done.returncode, done.stdout), (0, "0 1 0 None False 5\n"))

    def test_one_rank_with_shared_memory_resumes_without_a_launcher(self):
        folder = tempfile.mkdtemp(prefix="fsdk", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, folder)
        text = """
import fermi
fermi.init()
got = fermi.checkpoint.restore()
step = got.step + 1 if got else 1
assert not got or got.state == {"x": [step - 1] * 3}, got
for step in range(step, step + 6):
    fermi.checkpoint.save(step, {"x": [step] * 3})
    fermi.checkpoint.flush()
fermi.checkpoint.save(step + 1, {"x": [step + 1] * 3})
print(step + 1)
"""
        outputs = [self.run_script(text, FERMI_SHM=folder).stdout for _ in range(3)]
        self.assertEqual(outputs, ["7\n", "14\n", "21\n"])

    def test_a_save_that_waits_finds_a_slot(self):
        folder = tempfile.mkdtemp(prefix="fsdk", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, folder)
        text = """
import fermi
fermi.init()
for step in range(1, 20):
    assert fermi.checkpoint.save(step, {"x": bytes(1 << 20)}, wait=True), step
assert fermi.checkpoint.save(19, {}, wait="shared")  # held already
try:
    fermi.checkpoint.save(20, {}, wait="moon")
except ValueError as err:
    print(err)
"""
        done = self.run_script(text, FERMI_SHM=folder)
        self.assertEqual((done.returncode, done.stdout), (0, "wait is 'moon'; True, 'local' and 'shared' are known\n"))

    def test_random_states_come_back(self):
        import random

        from fermi import rng_state, set_rng_state, set_seed
        from tests.test_tree import through

        set_seed(1, 2, 3)
        state = through(rng_state())
        numbers = [random.random() for _ in range(5)] + [random.gauss(0, 1)]
        set_rng_state(state)
        self.assertEqual([random.random() for _ in range(5)] + [random.gauss(0, 1)], numbers)
        self.assertNotEqual(set_seed(1, 2, 3), set_seed(1, 2, 4))


class AgainstALauncher(unittest.TestCase):
    SCRIPT = """
import os, sys, time, fermi
fermi.init()

def meet(step):
    # As a collective does: nobody goes on before everybody came.
    path = "meet-%d-%d" % (fermi.generation(), step)
    with open(path, "ab") as file:
        file.write(b".")
    while os.path.getsize(path) < fermi.world_size():
        time.sleep(0.0001)

got = fermi.checkpoint.restore()
step = got.step if got else 0
assert not got or got.state["rank"] == fermi.rank() and got.state["step"] == step
while True:
    step += 1
    meet(step)
    fermi.checkpoint.save(step, {"rank": fermi.rank(), "step": step, "bytes": bytes([step % 256]) * 1000})
    fermi.report(step=step)
"""

    def test_the_last_save_is_whole_and_told_when_a_rank_ends(self):
        text = "import fermi\nfermi.init()\nassert fermi.checkpoint.save(1, {'x': bytes(20 << 20)})\n"
        launcher = standin.Launcher(["-c", text], 1)
        self.addCleanup(launcher.close)
        launcher.start()
        told = []
        while launcher.pids or launcher.peers:
            told += [name for _, name, _ in launcher.turn()]
        self.assertEqual(launcher.codes, {0: 0}, launcher.output())
        self.assertIn("saved", told)

    def test_a_rank_of_another_generation_is_told_so(self):
        launcher = standin.Launcher(["-c", "import fermi\nfermi.init()\n"], 1)
        self.addCleanup(launcher.close)
        launcher._welcome = lambda: launcher.peers[0].sock.shutdown(2)
        launcher.start()
        launcher.until(lambda rank, name, body: name == "exit")
        self.assertEqual(launcher.codes, {0: 1})
        self.assertIn("hung up: is it of generation 1?", launcher.output())

    def test_ranks_killed_at_any_moment_restore_the_newest_common_step(self):
        import random

        rng = random.Random(6)
        launcher = standin.Launcher(["-c", self.SCRIPT], 3)
        self.addCleanup(launcher.close)
        for _ in range(8):
            launcher.start()
            target = rng.randrange(1, 40)
            launcher.until(lambda rank, name, body: name == "saved" and len(launcher.saved.get(1, ())) >= target or name == "exit")
            self.assertEqual(launcher.codes, {}, launcher.output())
            whole = launcher.watermark
            launcher.kill()
            launcher.codes.clear()
        self.assertEqual(launcher.restores[0], None)
        self.assertEqual(launcher.restores, sorted(launcher.restores, key=lambda s: s or 0))
        launcher.start()
        last = launcher.restores[-1] or 0
        launcher.until(lambda rank, name, body: name == "progress" and launcher.restores and launcher.watermark and launcher.watermark > last + 50)
        self.assertGreaterEqual(launcher.restores[-1], whole or 0)
        self.assertEqual(launcher.codes, {}, launcher.output())


if __name__ == "__main__":
    unittest.main()
