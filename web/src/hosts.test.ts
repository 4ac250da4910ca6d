import { expect, test } from "vitest";
import type { Environment } from "./api/works";
import { adviceFor, cores, gigabytes, type Host, look, lookAll, ofEnvironment, toggled, words } from "./hosts";

function host(name: string, more: Partial<Host> = {}): Host {
  const standing = { word: "env.state.Running", hue: "blue" } as const;
  return {
    name,
    id: name,
    type: "custom",
    standing,
    zone: "z",
    image: "",
    devices: 0,
    deviceType: "",
    since: 0,
    busy: "",
    ...more,
  };
}

test("what is looked for is found, in order", () => {
  const list = [
    host("b", { devices: 4, deviceType: "A100", since: 10, zone: "sz" }),
    host("a", { devices: 2, deviceType: "V100", since: 30, image: "pytorch:2" }),
    host("c", { devices: 8, deviceType: "A100", since: Number.NaN }),
  ];
  const names = (by: Partial<typeof lookAll>) => look(list, { ...lookAll, ...by }).map((h) => h.name);
  expect(names({})).toEqual(["a", "b", "c"]);
  expect(names({ order: "devices" })).toEqual(["c", "b", "a"]);
  expect(names({ order: "uptime" })).toEqual(["b", "a", "c"]);
  expect(names({ zone: "sz" })).toEqual(["b"]);
  expect(names({ deviceType: "A100" })).toEqual(["b", "c"]);
  expect(names({ image: "pytorch:2" })).toEqual(["a"]);
  expect(names({ text: " TORCH" })).toEqual(["a"]);
  expect(names({ text: "nothing" })).toEqual([]);
  expect(words(list, (h) => h.deviceType)).toEqual(["A100", "V100"]);
});

test("who can't be chosen says why", () => {
  const env = (owner: string, shared: boolean, phase: "Running" | "Stopped"): Environment => ({
    metadata: { name: "e", owner },
    spec: { shared },
    status: { phase, startedAt: "2026-01-01T00:00:00Z" },
  });
  expect(ofEnvironment(env("ann", false, "Running"), "ann").why).toBeUndefined();
  expect(ofEnvironment(env("bob", true, "Running"), "ann").why).toBeUndefined();
  expect(ofEnvironment(env("bob", false, "Running"), "ann").why).toEqual({ word: "inside.closed", who: "bob" });
  expect(ofEnvironment(env("ann", false, "Stopped"), "ann").why?.word).toBe("inside.notRunning");
});

test("the master that is taken back hands over to the next", () => {
  expect(toggled(["a", "b"], "a")).toEqual(["b"]);
  expect(toggled(["b"], "a")).toEqual(["b", "a"]);
});

test("numbers as people say them", () => {
  expect([cores("4"), cores("500m"), cores("x")]).toEqual([4, 0.5, Number.NaN]);
  expect([gigabytes("128Gi"), gigabytes("512Mi")]).toEqual([128, 0.5]);
  expect([0.5, 1, 10, 11, 100, 175].map(adviceFor)).toEqual(["small", "middle", "middle", "large", "large", "huge"]);
});
