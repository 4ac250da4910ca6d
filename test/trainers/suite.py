"""suite.py [KILLS]: ordinary scripts with Transformers, Lightning and Accelerate (scripts/), with instant saves in memory, each killed
at random so many times: at most three steps are made again, and the weights are those of the run that nobody disturbed."""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
SRC = os.path.join(HERE, "..", "..", "sdk", "python", "src")
MOST = 3  # steps made again after a kill
LIMIT = 600  # seconds that a script may take


def start(library, out, memory):
    env = dict(os.environ, PYTHONPATH=os.pathsep.join([os.path.join(SRC, "instant"), SRC]), OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
    if memory:
        env.update(FERMI_INSTANT="auto", FERMI_SHM=memory)
    script = os.path.join(HERE, "scripts", "with_%s.py" % library)
    with open(os.path.join(out, "log"), "ab") as log:
        return subprocess.Popen([sys.executable, script, "--out", out], env=env, cwd=out, stdout=log, stderr=log)


def steps(out):
    try:
        with open(os.path.join(out, "journal"), encoding="utf-8") as file:
            return [int(line) for line in file if line.endswith("\n")]
    except FileNotFoundError:
        return []


def finish(process, out, until=None):
    """Waits for the end, or for so many lines of the journal; True: it has ended."""
    end = time.monotonic() + LIMIT
    while process.poll() is None and (until is None or len(steps(out)) < until):
        if time.monotonic() > end:
            process.kill()
            raise SystemExit("%s does not get on" % out)
        time.sleep(0.005)
    return process.poll() is not None


def weights(out):
    return torch.load(os.path.join(out, "weights.pt"))


def try_out(library, kills, seed):
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as whole, tempfile.TemporaryDirectory() as out:
        memory = tempfile.mkdtemp(dir="/dev/shm")
        try:
            process = start(library, whole, None)
            if not finish(process, whole) or process.returncode:
                raise SystemExit(open(os.path.join(whole, "log"), encoding="utf-8").read())
            total, done = len(steps(whole)), 0
            while True:
                process = start(library, out, memory)
                room = max(2, (total - max(steps(out), default=0)) // (kills - done + 1)) if done < kills else 0
                if finish(process, out, len(steps(out)) + rng.randint(1, room) if room else None):
                    break
                time.sleep(rng.random() * 0.03)
                process.kill()
                process.wait()
                done += 1
            if process.returncode:
                raise SystemExit(open(os.path.join(out, "log"), encoding="utf-8").read())
            made = steps(out)
            again = max([a - b + 1 for a, b in zip(made, made[1:]) if b <= a], default=0)
            want, got = weights(whole), weights(out)
            same = want.keys() == got.keys() and all(torch.equal(want[k], got[k]) for k in want)
            print("%s: killed %d times; at most %d steps made again; the weights are %s" % (library, done, again, "the same" if same else "others"), flush=True)
            return done > 0 and again <= MOST and same
        finally:
            shutil.rmtree(memory)


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    good = [try_out(library, count, seed) for seed, library in enumerate(("transformers", "lightning", "accelerate"))]
    sys.exit(0 if all(good) else 1)
