"""make e2e-torch: the SDK with real PyTorch, gloo, ranks as processes of this machine. Not named test_*: it needs torch.

FERMI_KILLS (20) and FERMI_SEED (1) choose the kills of the bit-exactness test."""

import ast
import ctypes
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest
import unittest.mock

import torch

import fermi
from fermi import _selftest, _session, _slots, _together, _tree, checkpoint
from tests import standin
from tests.test_tree import through

HERE = os.path.dirname(os.path.abspath(__file__))
KILLS = int(os.environ.get("FERMI_KILLS", "20"))
PATIENCE = 5.0  # seconds until a rank that does not leave is given up
SEED = int(os.environ.get("FERMI_SEED", "1"))


class Scaler:
    """Stands in for torch's GradScaler where there is no card: it halves its scale when a gradient is not finite."""

    def __init__(self, *_, enabled=True):
        self.value, self.good, self.enabled = 1024.0, True, enabled

    def is_enabled(self):
        return self.enabled

    def get_scale(self):
        return self.value

    def scale(self, loss):
        return loss * self.value

    def step(self, optimizer):
        gradients = [w.grad for group in optimizer.param_groups for w in group["params"]]
        self.good = all(bool(g.isfinite().all()) for g in gradients)
        if self.good:
            for g in gradients:
                g.div_(self.value)
            optimizer.step()

    def update(self):
        self.value /= 1 if self.good else 2

    def state_dict(self):
        return {"scale": self.value}

    def load_state_dict(self, state):
        self.value = state["scale"]


class SelfTest(unittest.TestCase):
    def said(self, patch=""):
        """What a self-test of the processors says, by the very text that a launcher hands to an interpreter."""
        with open(_selftest.__file__) as file:
            text = file.read()
        run = subprocess.run([sys.executable, "-c", patch + text, "cpu", "1"], stdout=subprocess.PIPE, check=True, text=True)
        return [json.loads(line) for line in run.stdout.splitlines()]

    def test_a_right_result(self):
        self.assertEqual(self.said(), [{"begin": 0}, {"end": 0, "fault": "", "text": ""}])

    def test_faults_are_told_apart(self):
        for fault, patch in (
            ("wrong", "import torch; mul = torch.Tensor.__matmul__; torch.Tensor.__matmul__ = lambda a, b: mul(a, b).index_fill_(0, torch.tensor([7]), 1)\n"),
            ("memory", "import torch; xor = torch.Tensor.__xor__; torch.Tensor.__xor__ = lambda a, b: xor(a, b).index_fill_(0, torch.tensor([7]), 1)\n"),
            ("copy", "import torch; cpu = torch.Tensor.cpu; torch.Tensor.cpu = lambda a: cpu(a) if a.is_floating_point() else cpu(a) + 1\n"),
            ("full", "import torch\ndef full(*a, **k): raise RuntimeError('CUDA out of memory')\ntorch.arange = full\n"),
            ("failed", "import torch\ndef bad(*a, **k): raise RuntimeError('no kernel')\ntorch.arange = bad\n"),
        ):
            begin, end = self.said(patch)
            self.assertEqual((begin, end["fault"]), ({"begin": 0}, fault), end)
            self.assertIn(fault, _selftest.FAULTS)


