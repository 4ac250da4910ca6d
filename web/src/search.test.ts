import { expect, test } from "vitest";
import { readSearch } from "./search";

test("an address says only what is known", () => {
  expect(readSearch({ phase: ["Running", "<script>", 7], search: "训练", sort: "-createdAt", x: 1 })).toEqual({
    phase: ["Running"],
    search: "训练",
    sort: "-createdAt",
  });
  expect(readSearch({ phase: "Running", search: 7, sort: "size" })).toEqual({});
  expect(readSearch({ search: "x".repeat(1000) }).search).toHaveLength(128);
});
