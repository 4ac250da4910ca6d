// Environments and services being written: what a form holds, and the manifest it means.
import { parse } from "yaml";
import type { Schemas } from "./api/client";
import type { RefusedField } from "./faults";
import { quantity } from "./format";
import { cores } from "./hosts";

export interface Variable {
  name: string;
  value: string;
}

/** A value of a secret, as a variable or a file of the processes. */
export interface SecretUse {
  as: "variable" | "file";
  name: string;
  secret: string;
  key: string;
  at?: string;
}

export const environmentTypes = ["notebook", "training", "inference", "custom"] as const;
export type EnvironmentType = (typeof environmentTypes)[number];

/** What both have. A number that was not given is "". */
export interface WorkForm {
  displayName: string;
  project: string;
  image: string;
  command: string;
  devices: number | "";
  deviceType: string;
  cpu: number | "";
  memory: number | ""; // GiB
  spot: string; // never, prefer, only, or "" for as good as others
  variables: Variable[];
  secrets: SecretUse[];
}

export interface EnvironmentForm extends WorkForm {
  type: EnvironmentType;
  storage: number | ""; // GiB
  zone: string;
  ports: string; // numbers, apart by commas or spaces
  vscode: boolean;
  from: string; // a snapshot: DATASET, or DATASET@VERSION
  git: string; // URL, or URL@BRANCH
  dotfiles: string;
  gitSecret: string;
  restarts: number | "";
  shared: boolean;
  idle: string; // a time, never, or "" for the operator's
  starts: string;
  stops: string;
  timeZone: string;
}

export const emptyEnvironment: EnvironmentForm = {
  displayName: "",
  project: "",
  image: "",
  command: "",
  devices: 0,
  deviceType: "",
  cpu: "",
  memory: "",
  spot: "",
  variables: [],
  secrets: [],
  type: "notebook",
  storage: "",
  zone: "",
  ports: "",
  vscode: false,
  from: "",
  git: "",
  dotfiles: "",
  gitSecret: "",
  restarts: "",
  shared: false,
  idle: "",
  starts: "",
  stops: "",
  timeZone: "",
};

/** The engines, as a person looks for them. */
export const engineGroups = {
  language: ["vllm", "sglang", "llama-cpp"],
  any: ["triton", "onnxruntime", "mlserver", "torchserve", "tensorflow-serving"],
  own: ["sample", "custom"],
} as const;
export type Engine = (typeof engineGroups)[keyof typeof engineGroups][number];

export const engineOptions = ["batchSize", "maxLength", "tensorParallel", "pipelineParallel", "precision"] as const;
export type EngineOption = (typeof engineOptions)[number];

/** The options that an engine has a flag for; it is refused any other. */
export function optionsOf(engine: Engine): readonly EngineOption[] {
  if (engine === "vllm" || engine === "sglang") return engineOptions;
  if (engine === "llama-cpp") return ["batchSize", "maxLength"];
  return engine === "onnxruntime" ? ["batchSize"] : [];
}

/** What a zone has of a service. */
export interface ZoneRow {
  zone: string;
  replicas: number | "";
  weight: number | "";
  role: "primary" | "backup";
  serves: string; // regions, apart by commas or spaces
}

export interface ServiceForm extends WorkForm, Record<Exclude<EngineOption, "precision">, number | ""> {
  id: string; // its name in addresses
  engine: Engine;
  precision: string;
  modelFrom: "none" | "registry" | "task";
  modelName: string;
  modelVersion: string;
  modelTask: string;
  modelFile: string;
  replicas: number | "";
  zones: ZoneRow[];
  protocol: "rest" | "grpc" | "websocket";
  path: string;
  format: "" | "openai" | "kserve-v2" | "json";
  schema: string; // JSON or YAML
  port: number | "";
  health: string;
  timeout: string;
  maxConcurrency: number | "";
  maxQueue: number | "";
  code: "none" | "archive" | "git" | "folder";
  archive: string;
  gitUrl: string;
  gitRevision: string;
  gitSecret: string;
  folder: string;
  requirements: string;
}

