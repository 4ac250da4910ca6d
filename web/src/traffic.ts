// The form of how new revisions take over, and the wish that it stands for.
import type { Service } from "./api/works";

type Wish = NonNullable<Service["spec"]["traffic"]>;

export interface Rule {
  id: number;
  by: "header" | "cookie" | "user" | "percent";
  name: string; // the percentage, where it goes by that
  value: string;
  to: "canary" | "stable";
}

export interface Draft {
  on: boolean;
  steps: string;
  every: string;
  minRequests: number;
  maxErrors: number;
  maxLatency: string;
  check: string;
  manual: boolean;
  shadow: number;
  rules: Rule[];
}

/** The form of a wish; what nobody said has its usual value. */
export function draftOf(wish: Service["spec"]["traffic"]): Draft {
  const c = wish?.canary;
  return {
    on: c !== undefined,
    steps: (c?.steps ?? [5, 50, 100]).join(", "),
    every: c?.every ?? "1m",
    minRequests: c?.minRequests ?? 20,
    maxErrors: c?.maxErrors ?? 1,
    maxLatency: c?.maxLatency ?? "",
    check: c?.check ?? "",
    manual: c?.manual ?? false,
    shadow: wish?.shadow?.percent ?? 0,
    rules: (wish?.rules ?? []).map((r, id): Rule => {
      const to = r.to === "stable" ? "stable" : "canary";
      if (r.header) return { id, by: "header", name: r.header, value: r.value ?? "", to };
      if (r.cookie) return { id, by: "cookie", name: r.cookie, value: r.value ?? "", to };
      if (r.user) return { id, by: "user", name: r.user, value: "", to };
      return { id, by: "percent", name: String(r.percent ?? 0), value: "", to };
    }),
  };
}

const stepsOf = (text: string) =>
  text
    .split(/[\s,，]+/)
    .filter((p) => p !== "")
    .map(Number);

const span = /^(\d+(\.\d+)?(ms|s|m|h))+$/;

/** What of a form can't be meant: the name of its field, or undefined. */
export function wrongOf(d: Draft): string | undefined {
  if (!d.on) return undefined;
  const steps = stepsOf(d.steps);
  const grows = steps.every((s, i) => Number.isInteger(s) && s >= 1 && s <= 100 && s > (steps[i - 1] ?? 0));
  if (steps.length === 0 || steps.length > 20 || !grows) return "steps";
  if (!span.test(d.every)) return "every";
  if (d.maxLatency !== "" && !span.test(d.maxLatency)) return "maxLatency";
  if (d.check !== "" && !/^\/(?!\/)\S*$/.test(d.check)) return "check";
  const bad = d.rules.findIndex((r) => {
    const percent = Number(r.name);
    return r.by === "percent" ? !(Number.isInteger(percent) && percent >= 1 && percent <= 100) : r.name.trim() === "";
  });
  return bad < 0 ? undefined : `rule${bad}`;
}

/** The wish of a form; undefined: a new revision takes over replica by replica. */
export function trafficOf(d: Draft): Wish | undefined {
  if (!d.on) return undefined;
  return {
    canary: {
      steps: stepsOf(d.steps),
      every: d.every,
      minRequests: d.minRequests,
      maxErrors: d.maxErrors,
      ...(d.maxLatency ? { maxLatency: d.maxLatency } : {}),
      ...(d.check ? { check: d.check } : {}),
      ...(d.manual ? { manual: true } : {}),
    },
    ...(d.rules.length > 0
      ? {
          rules: d.rules.map(({ by, name, value, to }) => ({
            ...(by === "percent" ? { percent: Number(name) } : { [by]: name.trim() }),
            ...((by === "header" || by === "cookie") && value !== "" ? { value } : {}),
            to,
          })),
        }
      : {}),
    ...(d.shadow > 0 ? { shadow: { percent: d.shadow } } : {}),
  };
}
