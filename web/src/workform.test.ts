import { expect, test } from "vitest";
import type { Node } from "./api/client";
import { wordOf } from "./api/gateway";
import { newest } from "./api/nodes";
import type { Environment, Service } from "./api/works";
import { cardsOf, isClosed } from "./nodes";
import {
  emptyEnvironment,
  emptyService,
  environmentOf,
  placeAll,
  portsOf,
  repositoryOf,
  serviceOf,
  without,
} from "./workform";
import { environmentStanding, isOff, isUpdating, money, serviceStanding } from "./works";

const secrets = [
  { as: "file" as const, name: "key.pem", secret: "hub", key: "pem" },
  { as: "variable" as const, name: "TOKEN", secret: "hub", key: "token" },
];

test("a form says nothing that nobody said", () => {
  expect(environmentOf({ ...emptyEnvironment, displayName: "lab" })).toEqual({
    metadata: { displayName: "lab" },
    spec: { type: "notebook" },
  });
  expect(serviceOf({ ...emptyService, displayName: "chat" })).toEqual({
    metadata: { displayName: "chat" },
    spec: { replicas: 1, protocol: "rest", template: { engine: "sample" } },
  });
});

test("where a service is asked, and what its questions look like", () => {
  const form = { ...emptyService, displayName: "chat", path: " /v2/models/m/infer ", format: "kserve-v2" as const };
  expect(serviceOf(form)).toMatchObject({ spec: { path: "/v2/models/m/infer", format: "kserve-v2" } });
  expect(serviceOf({ ...form, protocol: "grpc" })).toEqual({
    metadata: { displayName: "chat" },
    spec: { replicas: 1, protocol: "grpc", path: "/v2/models/m/infer", template: { engine: "sample" } },
  });
  const fields = ["path", "format"].map((f) => ({ path: `spec.${f}`, message: f }));
  expect(placeAll(fields, form, []).at).toEqual({ path: "path", format: "format" });
});

test("an environment with everything", () => {
  const made = environmentOf({
    ...emptyEnvironment,
    displayName: "lab",
    type: "training",
    image: "torch:2",
    command: "tensorboard --logdir runs",
    devices: 2,
    deviceType: "A100",
    cpu: 8,
    memory: 1.5,
    spot: "never",
    storage: 50,
    zone: "beijing-1",
    restarts: 0,
    shared: true,
    variables: [
      { name: "", value: "" },
      { name: "A", value: "1" },
    ],
    secrets,
  });
  expect(made).toEqual({
    metadata: { displayName: "lab" },
    spec: {
      type: "training",
      image: "torch:2",
      command: ["sh", "-c", "tensorboard --logdir runs"],
      resources: { accelerators: { count: 2, type: "A100" }, cpu: "8", memory: "1536Mi" },
      spot: "never",
      env: [
        { name: "A", value: "1" },
        { name: "TOKEN", valueFrom: { secret: "hub", key: "token" } },
      ],
      secretFiles: [{ name: "key.pem", secret: "hub", key: "pem" }],
      storage: "51200Mi",
      zone: "beijing-1",
      restartPolicy: { maxRestarts: 0 },
      shared: true,
    },
  });
});

test("each refusal stands at its field, in its row, or above the form", () => {
  const form = {
    ...emptyService,
    variables: [
      { name: "", value: "" },
      { name: "1x", value: "" },
    ],
    secrets,
  };
  const fields = [
    { path: "spec.template.env[0].name", message: "a" },
    { path: "spec.template.env[1].valueFrom.secret", message: "b" },
    { path: "spec.template.secretFiles[0].name", message: "c" },
    { path: "spec.template.resources.cpu", message: "d" },
    { path: "metadata.name", message: "e" },
    { path: "spec.template.command", message: "f" },
    { path: "spec.nonsense", message: "g" },
  ];
  const placed = placeAll(fields, form, ["command"]);
  expect(placed.at).toEqual({ "variables.1": "a", "secrets.1": "b", "secrets.0": "c", cpu: "d", displayName: "e" });
  expect(placed.rest.map((f) => f.message)).toEqual(["f", "g"]);
  expect(Object.keys(without(placed, ["variables", "cpu"]).at)).toEqual(["secrets.1", "secrets.0", "displayName"]);
  expect(placeAll(fields.slice(4, 5), { ...form, id: "x" } as typeof form).at).toEqual({ id: "e" });
});

