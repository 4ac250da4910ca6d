"""What the run needs beside the schema: it counts every answer, and keeps the run's own identity alive.

Fuzzing learns names from answers and soon deletes the user and the token it comes with. Such a call is not
left out: it goes to a victim made for it.
"""

import atexit
import collections
import itertools
import json
import os

import requests
import schemathesis
from schemathesis.core.failures import AcceptedNegativeData

BASE = os.environ["FERMI_FUZZ_BASE"]
SPARE = {"Authorization": "Bearer " + os.environ["FERMI_FUZZ_SPARE"]}  # of another admin
OWN = {"users": set(os.environ["FERMI_FUZZ_USERS"].split()), "tokens": set(os.environ["FERMI_FUZZ_TOKENS"].split())}
MANIFESTS = ("create", "update", "previewRecipe")  # operations whose body is a manifest
answers = collections.defaultdict(collections.Counter)
numbers = itertools.count()


# Bad tokens and sign-ins are counted by address, a few dozen each: a run has many addresses, or it would see
# little else than "too many".
send = requests.adapters.HTTPAdapter.send


def from_another_address(self, request, **kwargs):
    n = next(numbers) // 10
    self.poolmanager.connection_pool_kw["source_address"] = (f"127.{n >> 16 & 127}.{n >> 8 & 255}.{n & 255 or 1}", 0)
    return send(self, request, **kwargs)


requests.adapters.HTTPAdapter.send = from_another_address


def victim(kind):
    name = f"victim-{os.getpid()}-{next(numbers)}"
    spec = {"role": "viewer"} if kind == "users" else {"user": "admin"}
    made = requests.post(f"{BASE}/api/v1/{kind}", json={"metadata": {"name": name}, "spec": spec}, headers=SPARE, timeout=10)
    made.raise_for_status()
    return name


@schemathesis.hook
def before_call(ctx, case, kwargs):
    kind = case.path.split("/")[3:4]
    name = (case.path_parameters or {}).get("name")
    if kind and name in OWN.get(kind[0], ()) and case.method in ("PUT", "DELETE"):
        case.path_parameters["name"] = victim(kind[0])
    # A followed log of work that runs has no end: as events it may be read for a while.
    if case.operation.definition.raw.get("operationId", "").endswith("Log") and (case.query or {}).get("follow"):
        case.headers["Accept"] = "text/event-stream"
        kwargs["timeout"] = 1


@schemathesis.hook
def filter_failure(ctx, failure, case, response):
    """That a request outside its schema is refused is asked of parameters and small bodies, not of manifests: there
    null and empty count as absent and status is not looked at, while their schemas are those of answers too, which
    have neither. What a manifest must not hold is FuzzDecode's business."""
    return not (isinstance(failure, AcceptedNegativeData) and case.operation.definition.raw["operationId"].startswith(MANIFESTS))


@schemathesis.hook
def after_call(ctx, case, response):
    answers[f"{case.operation.method.upper()} {case.operation.path}"][response.status_code] += 1


@schemathesis.hook
def after_network_error(ctx, case, request):
    answers[f"{case.operation.method.upper()} {case.operation.path}"]["none"] += 1


@atexit.register
def write():
    with open(os.environ["FERMI_FUZZ_ANSWERS"], "w") as f:
        json.dump(answers, f)