export const emptyService: ServiceForm = {
  displayName: "",
  project: "",
  image: "",
  command: "",
  devices: 0,
  deviceType: "",
  cpu: "",
  memory: "",
  spot: "",
  variables: [],
  secrets: [],
  id: "",
  engine: "sample",
  batchSize: "",
  maxLength: "",
  tensorParallel: "",
  pipelineParallel: "",
  precision: "",
  modelFrom: "none",
  modelName: "",
  modelVersion: "",
  modelTask: "",
  modelFile: "",
  replicas: 1,
  zones: [],
  protocol: "rest",
  path: "",
  format: "",
  schema: "",
  port: "",
  health: "",
  timeout: "",
  maxConcurrency: "",
  maxQueue: "",
  code: "none",
  archive: "",
  gitUrl: "",
  gitRevision: "",
  gitSecret: "",
  folder: "",
  requirements: "",
};

/** An object without what is nothing. */
function some(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).filter(
      ([, v]) =>
        v !== undefined &&
        v !== "" &&
        v !== false &&
        !(Array.isArray(v) && v.length === 0) &&
        !(typeof v === "object" && v !== null && Object.keys(v).length === 0),
    ),
  );
}

/** Rows that say anything; one without both words is none. */
const written = (rows: readonly Variable[]) => rows.filter((r) => r.name !== "" || r.value !== "");

function shared(f: WorkForm): Record<string, unknown> {
  const of = (as: SecretUse["as"]) => f.secrets.filter((s) => s.as === as);
  return {
    image: f.image.trim(),
    command: f.command.trim() === "" ? [] : ["sh", "-c", f.command],
    resources: some({
      accelerators: f.devices === 0 ? {} : some({ count: f.devices, type: f.deviceType }),
      cpu: f.cpu === "" ? "" : String(f.cpu),
      memory: f.memory === "" ? "" : `${Math.round(f.memory * 1024)}Mi`,
    }),
    spot: f.spot,
    env: [
      ...written(f.variables).map(({ name, value }) => ({ name, value })),
      ...of("variable").map(({ name, secret, key }) => ({ name, valueFrom: { secret, key } })),
    ],
    secretFiles: of("file").map(({ name, secret, key }) => ({ name, secret, key })),
  };
}

/** A snapshot as people write it: DATASET or DATASET@VERSION. */
export function snapshotOf(text: string): { name: string; version?: string } | undefined {
  const [name, version] = text.split("@");
  return name ? { name, ...(version ? { version } : {}) } : undefined;
}

/** A repository as people write it: URL or URL@BRANCH. The @ of git@host:path is none of ours. */
export function repositoryOf(text: string, secret: string): Record<string, unknown> | undefined {
  const url = text.trim();
  if (url === "") return undefined;
  const cut = url.lastIndexOf("@");
  const branch = cut > Math.max(url.lastIndexOf("/"), url.lastIndexOf(":"));
  return some({ url: branch ? url.slice(0, cut) : url, revision: branch ? url.slice(cut + 1) : "", secret });
}

/** Words as people write lists of them. */
const words = (text: string) => text.split(/[\s,，、]+/).filter((one) => one !== "");

/** Ports as people write them; what is no number is sent as 0, which the server refuses by its place. */
export function portsOf(text: string): { port: number }[] {
  return words(text).map((one) => ({ port: /^\d{1,5}$/.test(one) ? Number(one) : 0 }));
}

/** A spec with what a template has and it does not say: field by field, and variables by their names. */
export function afterTemplate(base: Record<string, unknown>, said: Record<string, unknown>): Record<string, unknown> {
  const out = { ...base };
  for (const [key, value] of Object.entries(said)) {
    const was = out[key];
    out[key] = isObject(was) && isObject(value) ? afterTemplate(was, value) : value;
  }
  if (Array.isArray(base.env)) {
    const own = (said.env ?? []) as { name: string }[];
    const rest = (base.env as { name: string }[]).filter((v) => !own.some((o) => o.name === v.name));
    out.env = [...own, ...rest];
  }
  if (said.command) delete out.entryPoint;
  return out;
}

