import { expect, test } from "vitest";
import { parse } from "yaml";
import type { Task } from "./api/client";
import { draftFrom, emptyDraft, toForm, withForm, within } from "./draft";

test("the form writes YAML and reads the same back", () => {
  const filled = {
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
    framework: "deepspeed",
    inside: [],
    fromTask: "task-1",
    fromStep: 40,
  };
  expect(toForm(withForm(emptyDraft, filled))).toEqual(filled);
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
