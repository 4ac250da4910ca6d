"""python -m fermi.packages FILE -- ARGS…: installs what a requirements file names, or the project of a pyproject.toml, once for all
processes of a replica, into a virtual environment beside the packages that are there already; then goes on as
`python ARGS…` of that environment. A restart finds it as it was left."""

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile


def main():
    words = sys.argv[1:]
    if len(words) < 2 or words[1] != "--":
        raise SystemExit("usage: python -m fermi.packages FILE -- ARGS…")
    file, rest = words[0], words[2:]
    try:
        with open(file, "rb") as f:
            what = f.read()
    except OSError as err:
        fail(file, err.strerror)
    key = hashlib.sha256(what + sys.version.encode() + os.path.abspath(file).encode()).hexdigest()[:16]
    base = os.path.join(tempfile.gettempdir(), "fermi-packages-" + key)
    os.makedirs(base, mode=0o700, exist_ok=True)
    env, done = os.path.join(base, "env"), os.path.join(base, "done")
    python = os.path.join(env, "bin", "python")
    with open(os.path.join(base, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the first process installs, the others wait
        if not os.path.exists(done):
            say("installing the packages of %s" % os.path.basename(file))
            run(file, [sys.executable, "-m", "venv", "--clear", "--system-site-packages", env])
            named = [os.path.dirname(os.path.abspath(file))] if os.path.basename(file) == "pyproject.toml" else ["-r", file]
            run(file, [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar", "off"] + named)
            open(done, "w").close()
    os.environ["VIRTUAL_ENV"] = env
    os.environ["PATH"] = os.path.dirname(python) + os.pathsep + os.environ.get("PATH", "")
    os.execv(python, [python] + rest)


def run(file, command):
    """Runs a command whose output is the task's; its last complaint is why it failed."""
    complaint = ""
    p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=os.path.dirname(os.path.abspath(file)), text=True, errors="replace")
    for line in p.stdout:
        sys.stdout.write(line)
        sys.stdout.flush()
        if line.strip() and (line.startswith(("ERROR:", "Error:", "error:")) or not complaint.startswith("ERROR:")):
            complaint = line.strip()
    code = p.wait()
    if code != 0:
        fail(file, complaint or "%s ended with %d" % (command[2], code))


def say(text):
    sys.stdout.write("[fermi] %s\n" % text)
    sys.stdout.flush()


def fail(file, why):
    sys.stderr.write("fermi.packages: the packages of %s can't be installed: %s\n" % (os.path.basename(file), why))
    raise SystemExit(1)


if __name__ == "__main__":
    main()
