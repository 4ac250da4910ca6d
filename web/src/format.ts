import type { Node, NodeUse, Task, Text } from "./api/client";
import type { Language } from "./i18n/setup";
import type { Key } from "./i18n/zh";
import { heldBy, isClosed } from "./nodes";

type Unit = Extract<Key, "unit.day" | "unit.hour" | "unit.minute" | "unit.second" | "unit.ms">;
type Words = (key: Unit) => string;

/** Milliseconds in the two largest units. */
export function duration(ms: number, t: Words): string {
  if (!Number.isFinite(ms) || ms < 0) return "—";
  if (ms < 1000) return `${Math.round(ms)} ${t("unit.ms")}`;
  const s = Math.floor(ms / 1000);
  const parts: [number, Unit][] = [
    [Math.floor(s / 86400), "unit.day"],
    [Math.floor(s / 3600) % 24, "unit.hour"],
    [Math.floor(s / 60) % 60, "unit.minute"],
    [s % 60, "unit.second"],
  ];
  const first = parts.findIndex(([n]) => n > 0);
  return parts
    .slice(first, first + 2)
    .filter(([n]) => n > 0)
    .map(([n, unit]) => `${n} ${t(unit)}`)
    .join(" ");
}

/** A time as the server writes it, such as 2h0m0s or 1.5s, in milliseconds; NaN for anything else. */
export function span(text: string | undefined): number {
  const units: Record<string, number> = { h: 3_600_000, m: 60_000, s: 1000, ms: 1 };
  const parts = [...(text ?? "").matchAll(/(\d+(?:\.\d+)?)(ms|h|m|s)/g)];
  if (text === "0" || text === "0s") return 0;
  if (parts.length === 0 || parts.map((p) => p[0]).join("") !== text) return Number.NaN;
  return parts.reduce((sum, p) => sum + Number(p[1]) * (units[p[2] ?? ""] ?? 0), 0);
}

export function bytes(n: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) {
    n /= 1024;
    i++;
  }
  return `${i === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)} ${units[i]}`;
}

/** A quantity of bytes as the server writes it, such as 16Gi or 1500, as a number; NaN for anything else. */
export function quantity(text: string | undefined): number {
  const m = /^(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|Pi|Ei)?$/.exec(text ?? "");
  if (!m) return Number.NaN;
  return Number(m[1]) * 1024 ** (m[2] ? ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].indexOf(m[2]) + 1 : 0);
}

export function moment(iso: string | undefined, lang: Language): string {
  const at = iso ? new Date(iso) : undefined;
  if (!at || Number.isNaN(at.getTime())) return "—";
  return at.toLocaleString(lang === "zh" ? "zh-CN" : "en-GB", {
    month: "short",
    day: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hour12: false,
  });
}

/** How long the task ran, or has run until now. */
export function ran(task: Task, now: number): number {
  const { startedAt, finishedAt } = task.status ?? {};
  if (!startedAt) return Number.NaN;
  return (finishedAt ? Date.parse(finishedAt) : now) - Date.parse(startedAt);
}

/** Whether the task has ended. */
export function over(task: Task): boolean {
  return ["Completed", "Failed", "Stopped"].includes(task.status?.phase ?? "");
}

/** The text in the reader's language, or in the other one where there is only that. */
export function said(text: Text | undefined, lang: Language): string {
  return (lang === "zh" ? text?.zh || text?.en : text?.en || text?.zh) ?? "";
}

export function title(object: { metadata: { displayName?: string; name?: string; id?: string } }): string {
  const { displayName, name, id } = object.metadata;
  return displayName || name || id || "—";
}

/** How many replicas an elastic task has, and between how many it may have; "" where that is fixed. */
export function sizes(task: Task): string {
  const roles = task.spec.roles ?? [];
  const low = roles.reduce((n, r) => n + (r.minReplicas ?? r.replicas ?? 1), 0);
  const high = roles.reduce((n, r) => n + (r.maxReplicas ?? r.replicas ?? 1), 0);
  return low === high ? "" : `${task.status?.replicas?.running ?? 0} / ${low}–${high}`;
}

/** The replicas and devices a task asks for. */
export function wish(task: Task): { replicas: number; devices: number; type: string } {
  const roles = task.spec.roles ?? [];
  const out = { replicas: 0, devices: 0, type: "" };
  for (const role of roles) {
    const n = role.replicas ?? 1;
    out.replicas += n;
    out.devices += (n + (role.spares ?? 0)) * (role.resources?.accelerators?.count ?? 0);
    out.type ||= role.resources?.accelerators?.type ?? "";
  }
  return out;
}

/** How many processes a task has, as far as that can be told from what it asks for. */
export function ranksOf(task: Task): number {
  return (task.spec.roles ?? []).reduce((n, r) => {
    const each =
      r.ranks ??
      Math.max(task.spec.framework && task.spec.framework !== "plain" ? (r.resources?.accelerators?.count ?? 1) : 1, 1);
    return n + (r.replicas ?? 1) * each;
  }, 0);
}

export type DeviceState = "used" | "free" | "down";

export interface NodePicture {
  node: Node;
  devices: DeviceState[];
  used: number;
}

/** Which device of which node is in use. */
export function picture(nodes: readonly Node[], uses: readonly NodeUse[]): NodePicture[] {
  const taken = new Map(uses.map((u) => [u.node, new Set(u.used)]));
  return nodes.map((node) => {
    const used = taken.get(node.metadata.name ?? "");
    const away = !node.status?.ready || node.spec.cordoned === true;
    const held = heldBy(node);
    const devices = (node.spec.devices ?? []).map(
      (_, i): DeviceState => (used?.has(i) ? "used" : away || isClosed(node, i, held) ? "down" : "free"),
    );
    return { node, devices, used: devices.filter((d) => d === "used").length };
  });
}

export function groupBy<T>(items: readonly T[], key: (item: T) => string): Map<string, T[]> {
  const out = new Map<string, T[]>();
  for (const item of items) {
    const k = key(item);
    const list = out.get(k);
    if (list) list.push(item);
    else out.set(k, [item]);
  }
  return out;
}
