// What the server refused, at the place of the form where it was written.
import type { Schemas } from "./api/client";
import type { Form } from "./draft";

export type RefusedField = Schemas["RefusedField"];

/** Which field of the form writes a path of the manifest; the first that fits. */
const places: readonly [RegExp, keyof Form][] = [
  [/^metadata\.(name|displayName)$/, "displayName"],
  [/^metadata\.project$/, "project"],
  [/^spec\.queue$/, "queue"],
  [/^spec\.code\.archive$/, "archive"],
  [/^spec\.code\.git\.revision$/, "gitRevision"],
  [/^spec\.code\.git\.secret$/, "gitSecret"],
  [/^spec\.code\.git\b/, "gitUrl"],
  [/^spec\.code\.folder$/, "folder"],
  [/^spec\.code\.requirements$/, "requirements"],
  [/^spec\.code$/, "code"],
  [/^spec\.framework$/, "framework"],
  [/^spec\.hyperParameters\b/, "params"],
  [/^spec\.roles\[0\]\.(env|secretFiles)\b/, "secrets"],
  [/^spec\.roles\[0\]\.(command|args)\b/, "command"],
  [/^spec\.roles\[0\]\.replicas$/, "replicas"],
  [/^spec\.roles\[0\]\.resources\.accelerators\.type$/, "deviceType"],
  [/^spec\.roles\[0\]\.resources\.accelerators\b/, "devices"],
  [/^spec\.roles\[0\]\.resources\.cpu$/, "cpu"],
  [/^spec\.roles\[0\]\.resources\.memory$/, "memory"],
  [/^spec\.(roles\[0\]\.)?image$/, "image"],
  [/^spec\.priority(Class)?$/, "priorityClass"],
  [/^spec\.zones\.allow\b/, "zones"],
  [/^spec\.zones\.spot$/, "spot"],
  [/^spec\.zones\.prefer\.carbon$/, "carbonWeight"],
  [/^spec\.zones\.prefer\.latency$/, "latencyWeight"],
  [/^spec\.zones\.prefer\b/, "priceWeight"],
  [/^spec\.zones\.stay$/, "stay"],
  [/^spec\.inside\b/, "inside"],
  [/^spec\.datasets\b/, "datasets"],
  [/^spec\.checkpoint\.from\b/, "fromTask"],
];

/** A source of code that is not chosen has no field to show a fault at. */
const codeFields: Partial<Record<keyof Form, Form["code"]>> = {
  archive: "archive",
  gitUrl: "git",
  gitRevision: "git",
  gitSecret: "git",
  folder: "folder",
};

const emptied: Record<Form["code"], keyof Form> = { none: "code", archive: "archive", git: "gitUrl", folder: "folder" };

export interface Faults {
  /** By field; of a list what is about no row of it. */
  at: Partial<Record<keyof Form, string>>;
  /** By the place (at) of a row. */
  rows: Record<string, string>;
  /** What the form has no field for. */
  rest: RefusedField[];
}

/** Sorts refused fields to where they were written. sent is the form as it was sent. */
export function placeFaults(fields: readonly RefusedField[], sent: Form | undefined): Faults {
  const out: Faults = { at: {}, rows: {}, rest: [] };
  for (const field of fields) {
    const place = places.find(([path]) => path.test(field.path))?.[1];
    // That a source is empty is said of the code as a whole.
    const key = place === "code" && sent ? emptied[sent.code] : place;
    const source = key && codeFields[key];
    if (!key || !sent || (source && sent.code !== source)) {
      out.rest.push(field);
      continue;
    }
    const rows = key === "params" ? sent.params : key === "secrets" ? sent.secrets : [];
    const row = rows.find((r) => r.at && within(field.path, r.at));
    if (row?.at) out.rows[row.at] = joined(out.rows[row.at], field.message);
    else if (key === "secrets")
      out.rest.push(field); // a variable that is no secret is only in the YAML
    else out.at[key] = joined(out.at[key], field.message);
  }
  return out;
}

function within(path: string, above: string): boolean {
  return path === above || path.startsWith(`${above}.`) || path.startsWith(`${above}[`);
}

function joined(old: string | undefined, next: string): string {
  return old === undefined ? next : `${old} ${next}`;
}

/** The faults of fields that still are as they were sent: what was changed may be right by now. */
export function stillWrong(faults: Faults, sent: Form | undefined, now: Form | undefined): Faults {
  if (!sent || !now) return faults;
  const same = (key: keyof Form) => JSON.stringify(sent[key]) === JSON.stringify(now[key]);
  const at = Object.fromEntries(Object.entries(faults.at).filter(([key]) => same(key as keyof Form)));
  const rowsNow = [...now.params, ...now.secrets].map((r) => JSON.stringify(r));
  const unchanged = (at: string) =>
    [...sent.params, ...sent.secrets].some((r) => r.at === at && rowsNow.includes(JSON.stringify(r)));
  const rows = Object.fromEntries(Object.entries(faults.rows).filter(([at]) => unchanged(at)));
  return { at, rows, rest: faults.rest };
}
