import { expect, test } from "vitest";
import type { Distance } from "./apart";
import type { Zone } from "./api/client";
import { factorAt, firstShare, markOf, serviceOf, taskOf, totals, type Wish } from "./spread";

const zone = (name: string, price: object = {}, more: object = {}): Zone =>
  ({
    metadata: { name },
    spec: { region: "r", price, utcOffset: "+08:00" },
    status: { health: "healthy" },
    ...more,
  }) as Zone;
const apart = (from: string, to: string, declaredMs: number, p50Ms?: number): Distance =>
  ({ from, to, declaredMs, ...(p50Ms !== undefined && { measured: { p50Ms, at: "" } }) }) as Distance;

const a = { zone: "a", nodes: 2, devices: 8, cores: 64, memory: 256 };
const b = { zone: "b", nodes: 3, devices: 8, cores: 64, memory: 256 };

test("totals and the price of an hour follow what is chosen", () => {
  const t = totals([a, b], [zone("a"), zone("b")], 0);
  expect(t).toMatchObject({ nodes: 5, devices: 40, cores: 320, memory: 1280 });
  expect(t.prices).toEqual([{ currency: "CNY", amount: 404 }]);
  expect(
    totals([a], [zone("a", { currency: "EUR", deviceHour: 1, coreHour: 0, memoryGBHour: 0.01 })], 0).prices,
  ).toEqual([{ currency: "EUR", amount: 2 * (8 + 2.56) }]);
});

test("hours with other prices are those of the zone's clock", () => {
  const night = zone("a", { windows: [{ from: "22:00", to: "06:00", factor: 0.5 }] });
  expect(factorAt(night, Date.UTC(2026, 0, 1, 15, 0))).toBe(0.5); // 23:00 there
  expect(factorAt(night, Date.UTC(2026, 0, 1, 4, 0))).toBe(1); // noon there
});

test("a zone is marked by what was measured, else by what is declared", () => {
  const all = [apart("a", "b", 1.3), apart("b", "c", 8.5), apart("a", "c", 1, 9.1)];
  expect(markOf(zone("a"), [], all).mark).toBe("alone");
  expect(markOf(zone("a"), ["a", "b"], all)).toEqual({ mark: "near", ms: 1.3 });
  expect(markOf(zone("c"), ["a", "b"], all)).toEqual({ mark: "far", ms: 9.1 });
  expect(markOf(zone("d"), ["a"], all).mark).toBe("unknown");
  expect(markOf(zone("a", {}, { status: { health: "degraded" } }), ["b"], all).mark).toBe("degraded");
});

const wish = (shares: Wish["shares"]): Wish => ({
  name: "GPT",
  description: "",
  framework: "pytorch-ddp",
  strategy: "",
  image: "",
  command: ["python", "train.py"],
  shares,
});

test("nodes that are alike are one role, others one for each zone in the order of the split", () => {
  expect(taskOf(wish([b, a]))).toMatchObject({
    spec: { framework: "pytorch-ddp", zones: { split: { a: 2, b: 3 } }, roles: [{ name: "worker", replicas: 5 }] },
  });
  expect(taskOf(wish([{ ...b, devices: 4 }, a, { ...firstShare("c"), nodes: 0 }]))).toMatchObject({
    spec: {
      zones: { split: { a: 2, b: 3 } },
      roles: [
        { name: "worker-1", replicas: 2, resources: { accelerators: { count: 8 }, cpu: "64", memory: "256Gi" } },
        { name: "worker-2", replicas: 3, resources: { accelerators: { count: 4 } } },
      ],
    },
  });
});

test("a split has bounds where the nodes are alike", () => {
  const free = taskOf({
    ...wish([{ ...a, least: 1, most: 4 }, b, { ...firstShare("c"), nodes: 0, most: 2 }]),
    balance: true,
  });
  expect(free).toMatchObject({
    spec: { zones: { split: { a: "1..4", b: 3, c: "0..2" }, balance: true }, roles: [{ name: "worker", replicas: 5 }] },
  });
  expect(
    taskOf(
      wish([
        { ...a, least: 1 },
        { ...b, devices: 4, most: 9 },
      ]),
    ),
  ).toMatchObject({
    spec: { zones: { split: { a: 2, b: 3 } } },
  });
});

test("a service has replicas in each zone", () => {
  expect(serviceOf(wish([a, b]))).toMatchObject({
    spec: {
      zones: [
        { zone: "a", replicas: 2 },
        { zone: "b", replicas: 3 },
      ],
      template: { resources: { accelerators: { count: 8 } } },
    },
  });
});
