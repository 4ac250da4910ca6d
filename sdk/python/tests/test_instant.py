"""Instant saves without the libraries: when a save is due, who is saved, and what interpreters run first."""

import os
import subprocess
import sys
import tempfile
import unittest

from fermi import _instant

SRC = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "src")


def run(code, **env):
    keep = {k: v for k, v in os.environ.items() if not k.startswith("FERMI_")}
    return subprocess.run([sys.executable, "-c", code], env=dict(keep, **env), capture_output=True, text=True, check=False)


class Saves(unittest.TestCase):
    def saver(self):
        class Session:
            rank, world, step, restore, every, stop, stalled = 0, 1, None, None, 0, None, 0.0
            told = []

            def report(self, step, metrics):
                self.step = step
                self.told.append(step)

            def poll(self):
                pass

        saver = _instant.Saver.__new__(_instant.Saver)
        saver.session, saver.every, saver.last = Session(), 2, 0
        return saver

    def test_when(self):
        from fermi import checkpoint

        saver, saved, may = self.saver(), [], True
        own, split = checkpoint.save, _instant.split
        checkpoint.save, _instant.split = lambda step, state: saved.append(step) or True, lambda state: state
        self.addCleanup(setattr, checkpoint, "save", own)
        self.addCleanup(setattr, _instant, "split", split)
        for step in range(1, 10):
            may = step not in (4, 8)  # the end of an epoch
            saver.done(step, dict, may)
            saver.done(step, dict, may)  # told twice
        self.assertEqual(saved, [2, 5, 7, 9])
        self.assertEqual(saver.session.told, list(range(1, 10)))
        self.assertGreater(saver.session.stalled, 0)  # with what gathers the state
        saver.session.stop = {"grace": 1}
        saver.done(10, dict)
        self.assertEqual(saved[-1], 10)

    def test_a_state_of_another_kind(self):
        with self.assertRaises(ValueError):
            _instant.joined({"model": 1})


class First(unittest.TestCase):
    def test_interpreters(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "sitecustomize.py"), "w", encoding="utf-8") as file:
                file.write("import sys; sys.theirs = __file__\n")
            path = os.pathsep.join([os.path.join(SRC, "instant"), folder, SRC])
            code = "import sys; from fermi import _instant; print(sys.theirs, any(isinstance(f, _instant._Finder) for f in sys.meta_path))"
            got = run(code, PYTHONPATH=path, FERMI_INSTANT="auto")
            self.assertEqual((got.stdout, got.stderr), ("%s True\n" % os.path.join(folder, "sitecustomize.py"), ""))
            got = run(code, PYTHONPATH=path)
            self.assertTrue(got.stdout.endswith(" False\n"), got)

    def test_libraries(self):
        """A library gets its hook as it is imported, and one of a version that is not known runs without."""
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "transformers"))
            for name, text in {"__init__.py": "", "trainer.py": "class Trainer:\n    def train(self):\n        return 7\n"}.items():
                with open(os.path.join(folder, "transformers", name), "w", encoding="utf-8") as file:
                    file.write(text)
            path = os.pathsep.join([os.path.join(SRC, "instant"), folder, SRC])
            got = run("from transformers.trainer import Trainer; print(Trainer().train())", PYTHONPATH=path, FERMI_INSTANT="auto")
            self.assertEqual(got.stdout, "7\n", got)
            self.assertIn("no instant saves with this version of transformers", got.stderr)


if __name__ == "__main__":
    unittest.main()
