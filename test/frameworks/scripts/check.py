"""The line by which the test sees the result."""
import os
import sys


def check(rank, world, total):
    sys.stdout.write(f"CHECK rank={int(rank)} world={int(world)} sum={int(round(float(total)))} replica={os.environ['FERMI_REPLICA']}\n")
    sys.stdout.flush()
