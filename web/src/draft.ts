// A task being written: the YAML is the truth, the form a view of it. Comments and fields the form
// does not know survive every edit in the form.
import { Document, isMap, isScalar, isSeq, type Pair, parseDocument, Scalar, type YAMLMap } from "yaml";
import type { Task } from "./api/client";
import { title } from "./format";

/** Where the code comes from; the manifest has at most one. */
export type CodeSource = "none" | "archive" | "git" | "folder";

/** A hyper-parameter. at is where the server finds it. */
export interface Param {
  name: string;
  value: string;
  at?: string;
}

/** A value of a secret, as a variable or a file of the processes. */
export interface SecretUse {
  as: "variable" | "file";
  name: string;
  secret: string;
  key: string;
  at?: string;
}

export interface Form {
  project: string;
  queue: string;
  code: CodeSource;
  archive: string;
  gitUrl: string;
  gitRevision: string;
  gitSecret: string;
  folder: string;
  requirements: string;
  params: Param[];
  secrets: SecretUse[];
  /** NAME or NAME@VERSION. */
  datasets: string[];
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
  spot: string;
  /** Weights between zones that have room; 0: does not count. */
  priceWeight: number;
  carbonWeight: number;
  latencyWeight: number;
  stay: boolean;
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
const code = ["spec", "code"] as const;
const where: { [K in keyof Form]: readonly (string | number)[] } = {
  project: ["metadata", "project"],
  queue: ["spec", "queue"],
  code,
  archive: [...code, "archive"],
  gitUrl: [...code, "git", "url"],
  gitRevision: [...code, "git", "revision"],
  gitSecret: [...code, "git", "secret"],
  folder: [...code, "folder"],
  requirements: [...code, "requirements"],
  params: ["spec", "hyperParameters"],
  secrets: [...role, "env"],
  datasets: ["spec", "datasets"],
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
  spot: ["spec", "zones", "spot"],
  priceWeight: ["spec", "zones", "prefer", "price"],
  carbonWeight: ["spec", "zones", "prefer", "carbon"],
  latencyWeight: ["spec", "zones", "prefer", "latency"],
  stay: ["spec", "zones", "stay"],
  framework: ["spec", "framework"],
  inside: ["spec", "inside"],
  fromTask: ["spec", "checkpoint", "from", "task"],
  fromStep: ["spec", "checkpoint", "from", "step"],
};

/** What says where it would rather be, with nothing said. */
const anywhere = { zones: [], spot: "", priceWeight: 0, carbonWeight: 0, latencyWeight: 0, stay: false };

/** These numbers are left out of the manifest when they are 0. */
const zeros: readonly (keyof Form)[] = ["devices", "fromStep", "priceWeight", "carbonWeight", "latencyWeight"];

/** These stay when they are empty: that the code comes from there is said by their being there. */
const kept: readonly (keyof Form)[] = ["displayName", "archive", "gitUrl", "folder"];

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
    project: text("project"),
    queue: text("queue"),
    code: sourceOf(at(where.code)),
    archive: text("archive"),
    gitUrl: text("gitUrl"),
    gitRevision: text("gitRevision"),
    gitSecret: text("gitSecret"),
    folder: text("folder"),
    requirements: text("requirements"),
    params: paramsOf(doc),
    secrets: secretsOf(at(role)),
    datasets: datasetsOf(at(where.datasets)),
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
    spot: text("spot"),
    priceWeight: count("priceWeight", 0),
    carbonWeight: count("carbonWeight", 0),
    latencyWeight: count("latencyWeight", 0),
    stay: at(where.stay) === true,
    framework: text("framework"),
    inside: names("inside"),
    fromTask: text("fromTask"),
    fromStep: count("fromStep", 0),
  };
}

function sourceOf(code: unknown): CodeSource {
  if (typeof code !== "object" || code === null) return "none";
  return (["archive", "git", "folder"] as const).find((source) => source in code) ?? "none";
}

/** A key as the server writes it in a path. */
function child(path: string, key: string): string {
  return /^[\w-]{1,64}$/.test(key) ? `${path}.${key}` : `${path}[${JSON.stringify(key)}]`;
}

