"""Schema-driven fuzzing of the shipped binary: run.py BINARY.

A fresh server; a walk that calls every operation of the document once as it is meant to be called; then
schemathesis over all of them. Fails on a status, content type or body the document does not name, on any 5xx,
on a request without an answer in time, and when an operation never gave a good answer or never refused.

FERMI_FUZZ_SEED repeats a run; FERMI_FUZZ_SECONDS goes on fuzzing for that long.
"""

import collections
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import requests

from walk import Walk

HERE = Path(__file__).parent


class Server:
    def __init__(self, binary, folder):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.base = f"http://127.0.0.1:{s.getsockname()[1]}"
        self.log = folder / "log"
        self.data = folder / "d"
        store = folder / "store"
        store.mkdir()
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [binary, "up", "--data", self.data, "--listen", self.base[7:], "--checkpoints-store", store], stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while True:
            try:
                if requests.get(self.base + "/readyz", timeout=2).ok:
                    break
            except requests.ConnectionError:
                pass
            if self.process.poll() is not None or time.monotonic() > deadline:
                sys.exit("the server did not come up:\n" + self.log.read_text())
            time.sleep(0.05)
        self.token = (self.data / "admin.token").read_text().strip()

    def stop(self):
        """Ends the server, and then what its launchers run, which outlives it."""
        self.process.terminate()
        self.process.wait(30)
        mark = str(self.data).encode()
        while found := [p for p in Path("/proc").glob("[0-9]*") if mark in read(p / "environ") + read(p / "cmdline")]:
            for process in found:
                try:
                    os.kill(int(process.name), signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.02)


def read(path):
    try:
        return path.read_bytes()
    except OSError:  # it has ended
        return b""


def identity(server):
    """A user and a token of its own for the fuzzing; the administrator stays for what the run itself needs."""
    admin = {"Authorization": "Bearer " + server.token}
    own = {"users": set(), "tokens": set()}
    for kind, spec in ("users", {"role": "admin"}), ("tokens", {"user": "fuzzer"}):
        made = requests.post(f"{server.base}/api/v1/{kind}", headers=admin, timeout=10,
                             json={"metadata": {"name": "fuzzer"}, "spec": spec}).json()["data"]
    secret = made["secret"]
    for kind in own:
        for item in requests.get(f"{server.base}/api/v1/{kind}", headers=admin, timeout=10).json()["data"]["items"]:
            own[kind] |= {item["metadata"]["name"], item["metadata"]["id"]}
    return secret, own


def fuzz(server, secret, own, folder, seed, names):
    answers = folder / "answers.json"
    (folder / "openapi.json").write_text(json.dumps(document(server, secret)))
    config = (HERE / "schemathesis.toml").read_text() + "\n" + dictionaries(names)
    (folder / "schemathesis.toml").write_text(config)
    env = os.environ | {
        "PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1", "SCHEMATHESIS_HOOKS": "hooks",
        "FERMI_FUZZ_BASE": server.base, "FERMI_FUZZ_TOKEN": secret, "FERMI_FUZZ_SPARE": server.token,
        "FERMI_FUZZ_USERS": " ".join(own["users"]), "FERMI_FUZZ_TOKENS": " ".join(own["tokens"]),
        "FERMI_FUZZ_ANSWERS": str(answers),
    }
    command = [Path(sys.executable).parent / "schemathesis", "--config-file", folder / "schemathesis.toml",
               "run", folder / "openapi.json", "--url", server.base, "--no-color", "--seed", str(seed)]
    if seconds := os.environ.get("FERMI_FUZZ_SECONDS"):
        command += ["--max-time", seconds]
    status = subprocess.run(command, env=env, cwd=folder).returncode
    return status, json.loads(answers.read_text()) if answers.exists() else {}


def dictionaries(names):
    """Names that exist, so that fuzzing reaches what is behind them."""
    out = []
    for (tag, method), values in names.items():
        name = f"{tag}-{method}" if method else tag
        only = f'include-method = "{method}"\n' if method else ""
        out.append(f"[dictionaries.{name}]\nvalues = {json.dumps(values)}\n")
        out.append(f'[[operations]]\ninclude-path-regex = "^/api/v1/{tag}/"\n{only}'
                   f'parameters = {{ "path.name" = {{ dictionary = "{name}", probability = 0.5 }} }}\n')
    return "\n".join(out)


def document(server, secret):
    return requests.get(server.base + "/api/v1/openapi.json", headers={"Authorization": "Bearer " + secret}, timeout=10).json()


def main():
    seed = int(os.environ.get("FERMI_FUZZ_SEED") or random.randrange(1 << 32))
    print(f"ok   seed {seed}: FERMI_FUZZ_SEED={seed} repeats it", flush=True)
    problems = []
    with tempfile.TemporaryDirectory(prefix="fermi", dir="/tmp") as tmp:  # short: it holds unix sockets
        folder = Path(tmp)
        server = Server(sys.argv[1], folder)
        try:
            secret, own = identity(server)
            doc = document(server, secret)
            walk = Walk(doc, server, secret)
            walk.run()
            problems += walk.problems
            status, answers = fuzz(server, secret, own, folder, seed, walk.names)
            if status != 0:
                problems.append(f"schemathesis ended with {status}")
            alive = requests.get(server.base + "/api/v1/whoami", headers={"Authorization": "Bearer " + secret}, timeout=10)
            if server.process.poll() is not None or alive.status_code != 200:
                problems.append("the server or the run's own token did not live to the end")
        finally:
            server.stop()
            log = server.log.read_text()
        problems += [line for line in log.splitlines() if "panic" in line or "level=ERROR" in line]
        if problems:
            Path(".cache/log").mkdir(parents=True, exist_ok=True)
            Path(".cache/log/e2e-fuzz-server.log").write_text(log)
    sys.exit(report(doc, walk, answers, problems))


def report(doc, walk, answers, problems):
    total = collections.Counter()
    seen = collections.defaultdict(collections.Counter)
    for source in walk.answers, answers:
        for operation, statuses in source.items():
            for status, n in statuses.items():
                seen[operation][str(status)[0]] += n
                total[str(status)] += n
    operations = [f"{m.upper()} {p}" for p, ms in doc["paths"].items() for m in ms]
    for operation in operations:
        for digit, words in ("2", "never gave a good answer"), ("4", "never refused"):
            if not seen[operation][digit] and not (digit == "2" and operation.endswith("/terminal")):  # a good answer is a WebSocket
                problems.append(f"{operation} {words}")
    for problem in problems:
        print("--- FAIL:", problem)
    print("FAIL" if problems else "ok  ", f"{len(operations)} operations, {sum(total.values())} cases, {len(problems)} failures; answers: "
          + ", ".join(f"{n} × {status}" for status, n in sorted(total.items())))
    return 1 if problems else 0


if __name__ == "__main__":
    main()
