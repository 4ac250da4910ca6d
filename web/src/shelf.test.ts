import { expect, test } from "vitest";
import { fits, folderAbove, lookTask, origin, readable } from "./shelf";

test("sizes and folders", () => {
  expect([readable("1536Mi"), readable("12"), readable(undefined)]).toEqual(["1.5 GiB", "12 B", "—"]);
  expect([folderAbove("a/b/c"), folderAbove("a"), folderAbove("")]).toEqual(["a/b", "", ""]);
});

test("where a version comes from", () => {
  expect([
    origin({ spec: {} }),
    origin({ spec: { origin: { task: "fit" } } }),
    origin({ spec: { origin: { imported: { folder: "pool/faces" } } } }),
    origin({ spec: { source: { s3: { bucket: "photos", prefix: "faces" } } } }),
    origin({ spec: { source: { s3: { bucket: "photos" } } } }),
  ]).toEqual(["", "fit", "pool/faces", "s3://photos/faces", "s3://photos"]);
});

test("who looks at a file of a bucket gets the account, and nothing is mounted for it", () => {
  const bucket = lookTask(
    "faces",
    { metadata: { project: "lab" }, spec: { number: 2, source: { s3: { secret: "store" } } } },
    "a/b",
  );
  expect(bucket.spec).toMatchObject({ credentials: [{ secret: "store" }] });
  expect(bucket.spec).not.toHaveProperty("datasets");
  expect(bucket.metadata.project).toBe("lab");
  const folder = lookTask("pool", { metadata: {}, spec: { number: 1, source: {} } }, "a b.csv");
  expect(folder.spec).toMatchObject({ datasets: [{ name: "pool", version: "1", path: "/data/pool" }] });
  expect(folder.spec.roles[0]?.command).toEqual(["fermi", "data", "look", "pool@1", "a b.csv"]);
});

test("an entry of the catalogue is found by its category and by all words", () => {
  const entry = {
    metadata: { name: "pytorch-24" },
    spec: {
      reference: "hub/pytorch:2.4",
      category: "official",
      framework: "PyTorch 2.4",
      description: { zh: "训练" },
      tags: ["cuda"],
    },
  };
  expect(fits(entry, "", "")).toBe(true);
  expect(fits(entry, "official", "pytorch CUDA")).toBe(true);
  expect(fits(entry, "official", "训练")).toBe(true);
  expect(fits(entry, "official", "jax")).toBe(false);
  expect(fits(entry, "custom", "")).toBe(false);
  expect(fits({ metadata: {}, spec: { reference: "a/b" } }, "custom", "b")).toBe(true);
});