const isObject = (v: unknown): v is Record<string, unknown> => typeof v === "object" && v !== null && !Array.isArray(v);

export function environmentOf(f: EnvironmentForm): { metadata: object; spec: Record<string, unknown> } {
  return {
    metadata: { displayName: f.displayName },
    spec: some({
      type: f.type,
      ...shared(f),
      storage: f.storage === "" ? "" : `${Math.round(f.storage * 1024)}Mi`,
      zone: f.zone,
      ports: portsOf(f.ports),
      vscode: f.vscode,
      from: snapshotOf(f.from),
      git: repositoryOf(f.git, f.gitSecret),
      dotfiles: repositoryOf(f.dotfiles, f.gitSecret),
      restartPolicy: f.restarts === "" ? undefined : { maxRestarts: f.restarts },
      shared: f.shared,
      idle: f.idle.trim() === "never" ? { never: true } : some({ after: f.idle.trim() }),
      schedule:
        f.starts.trim() === "" && f.stops.trim() === ""
          ? undefined
          : some({ start: f.starts.trim(), stop: f.stops.trim(), timeZone: f.timeZone.trim() }),
    }),
  };
}

const numberOf = (n: number): number | "" => (Number.isNaN(n) ? "" : Math.round(n * 1000) / 1000);
const gibi = (text: string | undefined) => numberOf(quantity(text) / 1024 ** 3);

/** The form of an environment that is there: what of it can be changed. */
export function formOf(env: Schemas["DevEnvironment"]): EnvironmentForm {
  const { spec, metadata } = env;
  const from = (v: { name: string; secret: string; key: string }, as: SecretUse["as"]) => ({ as, ...v });
  return {
    ...emptyEnvironment,
    displayName: metadata.displayName ?? "",
    project: metadata.project ?? "",
    type: spec.type ?? "custom",
    image: spec.image ?? "",
    devices: spec.resources?.accelerators?.count ?? 0,
    deviceType: spec.resources?.accelerators?.type ?? "",
    cpu: numberOf(cores(spec.resources?.cpu)),
    memory: gibi(spec.resources?.memory),
    spot: spec.spot ?? "",
    storage: gibi(spec.storage),
    zone: spec.zone ?? "",
    ports: (spec.ports ?? []).map((p) => p.port).join(", "),
    vscode: spec.vscode ?? false,
    shared: spec.shared ?? false,
    idle: spec.idle?.never ? "never" : (spec.idle?.after ?? ""),
    starts: spec.schedule?.start ?? "",
    stops: spec.schedule?.stop ?? "",
    timeZone: spec.schedule?.timeZone ?? "",
    variables: (spec.env ?? []).filter((v) => !v.valueFrom).map((v) => ({ name: v.name, value: v.value ?? "" })),
    secrets: [
      ...(spec.env ?? []).flatMap((v) => (v.valueFrom ? [from({ name: v.name, ...v.valueFrom }, "variable")] : [])),
      ...(spec.secretFiles ?? []).map((f) => from(f, "file")),
    ],
  };
}

/** What is wished of an environment once its form was changed: what the change does not touch stays as it is. */
export function changed<S extends Schemas["DevEnvironment"]["spec"]>(
  spec: S,
  before: EnvironmentForm,
  after: EnvironmentForm,
): S {
  const out = merged(spec as Record<string, unknown>, environmentOf(before).spec, environmentOf(after).spec) as S;
  const names = new Map((spec.ports ?? []).map((p) => [p.port, p]));
  return { ...out, ports: out.ports?.map((p) => names.get(p.port) ?? p) }; // with the names that they have
}

