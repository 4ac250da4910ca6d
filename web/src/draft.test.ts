import { expect, test } from "vitest";
import { parse } from "yaml";
import type { Task } from "./api/client";
import {
  blankCommand,
  draftAgain,
  draftFrom,
  emptyDraft,
  type Form,
  scalarOf,
  shownCommand,
  toForm,
  withForm,
  within,
} from "./draft";

test("the form writes YAML and reads the same back", () => {
  const filled: Form = {
    project: "vision",
    queue: "night",
    code: "git",
    archive: "",
    gitUrl: "https://example.org/a.git",
    gitRevision: "v1",
    gitSecret: "deploy",
    folder: "",
    requirements: "requirements.txt",
    params: [
      { name: "lr", value: "0.10", at: "spec.hyperParameters.lr" },
      { name: "big", value: "12345678901234567890", at: "spec.hyperParameters.big" },
      { name: "say", value: "yes: no", at: "spec.hyperParameters.say" },
      { name: "a b", value: "true", at: 'spec.hyperParameters["a b"]' },
    ],
    secrets: [
      { as: "variable", name: "HF_TOKEN", secret: "hub", key: "token", at: "spec.roles[0].env[0]" },
      { as: "file", name: "key.pem", secret: "hub", key: "pem", at: "spec.roles[0].secretFiles[0]" },
    ],
    datasets: ["corpus", "faces@3"],
    displayName: 'GPT "大模型": <b>&amp;',
    command: "python train.py --lr '0.1' # not a comment",
    image: "registry.example.org:5000/team/train@sha256:0123",
    replicas: 4,
    deviceType: "Ascend 910",
    devices: 8,
    cpu: "500m",
    memory: "16Gi",
    priorityClass: "preemptible",
    zones: ["beijing-1", "shanghai-1"],
    spot: "prefer",
    priceWeight: 3,
    carbonWeight: 1,
    latencyWeight: 0,
    stay: true,
    framework: "deepspeed",
    inside: [],
    fromTask: "task-1",
    fromStep: 40,
  };
  const yaml = withForm(emptyDraft, filled);
  expect(toForm(yaml)).toEqual({
    ...filled,
    params: [{ ...filled.params[0], value: "0.1" }, ...filled.params.slice(1)],
  });
  expect(yaml).toContain("big: 12345678901234567890\n");
  expect(parse(yaml).spec.hyperParameters).toMatchObject({ lr: 0.1, say: "yes: no", "a b": true });
});

test("comments and unknown fields survive, emptied values leave no trace", () => {
  const yaml = `# mine
metadata: {displayName: a}
spec:
  hyperParameters: {lr: 0.1} # keep
  roles:
    - command: [python, "my file.py"]
      resources: {cpu: "2", accelerators: {type: H800, count: 8}}
`;
  expect(toForm(yaml)?.command).toBe("python 'my file.py'");
  const next = withForm(yaml, { cpu: "", deviceType: "", devices: 0, displayName: "b" });
  expect(next).toContain("# mine");
  expect(next).toContain("lr: 0.1");
  expect(next).toContain("# keep");
  expect(next).toContain("displayName: b");
  expect(next).not.toContain("resources");
});

test("datasets keep what the form does not know", () => {
  const yaml =
    "spec:\n  datasets:\n    - {name: corpus, path: /data/c} # keep\n    - {name: faces, version: 3}\n  roles: [{}]\n";
  expect(toForm(yaml)?.datasets).toEqual(["corpus", "faces@3"]);
  const next = withForm(yaml, { datasets: ["faces", "corpus@2", "new"] });
  expect(parse(next).spec.datasets).toEqual([
    { name: "faces" },
    { name: "corpus", path: "/data/c", version: "2" },
    { name: "new" },
  ]);
  expect(next).toContain("# keep");
  expect(withForm(next, { datasets: [] })).not.toContain("datasets");
});

test("what is no manifest is left alone", () => {
  for (const bad of ["a: [", "- 1", "just text", "a: 1\na: 2"]) {
    expect(toForm(bad), bad).toBeUndefined();
    expect(withForm(bad, { displayName: "x" }), bad).toBe(bad);
  }
  expect(withForm("spec: {roles: {}}", { command: "true" })).toContain("sh");
  const odd = "metadata: 7\n";
  expect(withForm(odd, { displayName: "x" })).toBe(odd);
  expect(toForm(withForm("", { displayName: "x", command: "true" }))?.command).toBe("true");
});

