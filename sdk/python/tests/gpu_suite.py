"""make e2e-gpu: what the SDK promises, on a CUDA card. For machines that have one; results go to bench/RESULTS.md."""

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

import torch

from fermi import _selftest, _session, checkpoint
from tests import standin
from tests.torch_suite import KILLS, SEED, Ranks, restart

GIB = 1 << 30


def leaves(node):
    """The tensors of a state, in its order."""
    if isinstance(node, torch.Tensor):
        return [node]
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, (list, tuple)) else []
    return [leaf for value in inner for leaf in leaves(value)]


class SelfTest(unittest.TestCase):
    def said(self, device, count):
        """What the preflight's self-test says, by the very text that a launcher hands to an interpreter, and how long it took."""
        with open(_selftest.__file__) as file:
            text = file.read()
        begin = time.perf_counter()
        run = subprocess.run([sys.executable, "-c", text, device, str(count)], stdout=subprocess.PIPE, check=True, text=True)
        print("self-test of %d devices in a fresh interpreter: %.2f s" % (count, time.perf_counter() - begin))
        return [json.loads(line) for line in run.stdout.splitlines()]

    def test_every_card_computes_right(self):
        count = torch.cuda.device_count()
        said = self.said("cuda", count)
        self.assertEqual(sorted(word["begin"] for word in said if "begin" in word), list(range(count)), said)
        self.assertEqual([word for word in said if word.get("fault")], [])
        self.assertEqual(sorted(word["end"] for word in said if "end" in word), list(range(count)), said)

    def test_the_work_itself(self):
        """By the driver and by PyTorch; prints how long each takes without imports and context."""
        torch.ones(1, device="cuda").item()
        driver = _selftest.Driver()
        for name, work in (("the driver", driver.work), ("PyTorch", lambda index: _selftest.work(torch, "cuda", index))):
            begin = time.perf_counter()
            work(0)
            print("self-test of one device by %s, its context made: %.2f s" % (name, time.perf_counter() - begin))

    def test_other_numbers_are_noticed(self):
        """The same by a driver that expects others: it compares what the card computed."""
        for name, fault in (("tile", "wrong"), ("back", "wrong")):
            driver = _selftest.Driver()
            was = getattr(driver, name)
            setattr(driver, name, lambda *args: bytes([was(*args)[0] ^ 1]) + was(*args)[1:])
            with self.assertRaises(_selftest.Fault) as caught:
                driver.work(0)
            self.assertEqual(caught.exception.args[0], fault)

    def test_a_missing_card_is_noticed(self):
        self.assertEqual(self.said("cuda", 99), [{"seen": torch.cuda.device_count()}])

    def test_a_full_card_is_told_from_a_broken_one(self):
        free, _ = torch.cuda.mem_get_info()
        held = torch.empty(free - (512 << 20), dtype=torch.uint8, device="cuda")
        try:
            said = [word for word in self.said("cuda", 1) if "end" in word]
        finally:
            del held
            torch.cuda.empty_cache()
        self.assertEqual([word["fault"] for word in said], ["full"], said)


