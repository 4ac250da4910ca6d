// What a training may run inside of: environments, and running tasks of one replica. How they are found, and why some can't be chosen.
import type { Task } from "./api/client";
import type { Environment } from "./api/works";
import { quantity } from "./format";
import { environmentStanding, type Standing } from "./works";

export interface Host {
  name: string;
  id: string;
  type: "notebook" | "training" | "inference" | "custom" | "task";
  standing: Standing;
  zone: string;
  image: string;
  devices: number;
  deviceType: string; // "": any was asked for
  since: number; // when it started, in ms; NaN: it does not run
  /** Why it can't be chosen; absent: it can. */
  why?: { word: "inside.closed" | "inside.notRunning"; who: string };
  /** The task that trains in it now. */
  busy: string;
}

export function ofEnvironment(e: Environment, me: string): Host {
  const resources = e.spec.resources?.accelerators;
  const running = e.status?.phase === "Running" && !e.spec.stop && !e.metadata.deletedAt;
  const closed = e.metadata.owner !== me && !e.spec.shared;
  return {
    name: e.metadata.name ?? "",
    id: e.metadata.id ?? "",
    type: e.spec.type ?? "custom",
    standing: environmentStanding(e),
    zone: e.status?.zones?.join(", ") || e.spec.zone || "",
    image: e.spec.image ?? "",
    devices: resources?.count ?? 0,
    deviceType: resources?.type ?? "",
    since: running ? Date.parse(e.status?.startedAt ?? "") : Number.NaN,
    why: closed
      ? { word: "inside.closed", who: e.metadata.owner ?? "" }
      : running
        ? undefined
        : { word: "inside.notRunning", who: "" },
    busy: e.status?.inUseBy ?? "",
  };
}

export function ofTask(t: Task): Host {
  const role = t.spec.roles?.[0];
  return {
    name: t.metadata.name ?? "",
    id: t.metadata.id ?? "",
    type: "task",
    standing: { word: "env.state.Running", hue: "blue" },
    zone: t.status?.zones?.join(", ") ?? "",
    image: role?.image || t.spec.image || "",
    devices: role?.resources?.accelerators?.count ?? 0,
    deviceType: role?.resources?.accelerators?.type ?? "",
    since: Date.parse(t.status?.startedAt ?? ""),
    busy: t.status?.inUseBy ?? "",
  };
}

export type Order = "name" | "devices" | "uptime";

export interface Look {
  text: string;
  zone: string;
  deviceType: string;
  image: string;
  order: Order;
}

export const lookAll: Look = { text: "", zone: "", deviceType: "", image: "", order: "name" };

/** Those that are looked for, in the order that is wanted; equal ones by name. */
export function look(hosts: readonly Host[], by: Look): Host[] {
  const text = by.text.trim().toLowerCase();
  const found = hosts.filter(
    (h) =>
      (text === "" || [h.name, h.image, h.zone, h.deviceType].some((w) => w.toLowerCase().includes(text))) &&
      (by.zone === "" || h.zone === by.zone) &&
      (by.deviceType === "" || h.deviceType === by.deviceType) &&
      (by.image === "" || h.image === by.image),
  );
  const named = (a: Host, b: Host) => a.name.localeCompare(b.name);
  const started = (h: Host) => (Number.isNaN(h.since) ? Number.POSITIVE_INFINITY : h.since);
  return found.sort((a, b) => {
    if (by.order === "devices") return b.devices - a.devices || named(a, b);
    if (by.order === "uptime" && started(a) !== started(b)) return started(a) < started(b) ? -1 : 1;
    return named(a, b);
  });
}

/** The different words of a list, in order. */
export function words(hosts: readonly Host[], of: (h: Host) => string): string[] {
  return [...new Set(hosts.map(of).filter(Boolean))].sort();
}

/** Chooses one, or takes it back: where the master is chosen no more, the next one is it. */
export function toggled(names: readonly string[], name: string): string[] {
  return names.includes(name) ? names.filter((n) => n !== name) : [...names, name];
}

/** Cores as a number: 4 or 500m. */
export function cores(text: string | undefined): number {
  const m = /^(\d+(?:\.\d+)?)(m?)$/.exec(text ?? "");
  return m ? Number(m[1]) / (m[2] ? 1000 : 1) : Number.NaN;
}

/** Memory in whole GB, as people say it of machines. */
export function gigabytes(text: string | undefined): number {
  return Math.round((quantity(text) / 1024 ** 3) * 10) / 10;
}

/** The frameworks for several nodes, the usual first. */
export const distributed = [
  "pytorch-ddp",
  "pytorch-fsdp",
  "deepspeed",
  "horovod",
  "megatron-lm",
  "tensorflow",
  "paddle",
  "mxnet",
  "jax",
  "mpi",
  "ray",
  "plain",
] as const;
export type Distributed = (typeof distributed)[number];

export function isDistributed(word: string): word is Distributed {
  return (distributed as readonly string[]).includes(word);
}

/** Which advice holds for a model of so many thousand million parameters. */
export function adviceFor(billions: number): "small" | "middle" | "large" | "huge" {
  if (billions < 1) return "small";
  if (billions <= 10) return "middle";
  return billions <= 100 ? "large" : "huge";
}