test("how work stands is told as the command line tells it", () => {
  const env = (spec: object, status: object, metadata: object = {}) =>
    ({ metadata, spec, status }) as unknown as Environment;
  expect(environmentStanding(env({}, { phase: "Running" })).word).toBe("env.state.Running");
  expect(environmentStanding(env({ stop: true }, { phase: "Running" })).word).toBe("work.stopping");
  expect(environmentStanding(env({ starts: 2 }, { phase: "Stopped", starts: 1 })).word).toBe("env.state.Pending");
  expect(isOff(env({ starts: 2 }, { phase: "Stopped", starts: 1 }))).toBe(false);
  expect(isOff(env({ starts: 1, stop: true }, { phase: "Stopped", starts: 1 }))).toBe(true);
  const svc = (spec: object, status: object) => ({ metadata: {}, spec, status }) as unknown as Service;
  expect(serviceStanding(svc({}, { phase: "Running", health: "degraded" })).word).toBe("svc.state.Degraded");
  expect(serviceStanding(svc({ stop: true }, { phase: "Running" })).word).toBe("work.stopping");
  const replicas = { wanted: 2, ready: 3, updated: 1, total: 3 };
  expect(isUpdating(svc({}, { phase: "Running", revision: 2, replicas }))).toBe(true);
  expect(isUpdating(svc({}, { phase: "Running", revision: 2, replicas: { ...replicas, updated: 2, total: 2 } }))).toBe(
    false,
  );
  expect([money(0, "CNY"), money(0.001, "CNY"), money(12.345, "CNY"), money(1, "USD")]).toEqual([
    "¥0",
    "¥0.0010",
    "¥12.35",
    "USD 1.00",
  ]);
});

test("a card is open only where nothing speaks against it", () => {
  const node = {
    metadata: { name: "n" },
    spec: { devices: [0, 1, 2, 3, 4].map((index) => ({ index, type: "A100" })), cordonedDevices: [4] },
    status: {
      ready: true,
      devices: [
        { device: 1, state: "out", since: "" },
        { device: 2, state: "open", since: "" },
      ],
      holds: [
        { replica: "a", owner: "t", reason: "LauncherSilent", heard: "", since: "", devices: [3] },
        { replica: "b", owner: "t", reason: "NodeLost", heard: "", since: "", devices: [2], released: true },
      ],
    },
  } as unknown as Node;
  expect(cardsOf(node, new Set([0])).map((c) => c.state)).toEqual(["used", "out", "open", "held", "cordoned"]);
  expect([0, 1, 2, 3, 4].map((i) => isClosed(node, i))).toEqual([false, true, false, true, true]);
});

test("an answer that comes after newer news changes nothing", () => {
  const at = (revision: number) => ({ metadata: { revision } }) as unknown as Node;
  expect(newest(at(30), at(28)).metadata.revision).toBe(30);
  expect(newest(at(28), at(30)).metadata.revision).toBe(30);
  expect(newest(undefined, at(28)).metadata.revision).toBe(28);
});

test("words of a streamed answer", () => {
  expect(wordOf('{"choices":[{"delta":{"content":"hi"}}]}')).toBe("hi");
  for (const none of ["[DONE]", "{}", "nonsense", '{"choices":[{"delta":{}}]}']) expect(wordOf(none)).toBeUndefined();
});

test("ports and repositories as people write them", () => {
  expect(portsOf("6006, 8080，9000 x")).toEqual([{ port: 6006 }, { port: 8080 }, { port: 9000 }, { port: 0 }]);
  expect(repositoryOf("", "s")).toBeUndefined();
  expect(repositoryOf("https://h/a.git@v1", "")).toEqual({ url: "https://h/a.git", revision: "v1" });
  expect(repositoryOf("git@h:team/a.git", "key")).toEqual({ url: "git@h:team/a.git", secret: "key" });
  expect(placeAll([{ path: "spec.ports[3].port", message: "no" }], emptyEnvironment).at).toEqual({ ports: "no" });
});