test("weights and a wish to stay leave no trace when they are taken back", () => {
  const wished = withForm(emptyDraft, { priceWeight: 3, latencyWeight: 2, stay: true });
  expect(parse(wished).spec.zones).toEqual({ prefer: { price: 3, latency: 2 }, stay: true });
  const less = withForm(wished, { priceWeight: 0, stay: false });
  expect(parse(less).spec.zones).toEqual({ prefer: { latency: 2 } });
  expect(withForm(less, { latencyWeight: 0 })).not.toContain("zones");
  expect(withForm(wished, within(["lab"]))).not.toContain("zones");
});

test("aliases cannot grow without end", () => {
  let bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n";
  for (let i = 1; i < 9; i++)
    bomb += `a${i}: &a${i} [${Array(9)
      .fill(`*a${i - 1}`)
      .join(",")}]\n`;
  expect(toForm(bomb)).toBeUndefined();
});

test("inside others a task has a replica in each and asks for nothing itself", () => {
  const asked = withForm(emptyDraft, { devices: 8, deviceType: "H800", cpu: "2", zones: ["beijing-1"] });
  const inside = withForm(asked, within(["b", "a"]));
  expect(toForm(inside)).toMatchObject({
    inside: ["b", "a"],
    replicas: 2,
    devices: 0,
    deviceType: "",
    cpu: "",
    zones: [],
    spot: "",
  });
  expect(inside).not.toContain("resources");
  const none = withForm(inside, within([]));
  expect(none).not.toContain("inside");
  expect(toForm(none)?.replicas).toBe(1);
});

const saved = {
  kind: "TrainingTask",
  metadata: {
    id: "task-1",
    name: "gpt-7x2k9",
    displayName: "GPT\nspec: {}",
    project: "vision",
    labels: { a: "b" },
    revision: 7,
  },
  spec: {
    roles: [{ name: "worker", replicas: 2, command: ["python3", "train.py"] }],
    hyperParameters: { lr: 0.1 },
    stop: true,
    restore: { name: "1-40", step: 40, attempt: 1, generation: 1, at: "2026-01-01T00:00:00Z" },
    checkpoint: { local: { everySteps: 20 }, from: { task: "older", step: 3 } },
  },
  status: { phase: "Stopped" },
} as unknown as Task;

test("a new task begins from another's checkpoint and is like it otherwise", () => {
  const yaml = draftFrom(saved, 40, "next");
  expect(toForm(yaml)).toMatchObject({ displayName: "next", command: "python3 train.py", replicas: 2 });
  expect(toForm(yaml)).toMatchObject({ fromTask: "task-1", fromStep: 40 });
  const js = parse(yaml);
  expect(js.metadata).toEqual({ displayName: "next", project: "vision", labels: { a: "b" } });
  expect(js.spec).toEqual({
    roles: saved.spec.roles,
    hyperParameters: { lr: 0.1 },
    checkpoint: { local: { everySteps: 20 }, from: { task: "task-1", step: 40 } },
  });
});

test("where it begins can be taken away again", () => {
  const none = { fromTask: "", fromStep: 0 };
  const yaml = withForm(draftFrom(saved, 40, "next"), none);
  expect(parse(yaml).spec.checkpoint).toEqual({ local: { everySteps: 20 } });
  const alone = { ...saved, spec: { roles: saved.spec.roles } } as Task;
  expect(withForm(draftFrom(alone, 40, "next"), none)).not.toContain("checkpoint");
});

test("where the code comes from is one of four", () => {
  const as = (code: Form["code"], more: Partial<Form> = {}) => parse(withForm(emptyDraft, { code, ...more })).spec.code;
  expect(as("archive", { archive: "sha256:1" })).toEqual({ archive: "sha256:1" });
  expect(as("git", { gitUrl: "https://a", gitRevision: "" })).toEqual({ git: { url: "https://a" } });
  expect(as("folder", { folder: "data/x" })).toEqual({ folder: "data/x" });
  expect(as("none")).toBeUndefined();
  for (const code of ["archive", "git", "folder"] as const) {
    const chosen = withForm(emptyDraft, { code });
    expect(toForm(chosen)?.code).toBe(code);
    expect(parse(withForm(chosen, { code: "none" })).spec.code).toBeUndefined();
    const emptied = withForm(
      withForm(chosen, { gitUrl: code === "git" ? "x" : undefined }),
      code === "git" ? { gitUrl: "" } : {},
    );
    expect(toForm(emptied)?.code, "an emptied field does not change the choice").toBe(code);
  }
});

