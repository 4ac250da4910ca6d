"""How long this rank waits for others in a step, as torch's DistributedDataParallel itself measures it.

All ranks of a gang take the same time for a step, since they wait for each other in it; the slow one is the one that does
not wait. DDP records when its last gradient was computed and when the last bucket was reduced, on the device's own clock
where there is one; the time in between is waiting (and what the network needs, which is alike for all).
"""

import weakref

EVERY = 2  # steps of which one is looked at; on a device one of DEVICE, since reading its clock waits for it
DEVICE = 10


class Waits:
    """The seconds of the newest step that was measured, once; None where there is none."""

    def __init__(self, model):
        self._model = weakref.ref(model)
        self._every = DEVICE if next(model.parameters()).is_cuda else EVERY
        self._calls = 0
        self._seen = None  # the iteration that was told last
        model._set_ddp_runtime_logging_sample_rate(self._every)

    def __call__(self):
        self._calls += 1
        model = self._model()
        if model is None or self._calls % self._every:
            return None
        stats = model._get_ddp_logging_data()
        iteration, comm = stats.get("iteration"), stats.get("backward_comm_time", 0)
        if iteration == self._seen or not comm:
            return None
        self._seen = iteration
        return max(comm - stats.get("backward_compute_comm_overlap_time", 0), 0) / 1e9


def follow(model, session):
    """From now on the reports of this rank say how long it waits. Of several models the newest counts."""
    try:
        session.gauges["peer_wait"] = Waits(model)
    except (AttributeError, RuntimeError, TypeError, StopIteration):  # a torch that does not measure it
        session.gauges.pop("peer_wait", None)
