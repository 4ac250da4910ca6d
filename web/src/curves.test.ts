import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Curve, firstNames, labelOf, lineOf, positive, smoothed, valueText } from "./curves";

const curve = (more: Partial<Curve>): Curve => ({
  name: "loss",
  role: "worker",
  rank: 0,
  generation: 2,
  steps: [1, 2, 3],
  times: [10, 20, 30],
  values: [3, null, 1],
  notFinite: [{ at: 1, is: "NaN" }],
  total: 3,
  ...more,
});

describe("curves", () => {
  it("shows what is trained for first", () => {
    const name = (n: string) => ({ name: n, replicas: ["worker-0"], generations: [1] });
    expect(firstNames(["acc", "loss", "step_time", "system/cpu"].map(name))).toEqual(["loss", "step_time"]);
    expect(firstNames(["step_time", "system/cpu"].map(name))).toEqual(["step_time", "system/cpu"]);
    expect(firstNames(["acc"].map(name))).toEqual(["acc"]);
    expect(firstNames([])).toEqual([]);
  });

  it("keeps holes, and one value a place", () => {
    const line = lineOf(curve({}), "step", "rank 0", 0);
    expect(line).toMatchObject({ x: [1, 2, 3], y: [3, null, 1], broken: 1 });
    const again = lineOf(curve({ steps: [5, 1, 5], values: [1, 2, 7] }), "step", "", 0);
    expect(again.x).toEqual([1, 5]);
    expect(again.y).toEqual([2, 7]);
    expect(lineOf(curve({}), "time", "", 0).x).toEqual([10, 20, 30]);
  });

  it("smooths between what was there", () => {
    fc.assert(
      fc.property(
        fc.array(fc.option(fc.double({ min: -1e6, max: 1e6, noNaN: true }), { nil: null })),
        fc.double({ min: 0, max: 0.99, noNaN: true }),
        (values, weight) => {
          const out = smoothed(values, weight);
          const numbers = values.filter((v) => v !== null);
          expect(out.length).toBe(values.length);
          out.forEach((v, i) => {
            expect(v === null).toBe(values[i] === null);
            if (v === null) return;
            expect(v).toBeGreaterThanOrEqual(Math.min(...numbers) - 1);
            expect(v).toBeLessThanOrEqual(Math.max(...numbers) + 1);
          });
        },
      ),
    );
    expect(smoothed([4, 4, 4], 0.9).map((v) => Number(v?.toFixed(6)))).toEqual([4, 4, 4]);
  });

  it("names lines by what tells them apart", () => {
    expect(labelOf(curve({}), "gpt", { tasks: false, generations: false }, "rank")).toBe("rank 0");
    expect(
      labelOf(curve({ rank: undefined, replica: "worker-1" }), "gpt", { tasks: true, generations: true }, "rank"),
    ).toBe("gpt · worker-1 · #2");
  });

  it("leaves out what a logarithmic axis can't show, and says how much", () => {
    const { line, left } = positive(lineOf(curve({ values: [0, -1, 2] }), "step", "", 0));
    expect(line.y).toEqual([null, null, 2]);
    expect(left).toBe(2);
  });

  it("writes values as their curves have them", () => {
    expect(valueText("system/memory", 2 ** 30)).toBe("1.0 GiB");
    expect(valueText("loss", 0.123456789)).toBe("0.12346");
    expect(valueText("lr", 0.00001)).toBe("1.00e-5");
    expect(valueText("loss", null)).toBe("—");
  });
});
