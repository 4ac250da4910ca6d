import { expect, test } from "vitest";
import { emptyImport, importFaults, importField, importTask } from "./importing";

const s3 = { ...emptyImport, name: "faces", at: "s3://photos/faces/", secret: "store" };
const folder = { ...emptyImport, from: "folder" as const, name: "faces", at: "pool/faces" };

test("a form says which of its fields are wrong", () => {
  expect(importFaults(s3)).toEqual({});
  expect(importFaults(folder)).toEqual({});
  expect(importFaults(emptyImport)).toEqual({
    name: "import.badName",
    at: "import.badBucket",
    secret: "import.noSecret",
  });
  expect(importFaults({ ...s3, name: "Faces!", at: "photos", endpoint: "minio:9000" })).toEqual({
    name: "import.badName",
    at: "import.badBucket",
    endpoint: "import.badEndpoint",
  });
  for (const at of ["", "/etc", "../x", "pool//x", "pool/../x"])
    expect(importFaults({ ...folder, at })).toEqual({ at: "import.badFolder" });
  expect(importFaults({ ...folder, reference: true })).toEqual({});
});

test("the task is the one that fermi data import makes", () => {
  const bucket = importTask({ ...s3, region: "r1", message: "first", project: "lab" });
  expect(bucket.metadata).toEqual({ displayName: "import faces", project: "lab" });
  expect(bucket.spec.credentials).toEqual([{ secret: "store" }]);
  expect(bucket.spec.roles[0]?.command.join(" ")).toBe(
    "fermi data import faces s3://photos/faces --secret store --region r1 --message first --here",
  );
  const whole = importTask({ ...folder, at: "pool", reference: true });
  expect(whole.spec.code).toEqual({ folder: "pool" });
  expect(whole.spec.roles[0]?.command.join(" ")).toBe("fermi data import faces --folder pool --reference --here");
});

test("what the server refuses stands at its field", () => {
  expect([
    importField("spec.credentials[0].secret"),
    importField("spec.code.folder"),
    importField("metadata.project"),
    importField("spec.queue"),
  ]).toEqual(["secret", "at", "project", undefined]);
});
