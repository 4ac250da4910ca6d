import fc from "fast-check";
import { expect, test } from "vitest";
import { phases, sorts } from "./api/queries";
import { router } from "./router";
import { readOrigin, readSearch } from "./search";

test("an address says only what is known", () => {
  expect(readSearch({ phase: ["Running", "<script>", 7], search: "训练", sort: "-createdAt", x: 1 })).toEqual({
    phase: ["Running"],
    search: "训练",
    sort: "-createdAt",
  });
  expect(readSearch({ sort: "size", search: {}, phase: null })).toEqual({});
  expect(readSearch({ search: "x".repeat(1000) }).search).toHaveLength(128);
});

test("an address is read as people write it", () => {
  expect(readSearch({ phase: "Failed" })).toEqual({ phase: ["Failed"] });
  expect(readSearch({ phase: "failed, RUNNING,nonsense" })).toEqual({ phase: ["Running", "Failed"] });
  expect(readSearch({ phase: ["failed", "Failed"] })).toEqual({ phase: ["Failed"] });
  expect(readSearch({ search: 42, sort: "CreatedAt" })).toEqual({ search: "42", sort: "createdAt" });
});

test("an address names a checkpoint to begin from, or a task to run again, or nothing", () => {
  expect(readOrigin({ from: "task-1", step: 40, x: 1 })).toEqual({ from: "task-1", step: 40 });
  expect(readOrigin({ from: "task-1", step: "40" })).toEqual({ from: "task-1", step: 40 });
  for (const step of [0, -1, 1.5, "4x", "", undefined, [], {}]) {
    expect(readOrigin({ from: "task-1", step }), String(step)).toEqual({});
  }
  expect(readOrigin({ step: 40 })).toEqual({});
  expect(readOrigin({ again: "task-1" })).toEqual({ again: "task-1" });
  expect(readOrigin({ again: ["task-1"], from: {} })).toEqual({});
});

const keys = ["phase", "search", "sort", "from", "step", "again", "x"];
const words = [
  "Failed",
  "failed",
  "[",
  '["Failed"]',
  '{"a":1}',
  "%",
  "%E0%A4%A",
  "null",
  "true",
  "-1",
  "1e999",
  "__proto__",
];
const value = fc.oneof(fc.constantFrom(...words), fc.string(), fc.json().map(encodeURIComponent));
const query = fc
  .array(fc.tuple(fc.constantFrom(...keys), value), { maxLength: 6 })
  .map((pairs) => pairs.map(([k, v]) => `${k}=${v}`).join("&"));

test("no query breaks a page, whatever it says", () => {
  const paths = Object.keys(router.routesByPath).map((path) => path.replace("$name", "task-1"));
  expect(paths.length).toBeGreaterThan(5);
  fc.assert(
    fc.property(fc.constantFrom(...paths), query, (path, text) => {
      const parsed = router.options.parseSearch(`?${text}`) as Record<string, unknown>;
      for (const match of router.matchRoutes(path, parsed)) {
        expect(match.searchError).toBeUndefined();
        const { phase, search, sort, from, step, again } = match.search as Record<string, unknown>;
        if (match.routeId === "/tasks/") {
          expect(phase === undefined || (Array.isArray(phase) && phase.every((p) => phases.includes(p)))).toBe(true);
          expect(search === undefined || typeof search === "string").toBe(true);
          expect(sort === undefined || sorts.some((s) => s === sort)).toBe(true);
        }
        if (match.routeId === "/create") {
          expect(from === undefined || typeof from === "string").toBe(true);
          expect(step === undefined || Number.isSafeInteger(step)).toBe(true);
          expect(again === undefined || typeof again === "string").toBe(true);
        }
      }
    }),
    { numRuns: 1000 },
  );
});
