#!/usr/bin/env python3
"""Records two lives of real tasks, for TestRecordedLives: what each turn of the controller saw, what the ranks wrote into their diaries, and what
happened to them when. It builds a program that writes turns down (record.go.txt), takes about five minutes, and wants root and Go.

    record.py [told|printed]      writes told.json.gz and printed.json.gz beside itself
"""

import glob
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

here = os.path.dirname(os.path.abspath(__file__))
train = os.path.abspath(os.path.join(here, "../../.."))


class Life:
    def __init__(self, name, work, ranks, pause, every):
        self.name, self.work, self.ranks, self.every, self.ledger = name, work, ranks, every, []
        self.diary = "%s/code/%s" % (work, name)
        self.environ = dict(os.environ, FERMI_DATA=work + "/data", FERMI_SERVER=server, FERMI_LANG="en")
        command = ["/usr/bin/python3", "life.py", self.diary, str(pause), str(every)]
        spec = {
            "roles": [{"name": "worker", "replicas": ranks, "command": command, "resources": {"cpu": "100m", "memory": "256Mi"}}],
            "code": {"folder": "lives"}, "restartPolicy": {"maxRestarts": 50},
        }
        if every:
            spec["checkpoint"] = {"local": {"everySteps": 4 * every}, "shared": {"everySteps": 4 * every}}
        self.fermi("apply", "-f", "-", input=json.dumps({"apiVersion": "fermi/v1", "kind": "TrainingTask", "metadata": {"name": name}, "spec": spec}))

    def fermi(self, *args, **more):
        done = subprocess.run([fermi, *args], env=self.environ, text=True, capture_output=True, **more)
        if done.returncode:
            sys.exit("fermi %s: %s %s" % (" ".join(args), done.stdout, done.stderr))
        return done.stdout

    def status(self):
        return json.loads(self.fermi("get", "trainingtask", self.name, "-o", "json"))["status"]

    def files(self):
        return [self.diary] if not self.every else ["%s.%d" % (self.diary, r) for r in range(self.ranks)]

    def lines(self):
        return min(sum(1 for _ in open(f)) if os.path.exists(f) else 0 for f in self.files())

    def more(self, n):
        """Waits until all ranks have made so many more steps."""
        self.until("%d more steps" % n, lambda at=self.lines(): self.lines() >= at + n)

    def until(self, what, ok):
        end = time.time() + 300
        while not ok():
            if time.time() > end:
                sys.exit("never: " + what + "\n" + self.fermi("describe", "trainingtask", self.name))
            time.sleep(0.1)

    def note(self, what):
        self.ledger.append({"at": time.time(), "what": what})

    def kill(self):
        """Kills the process that writes the first diary."""
        for stat in glob.glob("/proc/[0-9]*/fd/*"):
            try:
                if os.readlink(stat) == self.files()[0]:
                    os.kill(int(stat.split("/")[2]), signal.SIGKILL)
                    self.note("failed")
                    return
            except OSError:
                pass
        sys.exit("nobody writes " + self.files()[0])

    def phase(self, *phases):
        self.until("it is " + "/".join(phases), lambda: self.status()["phase"] in phases)

    def keep(self):
        """Puts all of it into one file."""
        task = json.loads(self.fermi("get", "trainingtask", self.name, "-o", "json"))
        turns = [t for t in map(json.loads, open(lives)) if t["Task"]["metadata"]["name"] == self.name]
        for t in turns:  # what figures do not ask
            t["Placement"] = None
            t["Task"]["spec"] = {k: v for k, v in t["Task"]["spec"].items() if k in ("roles", "checkpoint", "restore")}
        diaries = [[[int(s), float(at)] for _, s, at in map(str.split, open(f))] for f in self.files()]
        whole = {"turns": turns, "diaries": diaries, "ledger": self.ledger, "told": task["status"]}
        with gzip.GzipFile(os.path.join(here, self.name + ".json.gz"), "wb", mtime=0) as out:
            out.write(json.dumps(whole, separators=(",", ":")).encode())
        print(self.name, len(turns), "turns", task["status"].get("time"), task["status"].get("interruptions", {}).get("count"))