class Ranks(unittest.TestCase):
    """Ranks come from one fork server: what the launcher does, and quicker than interpreters."""

    @classmethod
    def setUpClass(cls):
        standin.become_subreaper()
        cls.folder = tempfile.mkdtemp(prefix="fsdk", dir="/tmp")
        cls.standby = standin.Standby(standin.rank_environ(), "torch")

    @classmethod
    def tearDownClass(cls):
        cls.standby.close()
        shutil.rmtree(cls.folder)

    def launcher(self, script, world=4, **env):
        launcher = standin.Launcher([os.path.join(HERE, script[0])] + script[1:], world, env, self.standby)
        self.addCleanup(launcher.close)
        return launcher

    def digests(self, launcher):
        found = []
        for rank in range(launcher.world):
            with open("%s.%d" % (launcher.env["OUT"], rank)) as file:
                found.append(file.read())
        return found

    def run_killed(self, kills, rng, kill, **env):
        """Runs the DDP script to its end with ranks killed at random moments; returns the digests of all ranks."""
        launcher = self.launcher(["train_ddp.py"], OUT=os.path.join(self.folder, "out"), **env)
        launcher.start()
        for _ in range(kills):
            after = rng.randrange(5)
            launcher.until(lambda rank, name, body: self.moment(launcher, name, body, after))
            kill(launcher, rng.randrange(launcher.world), rng)
        launcher.finish()
        print("restored from %s" % launcher.restores)
        return self.digests(launcher)

    def moment(self, launcher, name, body, after):
        """Whether a rank is so many steps into its generation; a rank that ended by itself is an error."""
        if name == "exit":
            raise AssertionError("a rank ended with %d:\n%s" % (body["code"], launcher.story()))
        return name == "progress" and body["step"] > (launcher.restores[-1] or 0) + after


