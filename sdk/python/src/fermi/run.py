"""python -m fermi.run script.py args…: an unchanged script with what the SDK adds to torch: DDP that resumes
exactly, and gradients compressed as the task says (FERMI_GRAD_COMPRESSION)."""

import sys

from . import _script, _torch


def main():
    try:
        program = _script.Program.parse(sys.argv[1:])
        _torch.install()
    except ValueError as err:
        raise SystemExit("fermi.run: %s" % err)
    program.run()


if __name__ == "__main__":
    main()