class Exact(Ranks):
    def test_killed_runs_end_with_the_bits_of_the_uninterrupted_one(self):
        env = {"STEPS": str(40 + 8 * KILLS), "DEVICE": "cuda", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
        rng = random.Random(SEED)
        whole = self.run_one(0, rng, env)
        self.assertEqual(self.run_one(KILLS, rng, env), whole)

    def run_one(self, kills, rng, env):
        launcher = self.launcher(["train_ddp.py"], 1, OUT=os.path.join(self.folder, "out"), **env)
        launcher.start()
        for _ in range(kills):
            after = rng.randrange(5)
            launcher.until(lambda rank, name, body: self.moment(launcher, name, body, after))
            restart(launcher, 0, rng)
        launcher.finish()
        print("restored from %s" % launcher.restores)
        return self.digests(launcher)

    def test_a_forked_rank_makes_its_own_context(self):
        """Prints the time to the first result of a card, forked from a standby and in a fresh interpreter."""
        script = os.path.join(self.folder, "first.py")
        with open(script, "w") as file:
            file.write("import torch, fermi\nprint(torch.ones(3, device='cuda').sum().item(), flush=True)\n")
        forked, fresh = [], []
        for _ in range(5):
            read, write = os.pipe()
            begin = time.perf_counter()
            name, body = self.standby.fork([sys.executable, script], standin.rank_environ(), self.folder, write, write)
            os.close(write)
            with open(read) as pipe:
                self.assertEqual(pipe.readline(), "3.0\n", body)
            forked.append(time.perf_counter() - begin)
            self.assertEqual(os.waitpid(body["pids"][0], 0)[1], 0)
            begin = time.perf_counter()
            out = subprocess.run([sys.executable, script], env=standin.rank_environ(), stdout=subprocess.PIPE, check=True)
            fresh.append(time.perf_counter() - begin)
            self.assertEqual(out.stdout, b"3.0\n")
        print("to the first result on the card: forked %.2f s, fresh %.2f s (medians of 5)" % (statistics.median(forked), statistics.median(fresh)))


class Saves(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="fsdk", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, self.folder)

    def test_tensors_of_the_card_come_back(self):
        torch.manual_seed(1)
        kinds = [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool]
        state = {"t%d" % i: (torch.randn(300, 7, device="cuda") * 9).to(k) for i, k in enumerate(kinds)}
        state["view"] = torch.randn(64, 64, device="cuda")[:, ::2]
        state["host"] = torch.randn(100)
        memory = checkpoint.L0(self.folder, _session.Session({}))
        for step in (1, 2):
            state["t0"].add_(1)
            self.assertTrue(memory.save(step, state))
        memory.flush()
        memory._session.restore = 2
        back = memory.restore().state
        for name, value in state.items():
            self.assertTrue(torch.equal(back[name], value.cpu()), name)
        memory.close()

    def test_a_save_beside_training_is_of_its_moment(self):
        """The state that overlaps the next step is the one before it, though all of it changes meanwhile."""
        torch.manual_seed(2)
        model = torch.nn.Sequential(torch.nn.Linear(2048, 4096), torch.nn.BatchNorm1d(4096), torch.nn.Linear(4096, 2048)).cuda()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        batch = torch.randn(512, 2048, device="cuda")
        memory = checkpoint.L0(self.folder, _session.Session({}))
        for step in range(1, 21):
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "odd": batch[:, ::2], "none": batch[:0]}
            want = [v.clone() for v in leaves(state)]
            torch.cuda.synchronize()
            self.assertTrue(memory.save(step, state, overlap=optimizer))
            for _ in range(3):  # all of it changes at once, and again
                optimizer.zero_grad()
                model(batch).square().mean().backward()
                optimizer.step()
            batch.add_(1)
            memory.flush()
            memory._session.restore = step
            got = leaves(memory.restore().state)
            self.assertEqual(len(got), len(want))
            self.assertTrue(all(torch.equal(g, w.cpu()) for g, w in zip(got, want)), step)
        memory.close()

    def test_the_stall_of_a_save_beside_training(self):
        """Prints how much longer a step is in which the copy of 2 GiB goes on, beside that copy alone."""
        weights = [torch.nn.Parameter(torch.randn(64 << 20, device="cuda")) for _ in range(8)]
        optimizer = torch.optim.SGD(weights, lr=1e-6)
        for w in weights:
            w.grad = torch.randn_like(w)
        left, right = torch.randn(8192, 8192, device="cuda"), torch.randn(8192, 8192, device="cuda")
        memory = checkpoint.L0(self.folder, _session.Session({}))

        def step(number, overlap):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            if number:
                saved = memory.save(number, {str(i): w for i, w in enumerate(weights)}, overlap)
                self.assertTrue(saved, saved.why)
            for _ in range(8):
                torch.mm(left, right)
            optimizer.step()
            torch.cuda.synchronize()
            seconds = time.perf_counter() - begin
            memory.flush()
            return seconds

        for i in (1, 2, 3):  # the slots are made
            step(i, optimizer)
        number, plain, beside, stopped = 4, [], [], []
        for _ in range(15):
            plain.append(step(0, None))
            beside.append(step(number, optimizer))
            stopped.append(step(number + 1, None))
            number += 2
        memory.close()
        m = statistics.median
        copy, seen = m(stopped) - m(plain), m(beside) - m(plain)
        print(
            "2 GiB beside a step of %.1f ms: %.1f ms longer (medians of 15, %.1f to %.1f), a save that waits %.1f ms, ratio %.2f"
            % (m(plain) * 1e3, seen * 1e3, (min(beside) - m(plain)) * 1e3, (max(beside) - m(plain)) * 1e3, copy * 1e3, seen / copy)
        )

    def first_of(self, state, restore):
        """The stall of the first save of a new process, some time after its start."""
        session = _session.Session({})
        memory = checkpoint.L0(self.folder, session)
        memory.held()
        session.restore = session.watermark = restore
        memory.restore(state)
        memory._rest()
        self.assertTrue(all(s.ready(0, 0, torch) for s in memory._slots))
        torch.cuda.synchronize()
        saved = memory.save(13, state)
        self.assertTrue(saved, saved.why)
        memory.close()
        return saved.stall

    def test_the_stall_of_a_save(self):
        """Prints the stall of 2 GiB beside a copy into pinned memory, PyTorch's own asynchronous save and torch.save."""
        import torch.distributed.checkpoint as dcp

        state = {"w%d" % i: torch.randn(64 << 20, device="cuda") for i in range(8)}
        pinned = torch.empty(8 * (64 << 20), pin_memory=True)
        memory = checkpoint.L0(self.folder, _session.Session({}))
        disk = tempfile.mkdtemp(prefix="fsdk", dir="/tmp")
        self.addCleanup(shutil.rmtree, disk)
        ours, copies, theirs, plain = [], [], [], []
        for step in range(1, 13):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for i, w in enumerate(state.values()):
                pinned[i * (64 << 20) : (i + 1) * (64 << 20)].copy_(w, non_blocking=True)
            torch.cuda.synchronize()
            copies.append(time.perf_counter() - begin)
            saved = memory.save(step, state)
            self.assertTrue(saved, saved.why)
            ours.append(saved.stall)
            memory.flush()
            if step <= 3:
                begin = time.perf_counter()
                future = dcp.async_save(state, checkpoint_id=os.path.join(disk, str(step)))
                theirs.append(time.perf_counter() - begin)
                future.result()
                begin = time.perf_counter()
                torch.save(state, os.path.join(disk, "plain"))
                plain.append(time.perf_counter() - begin)
                shutil.rmtree(os.path.join(disk, str(step)))
        memory._session.restore = 12
        begin = time.perf_counter()
        back = memory.restore().state
        restore = time.perf_counter() - begin
        self.assertTrue(all(torch.equal(back[k], v.cpu()) for k, v in state.items()))
        memory.close()
        again = self.first_of(state, restore=12)
        shutil.rmtree(self.folder)
        os.mkdir(self.folder)
        shown = self.first_of(state, restore=None)
        print("2 GiB: the first save after a restart %.1f ms, after a start that was shown the state %.1f ms" % (again * 1e3, shown * 1e3))
        m = statistics.median
        print(
            "2 GiB: first save %.2f s, then %.1f ms (median of 11), pinned copy %.1f ms, ratio %.2f; DCP async_save %.2f s, torch.save %.2f s (medians of 3); restore %.2f s"
            % (ours[0], m(ours[1:]) * 1e3, m(copies[1:]) * 1e3, m(ours[1:]) / m(copies[1:]), m(theirs), m(plain), restore)
        )