/** The parameters that are one value; a number as it was written. */
function paramsOf(doc: Document): Param[] {
  const map = doc.getIn(where.params);
  if (!isMap(map)) return [];
  return map.items.flatMap((item: Pair) => {
    const name = isScalar(item.key) ? String(item.key.value) : "";
    if (!isScalar(item.value)) return [];
    return [{ name, value: written(item.value), at: child("spec.hyperParameters", name) }];
  });
}

function written(node: Scalar): string {
  if (node.value === null) return "";
  return typeof node.value === "number" ? (node.source ?? String(node.value)) : String(node.value);
}

/** What was typed, as a number or a boolean where it is one, as `fermi train run --hp` reads it. */
export function scalarOf(text: string): string | number | boolean | bigint {
  if (text === "true" || text === "false") return text === "true";
  if (!/^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$/.test(text)) return text;
  if (/^-?\d+$/.test(text) && !Number.isSafeInteger(Number(text))) return BigInt(text);
  return Number(text);
}

function secretsOf(role: unknown): SecretUse[] {
  const { env, secretFiles } = (typeof role === "object" && role !== null ? role : {}) as Record<string, unknown>;
  const text = (v: unknown) => (typeof v === "string" || typeof v === "number" ? String(v) : "");
  const list = (v: unknown) =>
    (Array.isArray(v) ? v : []).map((e, i) => ({
      i,
      e: (typeof e === "object" && e !== null ? e : {}) as Record<string, unknown>,
    }));
  const base = "spec.roles[0]";
  const variables = list(env)
    .filter(({ e }) => typeof e.valueFrom === "object" && e.valueFrom !== null)
    .map(({ e, i }) => {
      const from = e.valueFrom as Record<string, unknown>;
      return { name: text(e.name), secret: text(from.secret), key: text(from.key), at: `${base}.env[${i}]` };
    });
  const files = list(secretFiles).map(({ e, i }) => {
    return { name: text(e.name), secret: text(e.secret), key: text(e.key), at: `${base}.secretFiles[${i}]` };
  });
  return [
    ...variables.map((v) => ({ as: "variable" as const, ...v })),
    ...files.map((f) => ({ as: "file" as const, ...f })),
  ];
}

function datasetsOf(list: unknown): string[] {
  return (Array.isArray(list) ? list : []).flatMap((e: unknown) => {
    const { name, version } = (typeof e === "object" && e !== null ? e : {}) as Record<string, unknown>;
    if (typeof name !== "string") return [];
    return [typeof version === "string" || typeof version === "number" ? `${name}@${version}` : name];
  });
}

/** The same work once more, to be changed first: the same code, the same everything. */
export function draftAgain(task: Task): string {
  const { project, labels, displayName } = task.metadata;
  const { stop: _, restore: __, ...spec } = task.spec;
  const { from } = task.status ?? {};
  if (from && spec.checkpoint?.from?.upload) {
    // Nobody need upload it again.
    spec.checkpoint = { ...spec.checkpoint, from: { task: task.metadata.id ?? "", step: from.step } };
  }
  const doc = new Document({ kind: "TrainingTask", metadata: { displayName, project, labels }, spec });
  return doc.toString({ lineWidth: 0 });
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

/** Whether the first role has a command that does nothing; one that has none may get its image's. */
export function blankCommand(yaml: string): boolean {
  const command = parse(yaml)?.toJS({ maxAliasCount: 100 })?.spec?.roles?.[0]?.command;
  return Array.isArray(command) && commandLine(command).trim() === "";
}

/** What a choice of tasks to run inside changes: a replica in each, with what they have. */
export function within(inside: string[]): Partial<Form> {
  const replicas = Math.max(inside.length, 1);
  return { inside, replicas, image: "", devices: 0, deviceType: "", cpu: "", memory: "", ...anywhere };
}

/**
 * What is typed as a command, as words. Python is started without a shell where the words are plain: then its
 * requirements can be installed and its next process be kept ready. Everything else is for sh.
 */
function argvOf(text: string): string[] {
  const words = text.trim().split(/ +/);
  const simple = /^(?:[\w./-]*\/)?python[\d.]*$/.test(words[0] ?? "") && words.every((w) => /^[\w@%+=:,./-]+$/.test(w));
  return simple ? words : ["sh", "-c", text];
}

/** How a typed command is shown once it is in the manifest. */
export function shownCommand(text: string): string {
  return commandLine(argvOf(text));
}

/** Whether a command is one of Python's, which packages can be installed for. */
export function isPython(text: string): boolean {
  return argvOf(text)[0] !== "sh";
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
    const none = value === 0 && zeros.includes(key);
    const absent = value === "" || value === false || none || (Array.isArray(value) && value.length === 0);
    if (key === "command") {
      doc.setIn(path, doc.createNode(argvOf(String(value)), { flow: true }));
    } else if (key === "params") {
      setParams(doc, value as Param[]);
    } else if (key === "secrets") {
      setSecrets(doc, value as SecretUse[]);
    } else if (key === "datasets") {
      setDatasets(doc, value as string[]);
    } else if (key === "code") {
      const empty = { archive: { archive: "" }, git: { git: { url: "" } }, folder: { folder: "" } };
      if (value === "none") remove(doc, path);
      else doc.setIn(path, doc.createNode(empty[value as Exclude<CodeSource, "none">]));
    } else if (absent && !(kept.includes(key) && (key === "displayName" || doc.hasIn(path)))) {
      remove(doc, path);
    } else {
      doc.setIn(path, doc.createNode(value, { flow: true }));
    }
  }
  return doc.toString({ lineWidth: 0, flowCollectionPadding: false });
}

