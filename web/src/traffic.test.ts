import { describe, expect, it } from "vitest";
import { draftOf, trafficOf, wrongOf } from "./traffic";

const wish = {
  canary: {
    steps: [1, 100],
    every: "2m",
    minRequests: 5,
    maxErrors: 2,
    maxLatency: "500ms",
    check: "/ok",
    manual: true,
  },
  rules: [
    { header: "X-Group", value: "b", to: "canary" as const },
    { percent: 10, to: "stable" as const },
    { user: "ann", to: "canary" as const },
  ],
  shadow: { percent: 10 },
};

describe("the form of traffic", () => {
  it("gives back the wish that it was made of", () => {
    expect(trafficOf(draftOf(wish))).toEqual(wish);
    expect(trafficOf(draftOf(undefined))).toBeUndefined();
  });
  it("says which field can't be meant", () => {
    const good = draftOf(wish);
    expect(wrongOf(good)).toBeUndefined();
    expect(wrongOf({ ...good, steps: "50, 5" })).toBe("steps");
    expect(wrongOf({ ...good, steps: "" })).toBe("steps");
    expect(wrongOf({ ...good, every: "soon" })).toBe("every");
    expect(wrongOf({ ...good, maxLatency: "1" })).toBe("maxLatency");
    expect(wrongOf({ ...good, check: "//host/x" })).toBe("check");
    expect(wrongOf({ ...good, rules: [{ id: 1, by: "percent", name: "0", value: "", to: "canary" }] })).toBe("rule0");
    expect(wrongOf({ ...good, on: false, steps: "x" })).toBeUndefined();
  });
});