def told(work):
    """Two ranks with the SDK: killed, evaluating, hung, killed before they are back, moved, stopped."""
    life = Life("told", work, 2, 0.2, 10)
    life.more(35)
    life.kill()
    life.more(30)
    open(life.files()[0] + ".pause", "w").close()
    open(life.files()[1] + ".pause", "w").close()
    life.more(20)
    open(life.files()[0] + ".hang", "w").close()
    life.until("it hangs", lambda: not os.path.exists(life.files()[0] + ".hang"))
    life.note("hung")
    life.more(27)
    life.kill()
    life.more(2)
    life.kill()
    life.more(25)
    life.note("left")
    life.fermi("train", "move", life.name, "--zone", "shanghai-1")
    life.until("it moved", lambda: life.status()["attempt"] > 1)
    life.more(20)
    life.note("ended")
    life.fermi("train", "stop", life.name)
    life.phase("Stopped")
    life.keep()


def printed(work):
    """A script that only prints, and begins anew each time."""
    life = Life("printed", work, 1, 0.5, 0)
    life.more(30)
    life.kill()
    life.more(34)
    life.kill()
    life.more(8)
    life.note("ended")
    life.fermi("train", "stop", life.name)
    life.phase("Stopped")
    life.keep()


def build(work):
    """The program, with a line more in decide.go; the tree stays as it is."""
    decide = train + "/decide.go"
    plain = open(decide).read()
    assert plain.count("\tf.Recoveries()\n") == 1
    with open(work + "/decide.go", "w") as out:
        out.write(plain.replace("\tf.Recoveries()\n", "\trecord(&f)\n\tf.Recoveries()\n"))
    with open(work + "/overlay.json", "w") as out:
        json.dump({"Replace": {decide: work + "/decide.go", train + "/record.go": here + "/record.go.txt"}}, out)
    subprocess.run(["go", "build", "-buildvcs=false", "-overlay", work + "/overlay.json", "-o", work + "/fermi", "./cmd/fermi"],
        check=True, cwd=train + "/../../..", env=dict(os.environ, CGO_ENABLED="0"))
    return work + "/fermi"


work = tempfile.mkdtemp(prefix="fermi-lives-", dir="/tmp")
fermi = build(work)
code = work + "/code"
os.mkdir(code)
os.chmod(work, 0o755)
os.chmod(code, 0o777)
shutil.copy(os.path.join(here, "life.py"), code)
server, lives = "http://127.0.0.1:%s" % os.environ.get("PORT", "7187"), work + "/lives"
up = subprocess.Popen([fermi, "up", "--demo", "--data", work + "/data", "--listen", server[7:], "--folder", "lives=" + code, "--checkpoints-store", work + "/store"],
    env=dict(os.environ, FERMI_LIVES=lives), stdout=open(work + "/log", "w"), stderr=subprocess.STDOUT)
try:
    environ = dict(os.environ, FERMI_DATA=work + "/data", FERMI_SERVER=server)
    while subprocess.run([fermi, "top"], env=environ, capture_output=True).returncode:
        if up.poll() is not None:
            sys.exit(open(work + "/log").read())
        time.sleep(0.1)
    project = subprocess.run([fermi, "get", "project", "default", "-o", "json"], env=environ, capture_output=True, text=True, check=True).stdout
    project = json.loads(project)
    project["spec"]["folders"] = ["lives"]
    subprocess.run([fermi, "apply", "-f", "-"], env=environ, input=json.dumps(project), text=True, check=True)
    for life in sys.argv[1:] or ["told", "printed"]:
        globals()[life](work)
finally:
    up.terminate()
    up.wait()
    shutil.rmtree(work)
