// How the devices of a node are, from what the server says of it.
import type { Node } from "./api/client";
import type { Health } from "./api/nodes";

export type CardState = "open" | "used" | "closed" | "testing" | "out" | "held" | "cordoned" | "away";

export interface Card {
  index: number;
  type: string;
  memory?: string;
  bus?: string;
  state: CardState;
  used: boolean;
  health?: Health;
}

/** Devices that replicas which were given up may still hold. */
export function heldBy(node: Node): Set<number> {
  const out = new Set<number>();
  for (const hold of node.status?.holds ?? []) if (!hold.released) for (const d of hold.devices ?? []) out.add(d);
  return out;
}

/** Whether a device takes no new work, whatever else is so. */
export function isClosed(node: Node, index: number, held = heldBy(node)): boolean {
  const health = (node.status?.devices ?? []).find((h) => h.device === index);
  const sick = health !== undefined && health.state !== "open" && health.state !== "";
  return sick || held.has(index) || (node.spec.cordonedDevices ?? []).includes(index);
}

export function cardsOf(node: Node, used: ReadonlySet<number>): Card[] {
  const held = heldBy(node);
  const away = !node.status?.ready || node.spec.cordoned === true;
  return (node.spec.devices ?? []).map((d, index) => {
    const health = (node.status?.devices ?? []).find((h) => h.device === index);
    const state = ((): CardState => {
      if (health?.state === "closed" || health?.state === "testing" || health?.state === "out") return health.state;
      if (held.has(index)) return "held";
      if (used.has(index)) return "used";
      if ((node.spec.cordonedDevices ?? []).includes(index)) return "cordoned";
      return away ? "away" : "open";
    })();
    return { index, type: d.type, memory: d.memory, bus: d.bus, state, used: used.has(index), health };
  });
}

/** What a drill may say. */
export const faultKinds = ["lost", "silent", "ecc", "pages", "rows", "recovery", "throttle", "nvlink", "pcie"] as const;

export const cardHue: Record<CardState, string> = {
  open: "green",
  used: "blue",
  closed: "red",
  testing: "yellow",
  out: "red",
  held: "orange",
  cordoned: "gray",
  away: "gray",
};