/** An object after the difference of two others; what became nothing goes away. */
function merged(
  base: Record<string, unknown>,
  was: Record<string, unknown>,
  is: Record<string, unknown>,
): Record<string, unknown> {
  const out = { ...base };
  for (const key of new Set([...Object.keys(was), ...Object.keys(is)])) {
    const [old, now, here] = [was[key], is[key], base[key]];
    if (JSON.stringify(old) === JSON.stringify(now)) continue;
    if (isObject(now) && isObject(here)) out[key] = merged(here, isObject(old) ? old : {}, now);
    else if (now === undefined) delete out[key];
    else out[key] = now;
  }
  return out;
}

function codeOf(f: ServiceForm): object {
  const git = some({ url: f.gitUrl, revision: f.gitRevision, secret: f.gitSecret });
  const from =
    f.code === "archive"
      ? { archive: f.archive }
      : f.code === "git"
        ? { git }
        : f.code === "folder"
          ? { folder: f.folder }
          : {};
  return f.code === "none" ? {} : { ...from, ...some({ requirements: f.requirements }) };
}

function zoneOf(z: ZoneRow): Record<string, unknown> {
  const said = some({ replicas: z.replicas, weight: z.weight, role: z.role === "backup" ? z.role : "" });
  return { zone: z.zone, ...said, ...some({ serves: words(z.serves) }) };
}

/** A schema as it was written: what it says, or that it is none. Formats that are not JSON have none. */
export function schemaOf(f: ServiceForm): { schema?: Record<string, unknown>; bad?: boolean } {
  if (f.format !== "json" || f.protocol === "grpc" || f.schema.trim() === "") return {};
  try {
    const schema: unknown = parse(f.schema);
    return isObject(schema) ? { schema } : { bad: true };
  } catch {
    return { bad: true };
  }
}

export function serviceOf(f: ServiceForm): object {
  const { image, command, ...rest } = shared(f);
  const own =
    f.engine === "custom"
      ? { image, command, code: codeOf(f), port: f.port, health: some({ path: f.health }) }
      : { image: f.engine === "sample" ? "" : image };
  const models = {
    none: {},
    registry: { name: f.modelName, version: f.modelVersion.trim() },
    task: { task: f.modelTask, file: f.modelFile },
  };
  const options = Object.fromEntries(optionsOf(f.engine).map((o) => [o, f[o]]));
  return {
    metadata: some({ name: f.id.trim(), displayName: f.displayName }),
    spec: some({
      replicas: f.zones.length > 0 ? "" : f.replicas,
      zones: f.zones.map(zoneOf),
      protocol: f.protocol,
      path: f.path.trim(),
      format: f.protocol === "grpc" ? "" : f.format,
      schema: schemaOf(f).schema,
      timeout: f.timeout.trim(),
      maxConcurrency: f.maxConcurrency,
      maxQueue: f.maxQueue,
      template: some({ engine: f.engine, model: some(models[f.modelFrom]), options: some(options), ...own, ...rest }),
    }),
  };
}

/** A field of a form, or a row of one: variables.0, secrets.1. */
export type Place = string;