/** Gives the parameters their values, in this order. What is no single value stays as it is, comments too. */
function setParams(doc: Document, rows: readonly Param[]): void {
  if (!isMap(doc.getIn(where.params))) doc.setIn(where.params, doc.createNode({}));
  const map = doc.getIn(where.params) as YAMLMap;
  const had = new Map(map.items.map((item) => [isScalar(item.key) ? String(item.key.value) : "", item]));
  const others = map.items.filter((item) => !isScalar(item.value));
  const wanted = new Map(rows.map((r) => [r.name, r.value])); // the last of a name counts, as in any map
  map.items = [
    ...others,
    ...[...wanted].map(([name, value]) => {
      const pair = had.get(name) ?? doc.createPair(name, "");
      if (!isScalar(pair.value) || written(pair.value) !== value) {
        const next = new Scalar(scalarOf(value));
        if (isScalar(pair.value)) next.comment = pair.value.comment;
        pair.value = next;
      }
      return pair;
    }),
  ];
  if (map.items.length === 0) remove(doc, where.params);
}

/** Puts the secrets among the variables and files of the first role; other variables stay. */
function setSecrets(doc: Document, rows: readonly SecretUse[]): void {
  const put = (path: readonly (string | number)[], keep: (item: unknown) => boolean, made: unknown[]) => {
    if (!isSeq(doc.getIn(path))) {
      if (made.length === 0) return;
      doc.setIn(path, doc.createNode([]));
    }
    const list = doc.getIn(path);
    if (!isSeq(list)) return;
    list.items = [...list.items.filter(keep), ...made.map((m) => doc.createNode(m))];
    list.flow = false;
    if (list.items.length === 0) remove(doc, path);
  };
  const of = (as: SecretUse["as"]) => rows.filter((r) => r.as === as);
  put(
    [...role, "env"],
    (item) => !(isMap(item) && isMap(item.get("valueFrom"))),
    of("variable").map(({ name, secret, key }) => ({ name, valueFrom: { secret, key } })),
  );
  put(
    [...role, "secretFiles"],
    () => false,
    of("file").map(({ name, secret, key }) => ({ name, secret, key })),
  );
}

/** Puts datasets in this order; one that was there keeps its path and whatever else it says. */
function setDatasets(doc: Document, rows: readonly string[]): void {
  const old = doc.getIn(where.datasets);
  const had = isSeq(old) ? old.items.filter((item) => isMap(item)) : [];
  const items = rows.map((row) => {
    const [name = "", version = ""] = row.split("@", 2);
    const node = had.find((item) => item.get("name") === name) ?? (doc.createNode({ name }, { flow: true }) as YAMLMap);
    if (version === "") node.delete("version");
    else if (String(node.get("version")) !== version) node.set("version", version);
    return node;
  });
  if (items.length === 0) {
    remove(doc, where.datasets);
    return;
  }
  if (!isSeq(old)) doc.setIn(where.datasets, doc.createNode([]));
  const list = doc.getIn(where.datasets);
  if (isSeq(list)) Object.assign(list, { items, flow: false });
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
