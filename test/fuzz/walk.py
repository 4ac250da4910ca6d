"""The walk: every operation once, as it is meant to be called. What it makes stays for the fuzzing."""

import collections
import hashlib
import time

import schemathesis
from schemathesis import checks
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi import checks as openapi

TASK = {"metadata": {"name": "walked"}, "spec": {"roles": [{
    "command": ["sh", "-c", "echo hello; echo result > $FERMI_OUTPUT/out.txt"]}]}}
MANIFESTS = {
    "zones": {"spec": {"region": "walk"}},
    "queues": {"spec": {"maxPending": 10}},
    "projects": {"spec": {"queue": "default"}},
    "users": {"spec": {"role": "viewer"}},
    "tokens": {"spec": {"user": "fuzzer"}},
    "secrets": {"spec": {"data": {"key": "value"}}},
}
PASSWORD = "walk, don't run"
CHECKS = [checks.not_a_server_error, openapi.status_code_conformance, openapi.content_type_conformance,
          openapi.response_headers_conformance, openapi.response_schema_conformance]


class Walk:
    def __init__(self, document, server, secret):
        self.base = server.base
        # Of a watch what exists and synced, at least.
        schema = schemathesis.openapi.from_dict(document, config=SchemathesisConfig.from_dict({"max-stream-events": 2}))
        self.auth = {"Authorization": "Bearer " + secret}
        self.answers = collections.defaultdict(collections.Counter)
        self.problems = []
        self.names = {}
        self.operations = {}
        for found in schema.get_all_operations():
            operation = found.ok()
            self.operations[operation.definition.raw["operationId"]] = operation

    def call(self, id, expect=200, name=None, headers=None, auth=True, timeout=10, **parts):
        """One call; anything but the expected status or an answer outside the document is a problem."""
        operation = self.operations.pop(id, None) or self.again[id]
        self.again[id] = operation
        if name:
            parts["path_parameters"] = {"name": name} | parts.get("path_parameters", {})
        if "body" in parts:
            parts.setdefault("media_type", "application/json")
        case = operation.Case(**parts)
        response = case.call(base_url=self.base, headers=(self.auth if auth else {}) | (headers or {}), timeout=timeout)
        self.answers[operation.label][response.status_code] += 1
        if response.status_code != expect:
            self.problems.append(f"walk: {operation.label} answered {response.status_code}, not {expect}: {response.text[:300]}")
        try:
            case.validate_response(response, checks=CHECKS)
        except (AssertionError, BaseExceptionGroup) as e:
            self.problems.append(f"walk: {operation.label}: {e} {getattr(e, 'exceptions', '')}")
        return response

    def run(self):
        self.again = {}
        for id in "healthz", "readyz", "metrics", "openapi", "version", "whoami", "getSession", "backup", "listAudit", "exportAudit", "listEvents", "sumUsage", "sumFigures", "listCapacity", "listDevices", "listShare":
            self.call(id)
        self.call("sumFigures", expect=404, query={"project": "none"})
        self.call("rotate", body={"keys": ["link-key"]})
        self.call("rotate", expect=400, body={"keys": ["none"]})
        self.archive()
        for kind, manifest in MANIFESTS.items():
            self.kind(kind, manifest)
        self.environments()
        self.services()
        self.task()
        self.node()
        self.planning()
        self.sessions()
        if self.operations:
            self.problems.append(f"walk: never called: {', '.join(sorted(self.operations))}")

    def archive(self):
        digest = "sha256:" + hashlib.sha256(b"code").hexdigest()
        self.call("putArchive", body=b"code", media_type="application/octet-stream")
        self.call("putArchive", expect=415, body=b"code", media_type="application/octet-stream", headers={"Content-Type": "text/plain"})
        self.call("getArchive", path_parameters={"digest": digest})

    def kind(self, plural, manifest):
        word = plural[:-1].capitalize()
        names = [f"walk-{i}" for i in range(12)]
        for name in names:
            self.call("create" + word, body=manifest | {"metadata": {"name": name}})
        self.call("create" + word, expect=409, body=manifest | {"metadata": {"name": names[0]}})
        self.call("create" + word, expect=400, body={"metadata": {"name": "No Name"}})
        self.read(word, names[0])
        read = self.call("get" + word, name=names[1]).json()["data"]
        read["metadata"]["displayName"] = "changed"
        if plural == "secrets":
            read.pop("status", None)
        self.call("update" + word, name=names[1], body=read)
        self.call("update" + word, expect=409, name=names[1], body=read)
        self.call("delete" + word, name=names[1])
        self.call("delete" + word, expect=404, name=names[1])
        self.leave(plural, names[2:6], names[6:])

    def leave(self, plural, stay, go):
        """Names for the fuzzing: go may be deleted, or there would soon be nothing to call anything else on."""
        self.names[plural, "DELETE"] = go
        self.names[plural, ""] = stay

    def read(self, word, name):
        self.call("list" + word)
        self.call("get" + word, name=name)
        self.call("get" + word, expect=404, name="none")
        self.call("watch" + word, query={"minRevision": 1})

    def task(self):
        self.call("createTrainingTask", body=TASK)
        self.until(lambda: self.call("getTrainingTask", name="walked").json()["data"]["status"]["phase"] == "Completed")
        self.until(lambda: self.call("listTaskOutputs", name="walked").json()["data"]["items"])
        self.read("TrainingTask", "walked")
        for id in "explainTask", "listTaskEvents", "listTaskReplicas", "listTaskCheckpoints", "listTaskMetrics", "readTaskLog":
            self.call(id, name="walked")
        self.call("openTerminalOfTrainingTask", expect=409, name="walked")
        self.call("readTaskMetrics", name="walked", query={"name": "loss"})
        self.call("readTaskLog", name="walked", query={"follow": "true"}, headers={"Accept": "text/event-stream"})
        path = self.call("listTaskOutputs", name="walked").json()["data"]["items"][0]["path"]
        output = {"name": "walked", "path_parameters": {"path": path}}
        self.call("readTaskOutput", **output)
        self.call("readTaskOutput", expect=206, headers={"Range": "bytes=0-1"}, **output)
        self.call("readTaskOutput", expect=416, headers={"Range": "bytes=1000-"}, **output)
        self.call("readTaskOutput", expect=412, headers={"If-Match": '"other"'}, **output)
        self.call("readTaskOutput", expect=304, headers={"If-Modified-Since": "Thu, 01 Jan 2099 00:00:00 GMT"}, **output)
        clone = self.call("cloneTask", name="walked", body={}).json()["data"]["name"]
        self.call("stopTask", name=clone)
        self.until(lambda: self.call("getTrainingTask", name=clone).json()["data"]["status"]["phase"] in ("Stopped", "Completed"))
        read = self.call("getTrainingTask", name=clone).json()["data"]
        read["spec"]["description"] = "changed"
        self.call("updateTrainingTask", name=clone, body=read)
        self.call("deleteTrainingTask", name=clone)
        self.checkpoints()
        # One that runs while the fuzzing does, and one that never will: placements and reasons to look at.
        sleeper = {"metadata": {"name": "sleeper"}, "spec": {"roles": [{"command": ["sleep", "86400"]}]}}
        self.call("createTrainingTask", body=sleeper)
        self.call("createQueue", body={"metadata": {"name": "halted"}, "spec": {"paused": True, "projects": ["default"]}})
        waiter = {"metadata": {"name": "waiter"}, "spec": {"queue": "halted", "roles": [{"command": ["true"]}]}}
        self.call("createTrainingTask", body=waiter)
        self.until(lambda: self.call("getShare", name="halted").json()["data"]["waiting"] == 1)
        self.call("getShare", expect=404, name="none")
        self.names["shares", ""] = ["halted", "default"]
        self.until(lambda: self.call("listPlacement").json()["data"]["items"])
        placement = self.call("listPlacement").json()["data"]["items"][0]["metadata"]["name"]
        self.read("Placement", placement)
        self.until(lambda: self.call("getTrainingTask", name="sleeper").json()["data"]["status"]["phase"] == "Running")
        self.call("createZone", body={"metadata": {"name": "nobody"}, "spec": {"region": "walk"}})
        # Before a node is drained: then sleeper waits for a place again.
        self.call("previewExisting", body={"taskName": "t", "launchMode": "existing", "distributedConfig": {"nodeIds": ["sleeper"]}})
        self.call("previewExisting", expect=400, body={"taskName": "t", "launchMode": "existing", "distributedConfig": {"nodeIds": ["none"]}})
        self.call("createExisting", query={"dryRun": "true"}, body={"taskName": "t", "launchMode": "existing", "distributedConfig": {"nodeIds": ["sleeper"]}})
        self.call("createExisting", expect=400, body={"taskName": "t", "launchMode": "existing", "distributedConfig": {"nodeIds": ["none"]}})
        self.call("profileTask", name="sleeper", body={"rank": 0})
        hurt = {"metadata": {"name": "hurt"}, "spec": {"restartPolicy": {"maxRestarts": 3}, "roles": [{"command": ["sleep", "86400"]}]}}
        self.call("createTrainingTask", body=hurt)
        self.until(lambda: self.call("getTrainingTask", name="hurt").json()["data"]["status"]["phase"] == "Running")
        self.call("faultTask", name="hurt", body={"rank": 0, "kind": "kill"})
        self.call("faultTask", expect=409, name="sleeper", body={"rank": 0, "kind": "net"})
        self.call("faultTask", expect=404, name="sleeper", body={"rank": 99, "kind": "kill"})
        self.call("faultTask", expect=400, name="sleeper", body={"rank": 0, "kind": "flood"})
        self.call("moveTask", name="sleeper", body={"zone": "nobody", "preview": True})
        self.call("moveTask", expect=409, name="sleeper", body={"zone": "nobody"})
        self.call("moveTask", expect=400, name="sleeper", body={"zone": "nowhere"})
        self.call("moveTask", expect=400, name="sleeper", body={"away": ["nowhere"]})
        go = [f"go-{i}" for i in range(4)]
        for name in go:
            self.call("createTrainingTask", body=TASK | {"metadata": {"name": name}})
        self.leave("training-tasks", ["walked", "sleeper", "waiter"], go)
        self.names["placements", ""] = [placement]

    def checkpoints(self):
        """A task that saves; it is over before others need its cores."""
        learner = {"metadata": {"name": "learner"}, "spec": {"checkpoint": {"local": {"everySteps": 5}, "shared": {"everySteps": 5}}, "roles": [
            {"command": ["fermi", "sample", "train", "--steps", "100000", "--step-time", "5ms"], "ranks": 2}]}}
        self.call("createTrainingTask", body=learner)
        kept = lambda: self.call("listTaskCheckpoints", name="learner").json()["data"]["items"]
        phase = lambda: self.call("getTrainingTask", name="learner").json()["data"]["status"]["phase"]
        self.until(kept)
        self.call("restoreTask", expect=409, name="learner", body={"step": 1})
        self.call("stopTask", name="learner")
        self.until(lambda: phase() == "Stopped")
        step = kept()[-1]["step"]
        self.call("pinCheckpoint", name="learner", body={"step": step})
        self.call("verifyCheckpoints", name="learner", body={})
        self.call("verifyCheckpoints", expect=400, name="learner", body={"step": step + 1})
        self.call("pinCheckpoint", expect=400, name="learner", body={"step": step + 1})
        self.call("restoreTask", expect=400, name="learner", body={"step": step + 1})
        self.slots(step, self.call("listTaskCheckpoints", name="learner").json()["data"]["items"][-1]["ranks"])
        self.call("restoreTask", name="learner", body={"step": step})
        self.call("stopTask", name="learner")
        self.until(lambda: phase() == "Stopped")

    def slots(self, step, ranks):
        """What the ranks have of a checkpoint goes out, and into a new task."""
        self.call("readCheckpointRank", expect=400, name="learner", path_parameters={"step": str(step), "rank": str(ranks)})
        self.call("readCheckpointRank", expect=400, name="learner", path_parameters={"step": str(step + 1), "rank": "0"})
        waiting = {"metadata": {"name": "waiting"}, "spec": {"checkpoint": {"from": {"upload": True}}, "roles": [
            {"command": ["fermi", "sample", "train", "--steps", str(step + 1)], "ranks": ranks}]}}
        self.call("createTrainingTask", body=waiting)
        parts = []
        for rank in range(ranks):
            at = {"step": str(step), "rank": str(rank)}
            sent = self.call("readCheckpointRank", name="learner", path_parameters=at).content[:-32]  # without its sum
            head, rest = sent[-4096:], sent[:-4096]
            data = int.from_bytes(head[40:48], "little")
            file = {"name": "waiting", "path_parameters": at, "media_type": "application/octet-stream"}
            self.call("putCheckpointRank", expect=400, body=head + rest, **file)
            parts.append(self.call("putCheckpointRank", body=head + rest[data:] + rest[:data], **file).json()["data"])
        self.call("importCheckpoint", expect=400, name="waiting", body={"step": step, "parts": parts[1:]})
        self.call("importCheckpoint", name="waiting", body={"step": step, "parts": parts})
        self.call("importCheckpoint", expect=409, name="waiting", body={"step": step, "parts": parts})
        self.call("putCheckpointRank", expect=409, name="walked", path_parameters={"step": "1", "rank": "0"}, body=b"x", media_type="application/octet-stream")

    def environments(self):
        self.call("createDevEnvironment", body={"metadata": {"name": "bench"}, "spec": {}})
        phase = lambda: self.call("getDevEnvironment", name="bench").json()["data"]["status"]["phase"]
        self.until(lambda: phase() == "Running")
        self.read("DevEnvironment", "bench")
        for id in "explainDevEnvironment", "listDevEnvironmentEvents", "listDevEnvironmentReplicas", "readDevEnvironmentLog":
            self.call(id, name="bench")
        self.call("openTerminalOfDevEnvironment", expect=400, name="bench")
        self.call("stopDevEnvironment", name="bench")
        self.until(lambda: phase() == "Stopped")
        self.call("startDevEnvironment", name="bench")
        self.until(lambda: phase() == "Running")
        read = self.call("getDevEnvironment", name="bench").json()["data"]
        read["metadata"]["displayName"] = "changed"
        self.call("updateDevEnvironment", name="bench", body=read)
        go = [f"bench-{i}" for i in range(4)]
        for name in go:
            self.call("createDevEnvironment", body={"metadata": {"name": name}, "spec": {"stop": True}})
        self.call("deleteDevEnvironment", name=go[0])
        self.call("stopDevEnvironment", name="bench")  # others need its core
        self.until(lambda: phase() == "Stopped")
        self.leave("dev-environments", ["bench"], go[1:])

    def services(self):
        answer = {"spec": {"template": {"command": ["python3", "-m", "http.server", "8000"], "port": 8000}}}
        self.call("createInferenceService", body=answer | {"metadata": {"name": "answers"}})
        phase = lambda: self.call("getInferenceService", name="answers").json()["data"]["status"].get("phase")
        self.until(lambda: phase() == "Running")
        self.read("InferenceService", "answers")
        for id in "explainService", "listServiceEvents", "listServiceReplicas", "readInferenceServiceLog":
            self.call(id, name="answers")
        replica = self.call("listServiceReplica").json()["data"]["items"][0]["metadata"]["name"]
        self.read("ServiceReplica", replica)
        self.call("readServiceReplicaLog", name=replica)
        self.read("ServiceEndpoints", "answers")
        self.call("openTerminalOfInferenceService", expect=400, name="answers")
        self.call("openTerminalOfServiceReplica", expect=403, name=replica)
        self.call("scaleService", name="answers", body={"replicas": 1})
        self.call("stopService", name="answers")
        self.until(lambda: phase() == "Stopped")
        self.call("startService", name="answers")
        self.until(lambda: phase() == "Running")
        read = self.call("getInferenceService", name="answers").json()["data"]
        read["metadata"]["displayName"] = "changed"
        self.call("updateInferenceService", name="answers", body=read)
        go = [f"answer-{i}" for i in range(4)]
        for name in go:
            self.call("createInferenceService", body=answer | {"metadata": {"name": name}})
            self.call("stopService", name=name)
        self.call("deleteInferenceService", name=go[0])
        self.call("stopService", name="answers")
        self.until(lambda: phase() == "Stopped")
        self.leave("inference-services", ["answers"], go[1:])

    def node(self):
        node = self.call("listNode").json()["data"]["items"][0]["metadata"]["name"]
        self.read("Node", node)
        for id in "previewDrain", "cordonNode", "drainNode", "uncordonNode":
            self.call(id, name=node)
            self.call(id, expect=404, name="none")
        self.call("faultNode", name=node, expect=400, body={"device": 99, "kind": "ecc"})
        self.call("testNode", expect=409, name=node)  # nothing is closed
        self.call("lostNode", name=node)
        self.call("uncordonNode", name=node)
        self.names["nodes", ""] = [node]

    def planning(self):
        wish = {"metadata": {"name": "wish"}, "spec": {"roles": [{"command": ["true"]}]}}
        self.call("previewPlacement", body=wish)
        self.call("previewPlacement", expect=400, body={"spec": {}})
        self.call("previewRecipe", body=wish | {"spec": wish["spec"] | {"framework": "deepspeed", "precision": "fp16"}})
        self.call("previewRecipe", expect=400, body=wish | {"spec": wish["spec"] | {"framework": "pytorch-ddp", "strategy": {"tensor": 2}}})
        zone = self.call("listZone").json()["data"]["items"][0]["metadata"]["name"]
        for name in "near", "far":
            self.call("createZone", body={"metadata": {"name": name}, "spec": {"region": "walk"}})
        self.call("measureZone", name="near", body={"to": {"far": {"p50Ms": 1.5, "p99Ms": 3, "samples": 10}}})
        self.call("zoneMatrix")
        self.call("previewOutage", name=zone)
        self.call("previewOutage", expect=404, name="none")
        self.call("measureZone", expect=404, name="none", body={"to": {zone: {"p50Ms": 1.5, "p99Ms": 3, "samples": 10}}})

    def sessions(self):
        code = self.call("makeSignInCode").json()["data"]["code"]
        self.call("signIn", auth=False, body={"code": code})
        self.call("signIn", auth=False, expect=401, body={"code": code})
        self.call("setPassword", name="walk-2", body={"password": PASSWORD})
        self.call("signIn", auth=False, expect=401, body={"user": "walk-2", "password": "another one"})
        for _ in range(2):
            signed = self.call("signIn", auth=False, body={"user": "walk-2", "password": PASSWORD})
        cookie = {"Cookie": signed.headers["set-cookie"][0].split(";")[0], "Origin": self.base}
        self.call("getSession", auth=False, headers=cookie)
        self.call("signOut", auth=False, headers=cookie)
        self.call("getSession", auth=False, expect=401, headers=cookie)
        self.call("signOut", expect=400)
        self.call("signOutEverywhere", query={"user": "walk-2"})

    def until(self, done):
        deadline = time.monotonic() + 60
        while not done():
            if time.monotonic() > deadline:
                raise TimeoutError("the walk waited for a minute")
            time.sleep(0.1)
