"""python -m fermi.run script.py args…: an unchanged script with what the SDK adds to torch: DDP that resumes exactly, and what
the task says: instant saves with Transformers, Lightning and Accelerate (FERMI_INSTANT), compressed gradients (FERMI_GRAD_COMPRESSION), the time-out of collectives (FERMI_COLLECTIVE_TIMEOUT).
With --as-told before the script only the latter: so recipes start the scripts of tasks that say it."""

import os
import sys

from . import _instant, _script, _torch


def main():
    words = sys.argv[1:]
    told = words[:1] == ["--as-told"]
    try:
        program = _script.Program.parse(words[1:] if told else words)
        _torch.install(exact=not told)
        if not told or _instant.asked():
            _instant.install()
    except ValueError as err:
        raise SystemExit("fermi.run: %s" % err)
    if not program.module and not os.path.isfile(program.name):  # what an interpreter says
        sys.stderr.write("%s: can't open file %r: [Errno 2] No such file or directory\n" % (sys.executable, os.path.abspath(program.name)))
        raise SystemExit(2)
    program.run()


if __name__ == "__main__":
    main()