class Waiting(Ranks):
    def test_the_slow_rank_does_not_wait(self):
        launcher = self.launcher(["train_waits.py"], world=2)
        launcher.start()
        waited = {0: [], 1: []}

        def enough(rank, name, body):
            if name == "exit":
                raise AssertionError("a rank ended with %d:\n%s" % (body["code"], launcher.story()))
            if name == "progress" and "peer_wait" in body["metrics"]:
                waited[rank].append(body["metrics"]["peer_wait"])
            return min(len(w) for w in waited.values()) >= 11

        launcher.until(enough)
        quick, slow = (sorted(w)[len(w) // 2] for w in (waited[0], waited[1]))
        self.assertLess(slow, quick)
        launcher.kill()


def restart(launcher, victim, rng):
    """A rank dies at some moment of its step; the others are killed, and all start again."""
    time.sleep(rng.random() * 0.02)  # where in the step, nothing waits for it
    launcher.kill([victim])
    launcher.kill()
    launcher.start()


def restart_from_a_save(launcher, victim, rng):
    """As restart, once a step of this generation is whole everywhere: what starts anew has nothing to differ in."""
    launcher.until(lambda *_: launcher.watermark is not None and launcher.watermark > (launcher.restores[-1] or 0) + 2)
    restart(launcher, victim, rng)


class Exact(Ranks):
    def test_killed_runs_end_with_the_bits_of_the_uninterrupted_one(self):
        rng = random.Random(SEED)
        steps = str(40 + 8 * KILLS)
        whole = self.run_killed(0, rng, restart, STEPS=steps)
        self.assertEqual(self.run_killed(KILLS, rng, restart, STEPS=steps), whole)

    def test_without_the_sdk_in_ddp_the_bits_differ(self):
        """What the test above would see if its check, or the work of the SDK, were empty."""
        rng = random.Random(SEED)
        whole = self.run_killed(0, rng, restart, STEPS="40", PLAIN="1")
        self.assertNotEqual(self.run_killed(1, rng, restart_from_a_save, STEPS="40", PLAIN="1"), whole)

    def test_ranks_that_stay_in_their_process_do_too(self):
        rng = random.Random(SEED)
        whole = self.run_killed(0, rng, rejoin, STEPS="60", PARTIAL="1")
        self.assertEqual(self.run_killed(5, rng, rejoin, STEPS="60", PARTIAL="1"), whole)


def rejoin(launcher, victim, rng):
    """Only the victim is a new process; the others leave their generation and join the next in place. gloo can leave one waiting
    for a rank that has left: as launchers do, who does not leave is killed too."""
    stay, dead = dict(launcher.pids), {victim}
    del stay[victim]
    events, left = launcher.kill([victim]), set()
    while True:
        for rank, name, body in events:
            if name == "left" and body["generation"] == launcher.generation:
                left.add(rank)
            elif name == "exit":
                raise AssertionError("rank %d ended:\n%s" % (rank, launcher.story()))
        if left == set(stay):
            break
        events = launcher.turn(PATIENCE)
        if not events:
            late = set(stay) - left
            stay, dead, events = {r: stay[r] for r in left}, dead | late, launcher.kill(late)
    held = {r: launcher.saved.get(r, set()) | launcher.held.get(r, set()) for r in stay}
    launcher.open_generation()
    launcher.held.update(held)
    for rank in dead:
        launcher.spawn(rank)
    launcher.until(lambda rank, name, body: name == "held" and set(launcher.held) == set(range(launcher.world)))  # the stand-in welcomed all by now
    restore = launcher.restores[-1]
    for rank in stay:
        place = {"generation": launcher.generation, "rank": rank, "world": launcher.world, "restore": restore}
        launcher.peers[rank].send("generation", dict(place, master_addr="127.0.0.1", master_port=launcher.port.getsockname()[1]))
    if {r: launcher.pids.get(r) for r in stay} != stay:
        raise AssertionError("a rank that should have stayed is another process")


class Modes(Ranks):
    def outputs(self, launcher):
        launcher.start()
        launcher.finish()
        return [line for line in launcher.output().splitlines() if not line.startswith("[W")]  # newer PyTorch warns

    def test_virtual_ranks_give_the_same_bits_with_4_2_3_and_4_ranks(self):
        def run(name, *parts):
            for steps, world in parts:
                lines = self.outputs(self.launcher(["torch_ranks.py", "virtual"], world, STEPS=str(steps), FILE=os.path.join(self.folder, name)))
                self.assertEqual(len(lines), world)
                self.assertEqual(len(set(lines)), 1, lines)
            return lines[0]

        whole = run("one", (24, 4))
        self.assertEqual(run("changing", (6, 4), (12, 2), (18, 3), (24, 4)), whole)
        self.assertEqual(run("alone", (24, 1)), whole)

    def test_a_newcomer_takes_the_state_of_a_peer(self):
        lines = self.outputs(self.launcher(["torch_ranks.py", "handover"], 3))
        whole = [line for line in lines if line.endswith(" 4 True")]
        self.assertEqual((len(whole), len(set(whole))), (3, 1), lines)

    def test_the_cost_of_virtual_ranks(self):
        for world in (2, 4):
            (line,) = self.outputs(self.launcher(["torch_ranks.py", "cost"], world))
            self.assertRegex(line, "DDP .* ms, virtual ranks .* ms")
            print(line)

    def test_a_forked_rank_begins_at_once(self):
        """Prints the time from the request to the first line of a program that imports torch."""
        script = os.path.join(self.folder, "first.py")
        with open(script, "w") as file:
            file.write("import torch, fermi\nprint(torch.ones(3).sum().item(), flush=True)\n")
        times = []
        for _ in range(10):
            read, write = os.pipe()
            begin = time.perf_counter()
            name, body = self.standby.fork([sys.executable, script], standin.rank_environ(), self.folder, write, write)
            os.close(write)
            with open(read) as pipe:
                self.assertEqual(pipe.readline(), "3.0\n", body)
                times.append(time.perf_counter() - begin)
            self.assertEqual(os.waitpid(body["pids"][0], 0)[1], 0)
        print("fork to first line with torch: %.0f ms (median of 10)" % (sorted(times)[5] * 1e3))

    def test_gradients_are_compressed_on_an_unchanged_script(self):
        def run(name, *options, **env):
            script = [os.path.join(HERE, "torch_ranks.py"), "compression"]
            standby = self.standby if name != "fp16" else None  # there torch is imported after the SDK
            launcher = standin.Launcher(["-m", "fermi.run", *options] + script, 2, dict(env, FERMI_GRAD_COMPRESSION=name), standby)
            self.addCleanup(launcher.close)
            lines = self.outputs(launcher)
            self.assertEqual(lines[0], lines[1])
            return torch.tensor(ast.literal_eval(lines[0]))

        exact = run("none")
        self.assertTrue(torch.equal(run("fp16", OWN_HOOK="1"), exact))  # the script's own hook stays
        for name, near in (("fp16", 1e-3), ("bf16", 1e-2), ("powersgd", 1.0)):
            with self.subTest(compression=name):
                got = run(name)
                self.assertFalse(torch.equal(got, exact))
                self.assertLess(((got - exact).norm() / exact.norm()).item(), near)
                if name != "powersgd":  # whose sums begin with the pass for nothing
                    self.assertTrue(torch.equal(run(name, "--as-told"), got))

    def test_the_time_out_of_collectives_is_the_tasks_unless_the_script_names_one(self):
        for how, standby in ((["-m", "fermi.run", "--as-told"], self.standby), (["-m", "fermi.run"], None), ([], None)):
            for own in ("", "77"):
                with self.subTest(how=how, own=own):
                    env = {"FERMI_COLLECTIVE_TIMEOUT": "123", "OWN_TIMEOUT": own}
                    launcher = standin.Launcher(how + [os.path.join(HERE, "torch_ranks.py"), "timeouts"], 2, env, standby)
                    self.addCleanup(launcher.close)
                    told = "123" if how else "1800"
                    self.assertEqual(self.outputs(launcher), ["%s %s 999" % (own or told, told)] * 2)

    def test_all_ranks_save_and_stop_at_the_same_steps(self):
        launcher = self.launcher(["torch_ranks.py", "agreement"])
        launcher.start()
        launcher.until(lambda rank, name, body: name == "progress" and body["step"] > 5)
        launcher.peers[2].send("checkpoint", {})  # only one hears of it
        launcher.until(lambda rank, name, body: name == "progress" and body["step"] > 40)
        launcher.tell("checkpoint", {})
        launcher.until(lambda rank, name, body: name == "progress" and body["step"] > 80)
        launcher.tell("stop", {"grace": 30, "reason": "preempted"})
        launcher.finish()
        lines = [line for line in launcher.output().splitlines() if line.startswith("at ")]
        self.assertEqual((len(lines), len(set(lines))), (4, 1), lines)
        stop, saves = re.fullmatch(r"at (\d+) (\[.*\])", lines[0]).groups()
        saves = ast.literal_eval(saves)
        self.assertGreaterEqual(len(saves), 3)
        self.assertEqual(saves[-1], int(stop))  # whoever is stopped saves first


class Tensors(unittest.TestCase):
    def test_tensors_come_back_with_their_bits_and_layout(self):
        torch.manual_seed(1)
        kinds = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.uint8, torch.bool, torch.complex64]
        image = torch.randn(2, 3, 4, 5)
        values = [(torch.randn(3, 4) * 10).to(k) for k in kinds] + [
            image.contiguous(memory_format=torch.channels_last),
            image.permute(2, 0, 3, 1),
            image[:, :, ::2],
            torch.randn(1).expand(7),
            torch.empty(0, 3),
            torch.tensor(5.0),
            torch.nn.Parameter(torch.randn(3)),
            torch.tensor([float("nan"), float("inf"), -0.0]),
            torch.randn(3, dtype=torch.complex64).conj().imag,  # negative only when it is read
        ]
        self.assertTrue(values[-1].is_neg())
        for value in values:
            back = through({"x": value})["x"]
            self.assertEqual((back.dtype, back.shape), (value.dtype, value.shape))
            same = value.detach().contiguous().view(-1).view(torch.uint8) if value.numel() else value
            self.assertTrue(torch.equal(back.contiguous().view(-1).view(torch.uint8) if value.numel() else back, same))
            if value.is_contiguous(memory_format=torch.channels_last) and value.dim() == 4:
                self.assertEqual(back.stride(), value.stride())

    def test_tied_weights_stay_tied_and_are_stored_once(self):
        from fermi import _tree

        w = torch.randn(100)
        back = through({"a": w, "b": w, "c": w.clone()})
        self.assertIs(back["a"], back["b"])
        self.assertIsNot(back["a"], back["c"])
        self.assertLess(_tree.Plan({"a": w, "b": w}).length, 900)
        for odd in (torch.randn(3, 3).to_sparse(), torch.empty(3, device="meta")):
            with self.assertRaisesRegex(TypeError, "only dense tensors"):
                _tree.Plan({"x": odd})

    def test_parts_of_larger_tensors_say_where_they_lie(self):
        whole = torch.arange(24.0).reshape(6, 4)
        turned = checkpoint.shard(whole[2:4].t().contiguous().t(), (6, 4), (2, 0))
        self.assertTrue(torch.equal(through(turned).tensor, whole[2:4]))
        mine = checkpoint.shard(whole[2:4], (6, 4), (2, 0))
        back = through({"w": mine, "again": mine})
        self.assertEqual((back["w"].global_shape, back["w"].offsets, back["w"].split), ((6, 4), (2, 0), 0))
        self.assertTrue(torch.equal(back["w"].tensor, whole[2:4]))
        self.assertIs(back["again"], back["w"])
        tree = json.loads(_tree.Plan(mine).encoded())
        self.assertEqual(tree, {"h": ["float32", [2, 4], [6, 4], [2, 0], 0, 0, 32]})
        self.assertEqual(checkpoint.shard(whole[:, 1:2], (6, 4), (0, 1)).split, 1)
        self.assertEqual(tuple(through(checkpoint.shard(whole[6:], (6, 4), (6, 0))).tensor.shape), (0, 4))
        for bad in (((6, 4), (5, 0)), ((6,), (0,)), ((6, 4), (-1, 0)), ((9, 9), (0, 0))):
            with self.assertRaises(ValueError, msg=bad):
                checkpoint.shard(whole[:2], *bad)
        with self.assertRaisesRegex(TypeError, r"state\['a'\]: .* quint8|state\['a'\]: only dense"):
            _tree.Plan({"a": checkpoint.shard(torch.quantize_per_tensor(whole, 1.0, 0, torch.quint8), (6, 4), (0, 0))})

    def test_restoring_into_a_model_fills_it_or_says_where_it_differs(self):
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
        state = {"model": model.state_dict(), "part": checkpoint.shard(torch.ones(2, 3), (4, 3), (2, 0)), "step": 7, "list": [torch.zeros(2)]}
        plan = _tree.Plan(state)
        data = bytearray(plan.length)
        plan.copy(memoryview(data))
        other = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
        part = checkpoint.shard(torch.zeros(2, 3), (4, 3), (2, 0))
        into = {"model": other.state_dict(), "part": part, "list": [torch.ones(2)]}
        back = _tree.decode(plan.encoded(), memoryview(data), into)
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters())))
        self.assertIs(back["part"], part)
        self.assertTrue(torch.equal(part.tensor, torch.ones(2, 3)))
        self.assertEqual(back["step"], 7)
        self.assertEqual(back["model"]["0.weight"].data_ptr(), other[0].weight.data_ptr())

        laid_out_otherwise = {"list": [torch.ones(4)[::2]], "model": {"0.weight": torch.zeros(3, 4).t()}}
        _tree.decode(plan.encoded(), memoryview(data), laid_out_otherwise)
        self.assertTrue(torch.equal(laid_out_otherwise["list"][0], torch.zeros(2)))
        self.assertTrue(torch.equal(laid_out_otherwise["model"]["0.weight"], model[0].weight))

        apart = _tree.Plan({"flat": torch.zeros(9 << 20), "first": torch.ones(8 << 20)})
        saved = bytearray(apart.length)
        apart.copy(memoryview(saved))
        flat = torch.full((9 << 20,), 5.0)
        _tree.decode(apart.encoded(), memoryview(saved), {"flat": flat, "first": flat[: 8 << 20]})  # the last one wins, everywhere
        self.assertEqual((int(flat[: 8 << 20].min()), int(flat[8 << 20 :].max())), (1, 0))

        wide = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Linear(5, 2).double(), *[torch.nn.Linear(1, 1) for _ in range(9)])
        before = [p.clone() for p in wide.parameters()]
        with self.assertRaises(checkpoint.Mismatch) as caught:
            _tree.decode(plan.encoded(), memoryview(data), {"model": wide.state_dict(), "step": torch.ones(1), "part": checkpoint.shard(torch.zeros(2, 3), (4, 3), (0, 0))})
        text = str(caught.exception)
        for line in (
            "state['model']['0.weight']: float32 [4, 3] is saved, the model has float32 [5, 3]",
            "state['model']['1.bias']: float32 [2] is saved, the model has float64 [2]",
            "state['model']['2.weight']: nothing is saved, the model has float32 [1, 1]",
            "and 14 more",
        ):
            self.assertIn(line, text)
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(before, wide.parameters())))

    def test_killed_while_threads_copy_leaves_no_wrong_slot(self):
        """However many pieces were copied, by whichever thread, the slot is empty; a save that came to its end is whole."""
        folder = tempfile.mkdtemp(prefix="fsdk", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, folder)
        count = 6
        states = [{"w": torch.full((count * _together.PIECE // 4,), float(step)), "step": step} for step in (1, 2)]
        for fatal in list(range(count + 1)) * 4:
            slot = _slots.Slot(os.path.join(folder, "slot"))
            _commit(slot, states[0])
            pid = os.fork()
            if pid == 0:
                try:
                    _together._threads = lambda: 3
                    _together.ctypes = types.SimpleNamespace(memmove=_die_at(fatal))
                    _commit(slot, states[1])
                    os.kill(os.getpid(), signal.SIGKILL)
                finally:
                    os._exit(1)
            self.assertEqual(os.waitpid(pid, 0)[1], signal.SIGKILL)
            header = slot.verify()
            self.assertEqual(header and header.step, 2 if fatal == count else None)
            if header:
                tree, data = slot.read()
                with data:
                    self.assertTrue(torch.equal(_tree.decode(tree, data)["w"], states[1]["w"]))
            slot.close()

    def test_random_states_of_torch_and_numpy_come_back(self):
        import numpy

        fermi.set_seed(3)
        state = through(fermi.rng_state())
        first = torch.randn(5).tolist() + numpy.random.randn(5).tolist()
        fermi.set_rng_state(state)
        self.assertEqual(torch.randn(5).tolist() + numpy.random.randn(5).tolist(), first)

    def test_precision_as_the_task_says(self):
        model = torch.nn.Linear(8, 8)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for name, dtype in (("bf16", torch.bfloat16), ("fp32", torch.float32), ("fp16", torch.float32)):
            p = fermi.precision(name, "cpu")
            with p.autocast():
                out = model(torch.randn(2, 8))
            self.assertEqual(out.dtype, dtype)
            before = model.weight.detach().clone()
            p.backward(out.float().sum())
            self.assertTrue(p.step(optimizer))
            self.assertFalse(torch.equal(before, model.weight))
            fermi.precision(name, "cpu").load_state_dict(through(p.state_dict()))
        with self.assertRaisesRegex(ValueError, "none of fp32, fp16, bf16"):
            fermi.precision("fp8")

    def test_the_loss_scale_goes_through_a_checkpoint(self):
        """With a stand-in for the scaler: torch's own needs CUDA."""
        with unittest.mock.patch("torch.cuda.amp.GradScaler", Scaler), unittest.mock.patch.object(torch.amp, "GradScaler", Scaler, create=True):
            p, other = fermi.precision("fp16", "cuda"), fermi.precision("fp16", "cuda")
        gauges = _session.current().gauges
        self.addCleanup(lambda: [gauges.pop(name) for name in ("loss_scale", "skipped_steps")])
        weight = torch.nn.Parameter(torch.ones(2))
        optimizer = torch.optim.SGD([weight], 0.5)
        for factor, stepped in ((1.0, True), (float("inf"), False), (1.0, True)):
            optimizer.zero_grad()
            p.backward((weight * factor).sum())
            self.assertEqual(p.step(optimizer), stepped)
        self.assertEqual((weight.tolist(), p.skipped, p.scaler.get_scale()), ([0.0, 0.0], 1, 512.0))
        other.load_state_dict(through(p.state_dict()))
        self.assertEqual((other.skipped, other.scaler.state_dict()), (1, p.scaler.state_dict()))
        self.assertEqual(_session._numbers({}, gauges), {"loss_scale": 512.0, "skipped_steps": 1.0})

    def test_the_stall_of_a_save(self):
        """Prints what a save costs against one copy of the same bytes; checks only that what was taken is whole."""
        folder = tempfile.mkdtemp(prefix="fsdk", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, folder)
        state = {"w%d" % i: torch.randn(1 << 20) for i in range(32)}
        session = _session.Session({})
        memory = checkpoint.L0(folder, session)
        target = torch.empty(32 << 20)
        stalls, copies = [], []
        for step in range(1, 9):
            begin = time.perf_counter()
            for i, w in enumerate(state.values()):
                target[i << 20 : (i + 1) << 20].copy_(w)
            copies.append(time.perf_counter() - begin)
            saved = memory.save(step, state)
            self.assertTrue(saved, saved.why)
            stalls.append(saved.stall)
            memory.flush()
        session.restore = 8
        begin = time.perf_counter()
        back = memory.restore()
        restore = time.perf_counter() - begin
        self.assertTrue(all(torch.equal(back.state[k], state[k]) for k in state))
        memory.close()
        print("128 MiB: first save %.3f s, then %.4f s (median), plain copy %.4f s, restore %.3f s" % (stalls[0], sorted(stalls[1:])[3], sorted(copies)[4], restore))


def _commit(slot, state):
    plan = _tree.Plan(state)
    tree = plan.encoded()
    slot.reserve(plan.length, len(tree))
    slot.put(plan)
    slot.commit(0, 1, 1, state["step"], plan.length, tree)


def _die_at(fatal):
    """A memmove whose call of this number does half of its work and is the process's last."""
    turn = itertools.count()

    def memmove(to, source, length):
        if next(turn) == fatal:
            ctypes.memmove(to, source, length // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        ctypes.memmove(to, source, length)

    return memmove


class Warm(unittest.TestCase):
    """The pass that DDP makes for nothing before its first step."""

    def ddp(self, module):
        from fermi import _torch
        from torch.nn.parallel import DistributedDataParallel

        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        torch.distributed.init_process_group("gloo", init_method="file://%s/store" % folder, rank=0, world_size=1)
        self.addCleanup(torch.distributed.destroy_process_group)
        _torch.patch(DistributedDataParallel)
        exact, _torch._exact = _torch._exact, True
        self.addCleanup(setattr, _torch, "_exact", exact)
        return DistributedDataParallel(module)

    def test_a_forward_that_is_another_method_for_one_call(self):
        """So Lightning has DDP make its training steps."""
        steps, logged = [], []

        class Module(torch.nn.Linear):
            automatic_optimization = True

            def training_step(self, x):
                steps.append(self.training)
                self.log("loss", 1.0)
                return super().forward(x).sum()

            def log(self, name, value):
                logged.append(name)

        Module.__module__ = "lightning.pytorch.core.module"
        module = Module(3, 2)
        model = self.ddp(module)

        def redirected(x):
            own = module.forward

            def once(*args):
                module.forward = own
                return module.training_step(*args)

            module.forward = once
            return model(x)

        for _ in range(2):
            self.assertEqual(redirected(torch.ones(4, 3)).dim(), 0)
        self.assertEqual(len(steps), 3)  # one for nothing
        self.assertEqual(logged, ["loss", "loss"])
        module.automatic_optimization = False
        del model.__dict__["_fermi_ready"]
        redirected(torch.ones(4, 3))
        self.assertEqual(len(steps), 4)  # a step that trains by itself is made once


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(HERE))
    unittest.main(verbosity=2)
