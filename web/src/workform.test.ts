import { expect, test } from "vitest";
import type { Node } from "./api/client";
import { wordOf } from "./api/gateway";
import { newest } from "./api/nodes";
import type { Environment, Service } from "./api/works";
import { cardsOf, isClosed } from "./nodes";
import {
  afterTemplate,
  changed,
  emptyEnvironment,
  emptyService,
  environmentOf,
  formOf,
  placeAll,
  portsOf,
  repositoryOf,
  schemaOf,
  serviceOf,
  snapshotOf,
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

test("zones of a service, their replicas instead of its own, and refusals at their rows", () => {
  const zones = [
    { zone: "beijing-1", replicas: 2, weight: 80, role: "primary" as const, serves: "north, east" },
    { zone: "shanghai-1", replicas: "" as const, weight: "" as const, role: "backup" as const, serves: "" },
  ];
  const form = { ...emptyService, displayName: "chat", replicas: 7, zones };
  expect(serviceOf(form)).toEqual({
    metadata: { displayName: "chat" },
    spec: {
      zones: [
        { zone: "beijing-1", replicas: 2, weight: 80, serves: ["north", "east"] },
        { zone: "shanghai-1", role: "backup" },
      ],
      protocol: "rest",
      template: { engine: "sample" },
    },
  });
  const fields = ["zones[1].zone", "zones[0].weight", "zones"].map((f) => ({ path: `spec.${f}`, message: f }));
  const placed = placeAll(fields, form, ["replicas"]);
  expect(placed.at).toEqual({ "zones.1.zone": "zones[1].zone", "zones.0.weight": "zones[0].weight", zones: "zones" });
  expect(without(placed, ["zones"]).at).toEqual({});
  const env = { ...emptyEnvironment, zone: "nowhere" };
  expect(placeAll([{ path: "spec.zone", message: "z" }], env, []).at).toEqual({ zone: "z" });
});

test("a schema as JSON or YAML, for JSON alone", () => {
  const form = { ...emptyService, displayName: "p", format: "json" as const, schema: '{"type": "object"}' };
  expect(serviceOf(form)).toMatchObject({ spec: { format: "json", schema: { type: "object" } } });
  expect(schemaOf({ ...form, schema: "type: object\nrequired: [x]\n" })).toEqual({
    schema: { type: "object", required: ["x"] },
  });
  for (const bad of ["[1]", "just words", '{"type":', "3"])
    expect(schemaOf({ ...form, schema: bad }), bad).toEqual({ bad: true });
  expect(schemaOf({ ...form, format: "openai" })).toEqual({});
  expect(schemaOf({ ...form, protocol: "grpc" })).toEqual({});
  const fields = [{ path: "spec.schema.properties.x.type", message: "t" }];
  expect(placeAll(fields, form, []).at).toEqual({ schema: "t" });
});

test("an engine with a model of the registry and its options", () => {
  const form = {
    ...emptyService,
    displayName: "chat",
    engine: "vllm" as const,
    image: "vllm:0.12",
    modelFrom: "registry" as const,
    modelName: "qwen",
    modelVersion: " prod ",
    modelTask: "typed before",
    maxLength: 8192,
    tensorParallel: 4,
    precision: "bfloat16",
  };
  expect(serviceOf(form)).toMatchObject({
    spec: {
      template: {
        engine: "vllm",
        image: "vllm:0.12",
        model: { name: "qwen", version: "prod" },
        options: { maxLength: 8192, tensorParallel: 4, precision: "bfloat16" },
      },
    },
  });
  const sample = serviceOf({ ...form, engine: "sample", modelFrom: "task", modelTask: "first" }) as {
    spec: { template: object };
  };
  expect(sample.spec.template).toEqual({ engine: "sample", model: { task: "first" } });
  const fields = ["model.name", "model.version", "options.maxLength"].map((f) => ({
    path: `spec.template.${f}`,
    message: f,
  }));
  expect(placeAll(fields, form, []).at).toEqual({
    modelName: "model.name",
    modelVersion: "model.version",
    maxLength: "options.maxLength",
  });
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
  expect(snapshotOf("")).toBeUndefined();
  expect(snapshotOf("home-lab-x")).toEqual({ name: "home-lab-x" });
  expect(snapshotOf("home-lab-x@2")).toEqual({ name: "home-lab-x", version: "2" });
  expect(repositoryOf("git@h:team/a.git", "key")).toEqual({ url: "git@h:team/a.git", secret: "key" });
  expect(placeAll([{ path: "spec.ports[3].port", message: "no" }], emptyEnvironment).at).toEqual({ ports: "no" });
});

test("a template fills what the form does not say", () => {
  const base = {
    image: "pytorch",
    resources: { cpu: "16", memory: "128Gi", accelerators: { count: 2, type: "A100" } },
    env: [
      { name: "A", value: "1" },
      { name: "B", value: "1" },
    ],
    entryPoint: true,
  };
  expect(afterTemplate(base, {})).toEqual(base);
  expect(
    afterTemplate(base, {
      resources: { accelerators: { count: 1 } },
      env: [{ name: "B", value: "2" }],
      command: ["x"],
    }),
  ).toEqual({
    image: "pytorch",
    resources: { cpu: "16", memory: "128Gi", accelerators: { count: 1, type: "A100" } },
    env: [
      { name: "B", value: "2" },
      { name: "A", value: "1" },
    ],
    command: ["x"],
  });
});

test("an environment is changed by what was changed in its form, and nothing else", () => {
  const spec: Environment["spec"] = {
    type: "notebook",
    image: "a:1",
    command: ["python", "serve.py"],
    resources: { cpu: "500m", memory: "1536Mi", accelerators: { count: 2, type: "A100" }, processes: 100 },
    storage: "1537Mi",
    ports: [{ port: 6006, name: "board" }, { port: 80 }],
    env: [
      { name: "A", value: "1" },
      { name: "TOKEN", valueFrom: { secret: "hub", key: "token" } },
    ],
    secretFiles: [{ name: "key.pem", secret: "hub", key: "pem" }],
    idle: { never: true },
    schedule: { stop: "0 19 * * *" },
    starts: 3,
  };
  const before = formOf({ metadata: { name: "lab", project: "p" }, spec } as Environment);
  expect(before).toMatchObject({ cpu: 0.5, memory: 1.5, storage: 1.501, ports: "6006, 80", idle: "never" });
  expect(changed(spec, before, before)).toEqual(spec);
  const after = { ...before, cpu: 8, devices: 0, ports: "6006 9000", idle: "2h", stops: "", starts: "0 9 * * *" };
  expect(changed({ ...spec, stop: true }, before, { ...after, variables: [{ name: "A", value: "2" }] })).toEqual({
    ...spec,
    stop: true,
    resources: { cpu: "8", memory: "1536Mi", processes: 100 },
    ports: [{ port: 6006, name: "board" }, { port: 9000 }],
    env: [
      { name: "A", value: "2" },
      { name: "TOKEN", valueFrom: { secret: "hub", key: "token" } },
    ],
    idle: { after: "2h" },
    schedule: { start: "0 9 * * *" },
  });
  expect(changed(spec, before, { ...before, stops: "", ports: "", memory: "", secrets: [] })).toEqual({
    type: "notebook",
    image: "a:1",
    command: ["python", "serve.py"],
    resources: { cpu: "500m", accelerators: { count: 2, type: "A100" }, processes: 100 },
    storage: "1537Mi",
    env: [{ name: "A", value: "1" }],
    idle: { never: true },
    starts: 3,
  });
});
