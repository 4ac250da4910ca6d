import { expect, test } from "vitest";
import { readOrigin, readSearch } from "./search";

test("an address says only what is known", () => {
  expect(readSearch({ phase: ["Running", "<script>", 7], search: "训练", sort: "-createdAt", x: 1 })).toEqual({
    phase: ["Running"],
    search: "训练",
    sort: "-createdAt",
  });
  expect(readSearch({ phase: "Running", search: 7, sort: "size" })).toEqual({});
  expect(readSearch({ search: "x".repeat(1000) }).search).toHaveLength(128);
});

test("an address names a checkpoint to begin from, or none", () => {
  expect(readOrigin({ from: "task-1", step: 40, x: 1 })).toEqual({ from: "task-1", step: 40 });
  for (const step of [0, -1, 1.5, "40", undefined]) {
    expect(readOrigin({ from: "task-1", step }), String(step)).toEqual({});
  }
  expect(readOrigin({ step: 40 })).toEqual({});
  expect(readOrigin({ from: 7 })).toEqual({});
});
