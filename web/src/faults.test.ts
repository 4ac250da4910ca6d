import { expect, test } from "vitest";
import { emptyDraft, type Form, toForm, withForm } from "./draft";
import { placeFaults, stillWrong } from "./faults";

const form = (patch: Partial<Form>) => toForm(withForm(emptyDraft, patch)) as Form;
const fault = (path: string, message = path) => ({ path, message });

test("every fault is at its field, and what has none is kept apart", () => {
  const sent = form({
    code: "git",
    params: [{ name: "lr", value: "x" }],
    secrets: [
      { as: "variable", name: "A", secret: "s", key: "k" },
      { as: "file", name: "f", secret: "s", key: "k" },
    ],
  });
  const got = placeFaults(
    [
      "metadata.name",
      "metadata.project",
      "spec.queue",
      "spec.code.git.url",
      "spec.code.archive",
      "spec.hyperParameters.lr",
      "spec.hyperParameters",
      "spec.roles[0].env[0].valueFrom.secret",
      "spec.roles[0].env[0].valueFrom.key",
      "spec.roles[0].secretFiles[0].name",
      "spec.roles[0].command",
      "spec.roles[0].resources.accelerators.share",
      "spec.roles[1].command",
      "spec.zones.allow[0]",
      "spec.nonsense",
      "",
    ].map((p) => fault(p)),
    sent,
  );
  expect(Object.keys(got.at).sort()).toEqual(
    ["command", "devices", "displayName", "gitUrl", "params", "project", "queue", "zones"].sort(),
  );
  expect(got.rows).toEqual({
    "spec.hyperParameters.lr": "spec.hyperParameters.lr",
    "spec.roles[0].env[0]": "spec.roles[0].env[0].valueFrom.secret spec.roles[0].env[0].valueFrom.key",
    "spec.roles[0].secretFiles[0]": "spec.roles[0].secretFiles[0].name",
  });
  expect(got.rest.map((f) => f.path)).toEqual(["spec.code.archive", "spec.roles[1].command", "spec.nonsense", ""]);
});

test("code that was not chosen is a fault of where it was to come from", () => {
  for (const [code, key] of [
    ["none", "code"],
    ["archive", "archive"],
    ["git", "gitUrl"],
    ["folder", "folder"],
  ] as const) {
    expect(Object.keys(placeFaults([fault("spec.code")], form({ code })).at)).toEqual([key]);
  }
});

test("where the YAML could not be read everything is kept apart", () => {
  expect(placeFaults([fault("spec.queue")], undefined)).toEqual({ at: {}, rows: {}, rest: [fault("spec.queue")] });
});

test("a field that was changed since is wrong no more", () => {
  const sent = form({ queue: "a", params: [{ name: "lr", value: "x" }] });
  const faults = placeFaults(
    [fault("spec.queue"), fault("metadata.project"), fault("spec.hyperParameters.lr"), fault("spec.x")],
    sent,
  );
  const now = form({ queue: "b", params: [{ name: "lr", value: "1" }] });
  expect(stillWrong(faults, sent, now)).toEqual({
    at: { project: "metadata.project" },
    rows: {},
    rest: [fault("spec.x")],
  });
  expect(stillWrong(faults, sent, sent)).toEqual(faults);
});