test("parameters and secrets leave alone what is not theirs", () => {
  const yaml = `spec:
  hyperParameters:
    lr: 0.1 # tuned
    layers: [1, 2]
    gone: 1
  roles:
    - command: [a]
      env:
        # for the library
        - {name: PLAIN, value: x}
        - {name: OLD, valueFrom: {secret: s, key: k}}
`;
  const next = withForm(yaml, {
    params: [
      { name: "lr", value: "0.2" },
      { name: "new", value: "" },
    ],
    secrets: [{ as: "file", name: "f", secret: "s", key: "k" }],
  });
  expect(parse(next).spec).toEqual({
    hyperParameters: { lr: 0.2, layers: [1, 2], new: "" },
    roles: [
      { command: ["a"], env: [{ name: "PLAIN", value: "x" }], secretFiles: [{ name: "f", secret: "s", key: "k" }] },
    ],
  });
  expect(next).toContain("# tuned");
  expect(next).toContain("# for the library");
  const none = withForm(next, { params: [], secrets: [] });
  expect(parse(none).spec.roles[0].secretFiles).toBeUndefined();
  expect(parse(none).spec.hyperParameters).toEqual({ layers: [1, 2] });
});

test("what was typed is a number where it is one", () => {
  expect(["0.1", "-3", "1e-4", "true", "01", "0x10", "", " 1", "NaN"].map(scalarOf)).toEqual([
    0.1,
    -3,
    1e-4,
    true,
    "01",
    "0x10",
    "",
    " 1",
    "NaN",
  ]);
});

test("a task is run again with the same code, and begins where it began", () => {
  const js = parse(draftAgain({ ...saved, spec: { ...saved.spec, code: { archive: "sha256:1" } } } as Task));
  expect(js.metadata).toEqual({ displayName: "GPT\nspec: {}", project: "vision", labels: { a: "b" } });
  expect(js.spec.code).toEqual({ archive: "sha256:1" });
  expect(js.spec.checkpoint.from).toEqual({ task: "older", step: 3 });
  expect(js.spec.stop).toBeUndefined();
  expect(js.spec.restore).toBeUndefined();
  const uploaded = {
    ...saved,
    spec: { ...saved.spec, checkpoint: { from: { upload: true } } },
    status: { from: { taskId: "task-1", name: "1-20", step: 20 } },
  } as unknown as Task;
  expect(parse(draftAgain(uploaded)).spec.checkpoint.from).toEqual({ task: "task-1", step: 20 });
});

test("a command that does nothing is known as one", () => {
  expect(blankCommand(emptyDraft)).toBe(true);
  expect(blankCommand(withForm(emptyDraft, { command: "  " }))).toBe(true);
  expect(blankCommand(withForm(emptyDraft, { command: "true" }))).toBe(false);
  for (const yaml of ["spec: {roles: [{image: a}]}", "spec: {roles: {}}", "a: [", "7", "spec: 7"]) {
    expect(blankCommand(yaml), yaml).toBe(false);
  }
});

test("plain words of Python need no shell; anything else has one", () => {
  const argv = (command: string) => parse(withForm(emptyDraft, { command })).spec.roles[0].command;
  expect(argv("python train.py --lr=0.1")).toEqual(["python", "train.py", "--lr=0.1"]);
  expect(argv("/usr/bin/python3.11  -m  train ")).toEqual(["/usr/bin/python3.11", "-m", "train"]);
  for (const shell of [
    "python a.py && echo",
    "python $X",
    "python 'a b.py'",
    "X=1 python a.py",
    "cd a",
    "pythonic",
    "",
    "python *.py",
    "python a.py\necho",
  ]) {
    expect(argv(shell), shell).toEqual(["sh", "-c", shell]);
    expect(shownCommand(shell)).toBe(shell);
  }
  expect(shownCommand("python  a.py ")).toBe("python a.py");
});
