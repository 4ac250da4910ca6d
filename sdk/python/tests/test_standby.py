"""A forked program is a fresh interpreter's program: output, traceback, exit code, environment, files."""

import json
import os
import re
import shutil
import socket
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

from tests import standin

PROGRAMS = {
    "output": "import sys\nprint('out', sys.argv[1:])\nprint('err', file=sys.stderr)\n",
    "exit": "import sys\nsys.exit(7)\n",
    "exit_text": "import sys\nsys.exit('no: 原因')\n",
    "exit_none": "import sys\nprint('x', end='')\nsys.exit(None)\n",
    "error": "def inner(x):\n    return x['missing']\n\ndef outer():\n    inner({})\n\nouter()\n",
    "chained": "try:\n    1 / 0\nexcept ZeroDivisionError as err:\n    raise ValueError('worse') from err\n",
    "context": "try:\n    {}['a']\nexcept KeyError:\n    int('x')\n",
    "syntax": "print('never')\nx = (1,\ny = 2\n",
    "unicode": "raise RuntimeError('损失 \\udc80')\n",
    "recursion": "def f(n):\n    return f(n + 1)\nf(0)\n",
    "recursion_limit": "import sys\ndef f(n):\n    try:\n        return f(n + 1)\n    except RecursionError:\n        return n\nprint(f(0))\n",
    "imports": "import beside\nbeside.fail()\n",
    "missing": "import no_such_module_here\n",
    "group": "import sys\nif sys.version_info >= (3, 11):\n    raise ExceptionGroup('many', [ValueError(1), TypeError(2)])\n",
    "hook": "import sys\nsys.excepthook = lambda t, v, tb: print('hook', t.__name__, v, tb.tb_frame.f_lineno)\n1 / 0\n",
    "atexit": "import atexit, threading, time\natexit.register(print, 'bye')\nthreading.Thread(target=lambda: (time.sleep(0.05), print('thread'))).start()\nprint('main')\n",
    "thread_error": "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='worker')\nt.start()\nt.join()\nprint('on')\n",
    "interrupt": "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time\ntime.sleep(60)\n",
    "killed": "import os, signal\nprint('x', flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n",
    "terminated": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n",
    "abort": "import os\nos.abort()\n",
    "hard_exit": "import os\nos._exit(9)\n",
    "main": "import sys\nm = sys.modules['__main__']\nprint(__name__, __file__, __package__, __spec__, sorted(m.__dict__)[:12], sys.path[0], sys.argv, getattr(sys, 'orig_argv', [])[1:])\n",
    "files": "import os\nprint(sorted(os.listdir('/proc/self/fd'))[:-1], os.read(0, 10))\n",
    "environment": "import os\nprint(sorted(os.environ.items()), os.getcwd())\n",
    "signals": "import signal\nprint([(s.name, str(signal.getsignal(s))) for s in sorted(signal.Signals)], signal.pthread_sigmask(signal.SIG_BLOCK, []))\n",
    "modules": "import fermi, threading\nprint(fermi.world_size(), threading.active_count(), threading.current_thread().name)\n",
    "pickled": "import pickle\nclass A:\n    pass\nprint(type(pickle.loads(pickle.dumps(A()))))\n",
    "unraisable": "class A:\n    def __del__(self):\n        raise ValueError('del')\na = A()\ndel a\nprint('on')\n",
}


