"""A training of nothing that keeps a diary: "step N TIME" on a line after each, by the clock of the machine. Of two ranks none is more than a step
ahead of the other. record.py runs it.

    life.py DIARY PAUSE SAVE_EVERY     PAUSE seconds a step; SAVE_EVERY 0: it only prints, and begins anew at each start

Where a file DIARY.hang lies it takes it away and makes no step any more; where DIARY.pause lies it announces an evaluation of fifteen seconds.
"""

import os
import sys
import time

diary, pause, every = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
step, other = 0, None


def behind():
    """Whether the other rank has not made this step yet."""
    try:
        with open(other) as f:
            return int(f.readlines()[-1].split()[1]) < step
    except (OSError, IndexError, ValueError):
        return True


if every:
    import fermi

    fermi.init()
    other = diary + ".%d" % (1 - fermi.rank())
    diary += ".%d" % fermi.rank()
    got = fermi.checkpoint.restore()
    step = got.step if got else 0
with open(diary, "a", buffering=1) as out:
    while True:
        if os.path.exists(diary + ".hang"):
            os.remove(diary + ".hang")
            time.sleep(100000)
        if every and os.path.exists(diary + ".pause"):
            os.remove(diary + ".pause")
            with fermi.phase("eval"):
                time.sleep(15)
        time.sleep(pause)
        while other and step and behind():
            time.sleep(0.01)
        step += 1
        out.write("step %d %.3f\n" % (step, time.time()))
        if every:
            fermi.report(step=step, loss=1 / step)
            if step % every == 0:
                fermi.checkpoint.save(step, {"step": step})
        else:
            print("step %d loss %.4f" % (step, 1 / step), flush=True)
