// A task being written: the YAML is the truth, the form a view of it. Comments and fields the form
// does not know survive every edit in the form.
import { Document, isMap, isScalar, parseDocument } from "yaml";
import type { Task } from "./api/client";
import { title } from "./format";

export interface Form {
  displayName: string;
  command: string;
  image: string;
  replicas: number;
  deviceType: string;
  devices: number;
  cpu: string;
  memory: string;
  priorityClass: string;
  zones: string[];
  framework: string;
  inside: string[];
  fromTask: string;
  fromStep: number; // 0: the newest
}

export const emptyDraft = `kind: TrainingTask
metadata:
  displayName: ""
spec:
  roles:
    - name: worker
      replicas: 1
      command: [sh, -c, ""]
`;

const role = ["spec", "roles", 0] as const;
const where: { [K in keyof Form]: readonly (string | number)[] } = {
  displayName: ["metadata", "displayName"],
  command: [...role, "command"],
  image: ["spec", "image"],
  replicas: [...role, "replicas"],
  deviceType: [...role, "resources", "accelerators", "type"],
  devices: [...role, "resources", "accelerators", "count"],
  cpu: [...role, "resources", "cpu"],
  memory: [...role, "resources", "memory"],
  priorityClass: ["spec", "priorityClass"],
  zones: ["spec", "zones", "allow"],
  framework: ["spec", "framework"],
  inside: ["spec", "inside"],
  fromTask: ["spec", "checkpoint", "from", "task"],
  fromStep: ["spec", "checkpoint", "from", "step"],
};

/** A manifest longer than this is refused by the server too. */
const maxDraft = 4 << 20;

function parse(yaml: string): Document | undefined {
  if (yaml.length > maxDraft) return undefined;
  try {
    const doc = parseDocument(yaml, { uniqueKeys: true });
    if (doc.errors.length > 0) return undefined;
    doc.toJS({ maxAliasCount: 100 });
    return doc.contents === null || isMap(doc.contents) ? doc : undefined;
  } catch {
    return undefined;
  }
}

/** What the YAML says, as far as the form knows it; undefined where it cannot be read. */
export function toForm(yaml: string): Form | undefined {
  const doc = parse(yaml);
  if (!doc) return undefined;
  const js: unknown = doc.toJS({ maxAliasCount: 100 });
  const at = (path: readonly (string | number)[]): unknown =>
    path.reduce<unknown>(
      (o, key) => (typeof o === "object" && o !== null ? (o as Record<string | number, unknown>)[key] : undefined),
      js,
    );
  const text = (key: keyof Form): string => {
    const v = at(where[key]);
    return typeof v === "string" || typeof v === "number" ? String(v) : "";
  };
  const count = (key: keyof Form, fallback: number): number => {
    const v = at(where[key]);
    return typeof v === "number" && Number.isFinite(v) ? v : fallback;
  };
  const names = (key: keyof Form): string[] => {
    const list = at(where[key]);
    return Array.isArray(list) ? list.filter((n): n is string => typeof n === "string") : [];
  };
  return {
    displayName: text("displayName"),
    command: commandLine(at(where.command)),
    image: text("image"),
    replicas: count("replicas", 1),
    deviceType: text("deviceType"),
    devices: count("devices", 0),
    cpu: text("cpu"),
    memory: text("memory"),
    priorityClass: text("priorityClass"),
    zones: names("zones"),
    framework: text("framework"),
    inside: names("inside"),
    fromTask: text("fromTask"),
    fromStep: count("fromStep", 0),
  };
}

/** A new task like the one given, that begins from its checkpoint of a step. */
export function draftFrom(task: Task, step: number, displayName: string): string {
  const { project, labels, id, name } = task.metadata;
  const { stop: _, restore: __, ...spec } = task.spec;
  const from = { task: id ?? name, step }; // an id: a name may be another's by now
  const doc = new Document({
    kind: "TrainingTask",
    metadata: { displayName, project, labels },
    spec: { ...spec, checkpoint: { ...spec.checkpoint, from } },
  });
  const node = doc.getIn(where.fromTask, true);
  if (isScalar(node)) node.comment = ` ${title(task)}`;
  return doc.toString({ lineWidth: 0 });
}

/** What a choice of tasks to run inside changes: a replica in each, with what they have. */
export function within(inside: string[]): Partial<Form> {
  const replicas = Math.max(inside.length, 1);
  return { inside, replicas, image: "", devices: 0, deviceType: "", cpu: "", memory: "", zones: [] };
}

/** sh -c X is shown as X, another command as a shell would need it written. */
function commandLine(command: unknown): string {
  if (!Array.isArray(command)) return "";
  const words = command.map(String);
  if (words.length === 3 && words[0] === "sh" && words[1] === "-c") return words[2] ?? "";
  return words.map((w) => (/^[\w@%+=:,./-]+$/.test(w) ? w : `'${w.replaceAll("'", `'\\''`)}'`)).join(" ");
}

/** The YAML with the form's change in it; unchanged where it cannot be read or has no place for it. */
export function withForm(yaml: string, patch: Partial<Form>): string {
  const doc = parse(yaml);
  if (!doc) return yaml;
  try {
    return edit(doc, patch);
  } catch {
    return yaml;
  }
}

function edit(doc: Document, patch: Partial<Form>): string {
  if (doc.contents === null) doc.contents = new Document({}).contents;
  const js = doc.toJS({ maxAliasCount: 100 }) as { spec?: { roles?: unknown } };
  if (!Array.isArray(js.spec?.roles)) doc.setIn(["spec", "roles"], doc.createNode([{}]));
  for (const key of Object.keys(patch) as (keyof Form)[]) {
    const value = patch[key];
    if (value === undefined) continue;
    const path = where[key];
    const none = value === 0 && (key === "devices" || key === "fromStep");
    const absent = value === "" || none || (Array.isArray(value) && value.length === 0);
    if (key === "command") {
      doc.setIn(path, doc.createNode(["sh", "-c", value], { flow: true }));
    } else if (absent && key !== "displayName") {
      remove(doc, path);
    } else {
      doc.setIn(path, doc.createNode(value, { flow: true }));
    }
  }
  return doc.toString({ lineWidth: 0, flowCollectionPadding: false });
}

/** Deletes a value and the maps it leaves empty. */
function remove(doc: Document, path: readonly (string | number)[]): void {
  if (!isMap(doc.getIn(path.slice(0, -1)))) return;
  doc.deleteIn(path);
  for (let n = path.length - 1; n > 0; n--) {
    const parent = path.slice(0, n);
    const node = doc.getIn(parent);
    if (!isMap(node) || node.items.length > 0 || typeof parent.at(-1) === "number") return;
    doc.deleteIn(parent);
  }
}