def _listen():
    """Whoever runs the tests in the background, or by nohup, ignores signals, and its children would too."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


class Standbys(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        standin.become_subreaper()
        cls.folder = tempfile.mkdtemp(prefix="fsdk", dir="/tmp")
        for name, text in PROGRAMS.items():
            with open(os.path.join(cls.folder, name + ".py"), "w", errors="surrogateescape") as file:
                file.write(text)
        with open(os.path.join(cls.folder, "beside.py"), "w") as file:
            file.write("def fail():\n    raise OSError(2, 'beside')\n")
        os.mkdir(os.path.join(cls.folder, "pack"))
        for name in ("__init__", "__main__", "part"):
            with open(os.path.join(cls.folder, "pack", name + ".py"), "w") as file:
                file.write("" if name == "__init__" else "import sys\nprint(__name__, __spec__.name, sys.argv, sys.path[0])\nraise ValueError(__package__)\n")
        cls.env = standin.rank_environ(A="b", 名="值")
        cls.standby = standin.Standby(cls.env)

    @classmethod
    def tearDownClass(cls):
        cls.standby.close()
        shutil.rmtree(cls.folder)

    def fresh(self, argv):
        done = subprocess.run(
            [sys.executable] + argv, env=self.env, cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=standin.LIMIT, start_new_session=True,
            preexec_fn=_listen,
        )
        return done.returncode, done.stdout, done.stderr

    def forked(self, argv, **more):
        pipes = [os.pipe(), os.pipe()]
        name, body = self.standby.fork([sys.executable] + argv, self.env, self.folder, pipes[0][1], pipes[1][1], **more)
        for _, write in pipes:
            os.close(write)
        outputs = [b"", b""]

        def drain(i):
            with open(pipes[i][0], "rb") as pipe:
                outputs[i] = pipe.read()

        threads = [threading.Thread(target=drain, args=(i,)) for i in (0, 1)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(name, "forked", body)
        code = os.waitstatus_to_exitcode(os.waitpid(body["pids"][0], 0)[1])  # inherited: it is a child of this process
        return code, outputs[0], outputs[1]

    def test_programs_end_as_in_a_fresh_interpreter(self):
        for name in PROGRAMS:
            with self.subTest(program=name):
                self.assertEqual(_comparable(self.forked([name + ".py", "a b", "-c"])), _comparable(self.fresh([name + ".py", "a b", "-c"])))

    def test_modules_options_and_paths(self):
        os.symlink("output.py", os.path.join(self.folder, "link.py"))
        for argv in (["-m", "pack", "x"], ["-m", "pack.part"], ["-m", "no.such"], ["-m", "beside"], ["./error.py"], [self.folder + "/error.py"], ["pack/../error.py"], ["link.py"], ["-u", "output.py"]):
            with self.subTest(argv=argv):
                self.assertEqual(_comparable(self.forked(argv)), _comparable(self.fresh(argv)))

    def test_a_child_has_a_session_of_its_own(self):
        with open(os.path.join(self.folder, "session.py"), "w") as file:
            file.write("import os\nprint(os.getsid(0) == os.getpid())\n")
        self.assertEqual(self.forked(["session.py"]), (0, b"True\n", b""))

    def test_random_numbers_differ_between_children(self):
        with open(os.path.join(self.folder, "numbers.py"), "w") as file:
            file.write("import random, os\nprint(random.random(), os.urandom(8))\n")
        self.assertEqual(len({self.forked(["numbers.py"])[1] for _ in range(3)}), 3)

    def test_what_a_fork_cannot_give_is_refused(self):
        cases = [
            (["missing_file.py"], {}, "is no Python file"),
            (["-c", "1"], {}, "neither a script"),
            (["-X", "dev", "output.py"], {}, "neither a script"),
            ([], {}, "neither a script"),
            (["output.py"], {"env": dict(self.env, OMP_NUM_THREADS="7")}, "OMP_NUM_THREADS differs"),
            (["output.py"], {"env": {k: v for k, v in self.env.items() if k != "PYTHONPATH"}}, "PYTHONPATH differs"),
            (["output.py"], {"argv": ["/bin/true", "output.py"]}, "is not this interpreter"),
            (["output.py"], {"argv": "x"}, "argv must be words"),
            (["output.py"], {"env": {"a": 1}}, "argv must be words"),
            (["output.py"], {"each": [{"a": 1}]}, "argv must be words"),
            (["output.py"], {"each": []}, "stdout and stderr of 0 processes"),
            (["output.py"], {"each": [{}, {}]}, "stdout and stderr of 2 processes"),
            (["output.py"], {"each": [{"OMP_NUM_THREADS": "7"}]}, "OMP_NUM_THREADS differs"),
            (["output.py"], {"cwd": "/no/such"}, "is no Python file"),
            (["output.py"], {"preload": [1]}, "preload must be"),
        ]
        for argv, more, why in cases:
            with self.subTest(argv=argv, more=list(more)), open(os.devnull, "w") as null:
                request = dict({"argv": [sys.executable] + argv, "env": self.env, "cwd": self.folder}, **more)
                name, body = self.standby.fork(request.pop("argv"), request.pop("env"), request.pop("cwd"), null.fileno(), null.fileno(), **request)
                self.assertEqual((name, body["id"]), ("refused", "x"))
                self.assertIn(why, body["why"])

    def test_what_a_module_imports_late_is_there_too(self):
        package, seen = os.path.join(self.folder, "torch"), os.path.join(self.folder, "seen")
        os.mkdir(package)
        for name, text in (("__init__", ""), ("_dynamo", "open(%r, 'w').close()" % seen)):
            with open(os.path.join(package, name + ".py"), "w") as file:
                file.write(text)
        standin.Standby(dict(self.env, PYTHONPATH=standin.SRC + ":" + self.folder), "torch").close()
        self.assertTrue(os.path.exists(seen))

    def test_modules_that_run_threads_are_refused(self):
        with open(os.path.join(self.folder, "busy.py"), "w") as file:
            file.write("import threading\nthreading.Thread(target=threading.Event().wait, daemon=True, name='forever').start()\n")
        env = dict(self.env, PYTHONPATH=standin.SRC + ":" + self.folder)
        standby = standin.Standby(env, "busy,no_such_module")
        self.addCleanup(standby.close)
        with open(os.devnull, "w") as null:
            name, body = standby.fork([sys.executable, "output.py"], env, self.folder, null.fileno(), null.fileno())
        self.assertEqual(name, "refused")
        self.assertIn("runs a thread: forever", body["why"])

    def test_nonsense_is_refused(self):
        for line in (b"{]\n", b'{"x":{}}\n', b'{"fork":[]}\n'):
            self.standby.sock.sendall(line)
            self.assertIn(b"no fork request", self.standby.answers.readline())
        self.standby.sock.sendall(b'{"fork":{"id":5,"argv":["%s","output.py"],"env":{},"cwd":"/"}}\n' % sys.executable.encode())
        self.assertIn(b"stdout and stderr of 1 processes must come", self.standby.answers.readline())


def _comparable(result):
    """Addresses differ from process to process."""
    code, out, err = result
    return code, re.sub(rb"0x[0-9a-f]+", b"0x", out), re.sub(rb"0x[0-9a-f]+|Thread-\d+|python3?[.0-9]*: ", b"", err)


class Run(unittest.TestCase):
    def test_an_unchanged_script_runs_as_ever(self):
        folder = tempfile.mkdtemp(prefix="fsdk", dir="/tmp")
        self.addCleanup(shutil.rmtree, folder)
        path = os.path.join(folder, "error.py")
        with open(path, "w") as file:
            file.write(PROGRAMS["error"])

        def run(*argv, **environ):
            return subprocess.run([sys.executable] + list(argv), env=standin.rank_environ(**environ), cwd=folder, capture_output=True, timeout=standin.LIMIT)

        a, b = run(path, "x"), run("-m", "fermi.run", path, "x")
        self.assertEqual((a.returncode, a.stdout, a.stderr), (b.returncode, b.stdout, b.stderr))
        for argv in ([path, "x"], ["none.py"], ["-m", "error"]):
            a, b = run(*argv), run("-m", "fermi.run", "--as-told", *argv)
            self.assertEqual((a.returncode, a.stdout, a.stderr), (b.returncode, b.stdout, b.stderr))
        bad = run("-m", "fermi.run", path, FERMI_COLLECTIVE_TIMEOUT="1h")
        self.assertEqual((bad.returncode, bad.stderr), (1, b"fermi.run: FERMI_COLLECTIVE_TIMEOUT is '1h', no number of seconds\n"))
        bad = run("-m", "fermi.run", path, FERMI_GRAD_COMPRESSION="zip")
        self.assertEqual((bad.returncode, bad.stderr), (1, b"fermi.run: FERMI_GRAD_COMPRESSION is 'zip', none of none, fp16, bf16, powersgd\n"))

    def test_a_program_that_returned_says_that_it_is_done(self):
        folder = tempfile.mkdtemp(prefix="fsdk", dir="/tmp")
        self.addCleanup(shutil.rmtree, folder)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(listener.close)
        listener.bind(os.path.join(folder, "s"))
        listener.listen(1)
        listener.settimeout(standin.LIMIT)
        path = os.path.join(folder, "script.py")
        for end, done in (("", True), ("sys.exit()", True), ("sys.exit(0)", True), ("sys.exit(3)", False), ("sys.exit('no')", False), ("1 / 0", False)):
            with open(path, "w") as file:
                file.write("import fermi, sys\nfermi.init()\n%s\n" % end)
            env = standin.rank_environ(FERMI_SOCKET=os.path.join(folder, "s"), FERMI_GENERATION="1")
            rank = subprocess.Popen([sys.executable, "-m", "fermi.run", path], env=env, cwd=folder, stderr=subprocess.DEVNULL)
            conn, _ = listener.accept()
            conn.settimeout(standin.LIMIT)
            conn.sendall(b'{"welcome":{"generation":1,"restore":null}}\n')
            with conn.makefile("rb") as lines:
                said = [next(iter(json.loads(line).items())) for line in lines]
            conn.close()
            rank.wait(standin.LIMIT)
            self.assertEqual(("bye", {"code": 0}) in said, done, end)


if __name__ == "__main__":
    unittest.main()
