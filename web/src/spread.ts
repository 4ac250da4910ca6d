// Work that is spread over zones: how much of it stands where, what that costs, and what the zones are good for together.
import { between, type Distance } from "./apart";
import type { Zone } from "./api/client";

/** What a zone has of it: so many nodes, and what each of them gives. */
export interface Share {
  zone: string;
  nodes: number;
  devices: number;
  cores: number;
  memory: number; // GiB
  /** Its nodes at least and at most; absent: as many as it has. */
  least?: number;
  most?: number;
}

/** How few and how many nodes may stand there. */
export function boundsOf(s: Share): { least: number; most: number } {
  return { least: Math.min(s.least ?? s.nodes, s.nodes), most: Math.max(s.most ?? s.nodes, s.nodes) };
}

export const deviceCounts = [1, 2, 4, 8] as const;
/** A share as it begins. */
export const firstShare = (zone: string): Share => ({ zone, nodes: 1, devices: 8, cores: 64, memory: 256 });

/** How a zone suits the others that were chosen. */
export type Mark = "alone" | "near" | "regional" | "far" | "degraded" | "unknown";

export interface Totals {
  nodes: number;
  devices: number;
  cores: number;
  memory: number;
  /** What an hour costs now, by currency. */
  prices: readonly { currency: string; amount: number }[];
}

/** The zone's minute of the day. */
function minuteAt(now: number, offset: string | undefined): number {
  const m = /^([+-])(\d\d):(\d\d)$/.exec(offset ?? "");
  const ahead = m ? (m[1] === "-" ? -1 : 1) * (Number(m[2]) * 60 + Number(m[3])) : 0;
  return (((Math.floor(now / 60_000) + ahead) % 1440) + 1440) % 1440;
}

const minute = (text: string) => Number(text.slice(0, 2)) * 60 + Number(text.slice(3, 5));

/** What the hour of the day does to the prices of a zone. */
export function factorAt(zone: Zone, now: number): number {
  const at = minuteAt(now, zone.spec.utcOffset);
  const hit = (zone.spec.price?.windows ?? []).find((w) => {
    const [from, to] = [minute(w.from), minute(w.to)];
    return from < to ? at >= from && at < to : at >= from || at < to;
  });
  return hit?.factor ?? 1;
}

/** What a share costs an hour. Devices are of any type: the zone's general price holds. */
export function priceOf(share: Share, zone: Zone, now: number): number {
  const { deviceHour = 8.5, coreHour = 0.2, memoryGBHour = 0 } = zone.spec.price ?? {};
  const node = share.devices * deviceHour + share.cores * coreHour + share.memory * memoryGBHour;
  return share.nodes * node * factorAt(zone, now);
}

export function totals(shares: readonly Share[], zones: readonly Zone[], now: number): Totals {
  const sum = (of: (s: Share) => number) => shares.reduce((n, s) => n + s.nodes * of(s), 0);
  const prices = new Map<string, number>();
  for (const s of shares) {
    const zone = zones.find((z) => z.metadata.name === s.zone);
    if (!zone) continue;
    const currency = zone.spec.price?.currency || "CNY";
    prices.set(currency, (prices.get(currency) ?? 0) + priceOf(s, zone, now));
  }
  return {
    nodes: sum(() => 1),
    devices: sum((s) => s.devices),
    cores: sum((s) => s.cores),
    memory: sum((s) => s.memory),
    prices: [...prices].map(([currency, amount]) => ({ currency, amount })),
  };
}

/** What counts of a distance: what was measured, else what is declared. */
export function latencyOf(d: Distance | undefined): number | undefined {
  return d?.measured && !d.measured.stale ? d.measured.p50Ms : d?.declaredMs;
}

/** How a zone suits the chosen ones, and the longest round trip to one of them. */
export function markOf(
  zone: Zone,
  chosen: readonly string[],
  distances: readonly Distance[],
): { mark: Mark; ms?: number } {
  const name = zone.metadata.name ?? "";
  if (zone.status?.health === "degraded" || zone.spec.outage) return { mark: "degraded" };
  const others = chosen.filter((c) => c !== name);
  if (others.length === 0) return { mark: "alone" };
  let longest = 0;
  for (const other of others) {
    const ms = latencyOf(between(distances, name, other));
    if (ms === undefined) return { mark: "unknown" };
    longest = Math.max(longest, ms);
  }
  return { mark: longest < 2 ? "near" : longest < 5 ? "regional" : "far", ms: longest };
}

const resources = (s: Share) => ({ cpu: String(s.cores), memory: `${s.memory}Gi`, accelerators: { count: s.devices } });
const same = (a: Share, b: Share) => a.devices === b.devices && a.cores === b.cores && a.memory === b.memory;

/** Where the nodes are alike, it does not matter which of them stands where. */
export const areAlike = (shares: readonly Share[]) =>
  shares.every((s) => shares[0] !== undefined && same(s, shares[0]));

export interface Wish {
  name: string;
  description: string;
  framework: string;
  strategy: string;
  image: string;
  command: readonly string[];
  shares: readonly Share[];
  /** Within the bounds the zones fill up evenly. */
  balance?: boolean;
}

/**
 * A task that stands in these zones. Where all nodes are alike it has one role; else one for each zone, in the order of the zones' names, as
 * the replicas of a split are dealt to the zones.
 */
export function taskOf(w: Wish, project = ""): object {
  const free = areAlike(w.shares);
  const used = (s: Share) => s.nodes > 0 || (free && boundsOf(s).most > 0);
  const shares = [...w.shares].filter(used).sort((a, b) => (a.zone < b.zone ? -1 : 1));
  const first = shares[0];
  const alike = areAlike(shares);
  const span = (s: Share) => {
    const { least, most } = boundsOf(s);
    return free && least < most ? `${least}..${most}` : s.nodes;
  };
  const nodes = shares.reduce((n, s) => n + s.nodes, 0);
  const role = (name: string, replicas: number, s: Share) => ({
    name,
    replicas,
    command: w.command,
    resources: resources(s),
  });
  return {
    apiVersion: "fermi/v1",
    kind: "TrainingTask",
    metadata: { displayName: w.name, ...(project && { project }) },
    spec: {
      ...(w.description && { description: w.description }),
      ...(w.framework && w.framework !== "plain" && { framework: w.framework }),
      ...(w.strategy && { strategy: { kind: w.strategy } }),
      ...(w.image && { image: w.image }),
      zones: { split: Object.fromEntries(shares.map((s) => [s.zone, span(s)])), ...(w.balance && { balance: true }) },
      roles:
        first && alike ? [role("worker", nodes, first)] : shares.map((s, i) => role(`worker-${i + 1}`, s.nodes, s)),
    },
  };
}

/** A service whose replicas stand in these zones; they are alike, as the first share says. */
export function serviceOf(w: Wish): object {
  const shares = w.shares.filter((s) => s.nodes > 0);
  const first = shares[0] ?? firstShare("");
  return {
    metadata: { displayName: w.name },
    spec: {
      ...(w.description && { description: w.description }),
      zones: shares.map((s) => ({ zone: s.zone, replicas: s.nodes })),
      template: {
        engine: "custom",
        command: w.command,
        ...(w.image && { image: w.image }),
        resources: resources(first),
      },
    },
  };
}