const base = String.raw`^spec\.(?:template\.)?`;
const places: readonly [RegExp, Place][] = [
  [/^metadata\.displayName$/, "displayName"],
  [/^metadata\.project$/, "project"],
  [new RegExp(`${base}type$`), "type"],
  [new RegExp(`${base}image$`), "image"],
  [new RegExp(`${base}(command|args)\\b`), "command"],
  [new RegExp(`${base}resources\\.accelerators\\.type$`), "deviceType"],
  [new RegExp(`${base}resources\\.accelerators\\b`), "devices"],
  [new RegExp(`${base}resources\\.cpu$`), "cpu"],
  [new RegExp(`${base}resources\\.memory$`), "memory"],
  [new RegExp(`${base}spot$`), "spot"],
  [/^spec\.storage$/, "storage"],
  [/^spec\.zones?\b/, "zone"],
  [/^spec\.restartPolicy\b/, "restarts"],
  [/^spec\.ports\b/, "ports"],
  [/^spec\.vscode$/, "vscode"],
  [/^spec\.(git|dotfiles)\.secret$/, "gitSecret"],
  [/^spec\.from\b/, "from"],
  [/^spec\.git\b/, "git"],
  [/^spec\.dotfiles\b/, "dotfiles"],
  [/^spec\.idle\b/, "idle"],
  [/^spec\.schedule\.timeZone$/, "timeZone"],
  [/^spec\.schedule\.start$/, "starts"],
  [/^spec\.schedule\b/, "stops"],
  [/^spec\.replicas$/, "replicas"],
  [/^spec\.protocol$/, "protocol"],
  [/^spec\.path$/, "path"],
  [/^spec\.format$/, "format"],
  [/^spec\.schema\b/, "schema"],
  [/^spec\.timeout$/, "timeout"],
  [/^spec\.maxConcurrency$/, "maxConcurrency"],
  [/^spec\.maxQueue$/, "maxQueue"],
  [/^spec\.template\.engine$/, "engine"],
  [/^spec\.template\.model\.file$/, "modelFile"],
  [/^spec\.template\.model\.version$/, "modelVersion"],
  [/^spec\.template\.model\.task$/, "modelTask"],
  [/^spec\.template\.model\b/, "modelName"],
  [/^spec\.template\.options\.batchSize$/, "batchSize"],
  [/^spec\.template\.options\.maxLength$/, "maxLength"],
  [/^spec\.template\.options\.precision$/, "precision"],
  [/^spec\.template\.options\.tensorParallel$/, "tensorParallel"],
  [/^spec\.template\.options\.pipelineParallel$/, "pipelineParallel"],
  [/^spec\.template\.port$/, "port"],
  [/^spec\.template\.health\b/, "health"],
  [/^spec\.template\.code\.archive$/, "archive"],
  [/^spec\.template\.code\.git\.revision$/, "gitRevision"],
  [/^spec\.template\.code\.git\.secret$/, "gitSecret"],
  [/^spec\.template\.code\.git\b/, "gitUrl"],
  [/^spec\.template\.code\.folder$/, "folder"],
  [/^spec\.template\.code\.requirements$/, "requirements"],
  [/^spec\.template\.code$/, "code"],
];

/** Where in the form a refused path was written; undefined: the form has no place for it. */
export function placeOf(path: string, f: WorkForm): Place | undefined {
  const zone = /^spec\.zones\[(\d+)\](?:\.(\w+))?/.exec(path);
  if (zone && "zones" in f) return zone[2] ? `zones.${zone[1]}.${zone[2]}` : `zones.${zone[1]}`;
  if ("zones" in f && path === "spec.zones") return "zones";
  const row = /^spec\.(?:template\.)?(env|secretFiles)\[(\d+)\]/.exec(path);
  if (row) {
    const n = Number(row[2]);
    const variables = written(f.variables);
    if (row[1] === "env" && n < variables.length) return `variables.${f.variables.indexOf(variables[n] as Variable)}`;
    const as = row[1] === "env" ? "variable" : "file";
    const use = f.secrets.filter((s) => s.as === as)[row[1] === "env" ? n - variables.length : n];
    return use && `secrets.${f.secrets.indexOf(use)}`;
  }
  if (path === "metadata.name") return "id" in f && f.id !== "" ? "id" : "displayName";
  return places.find(([pattern]) => pattern.test(path))?.[1];
}

export interface Placed {
  at: Record<Place, string>;
  rest: RefusedField[];
}

/** Sorts refused fields to where they were written; hidden are fields that the form does not show now. */
export function placeAll(fields: readonly RefusedField[], f: WorkForm, hidden: readonly Place[] = []): Placed {
  const out: Placed = { at: {}, rest: [] };
  for (const field of fields) {
    const place = placeOf(field.path, f);
    if (place === undefined || hidden.includes(place)) out.rest.push(field);
    else out.at[place] = out.at[place] === undefined ? field.message : `${out.at[place]} ${field.message}`;
  }
  return out;
}

/** Faults without those of fields that were changed since. */
export function without(placed: Placed, changed: readonly string[]): Placed {
  const at = Object.entries(placed.at).filter(([place]) => !changed.includes(place.split(".")[0] ?? ""));
  return { ...placed, at: Object.fromEntries(at) };
}
