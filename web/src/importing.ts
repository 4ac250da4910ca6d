// What the form of an import says, and the task that reads the source: what `fermi data import` makes.
import type { Key } from "./i18n/zh";

export interface ImportForm {
  project: string;
  name: string;
  from: "s3" | "folder";
  /** s3://BUCKET/PREFIX, or NAME/PATH of a folder of the machines. */
  at: string;
  secret: string;
  endpoint: string;
  region: string;
  reference: boolean;
  message: string;
}

export const emptyImport: ImportForm = {
  project: "",
  name: "",
  from: "s3",
  at: "",
  secret: "",
  endpoint: "",
  region: "",
  reference: false,
  message: "",
};

export type ImportFaults = Partial<Record<keyof ImportForm, Extract<Key, `import.${string}`>>>;

const isName = /^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$/;
const isBucket = /^s3:\/\/[a-z0-9.-]{3,63}(\/.*)?$/;

/** What is wrong with a form before it is sent, by its fields. */
export function importFaults(form: ImportForm): ImportFaults {
  const out: ImportFaults = {};
  if (!isName.test(form.name.trim())) out.name = "import.badName";
  const at = form.at.trim();
  if (form.from === "s3") {
    if (!isBucket.test(at)) out.at = "import.badBucket";
    if (form.secret === "") out.secret = "import.noSecret";
    if (form.endpoint.trim() !== "" && !/^https?:\/\/[^/\s]+\/?$/.test(form.endpoint.trim()))
      out.endpoint = "import.badEndpoint";
  } else if (at === "" || at.startsWith("/") || at.split("/").some((part) => part === "" || part.startsWith(".."))) {
    out.at = "import.badFolder";
  }
  return out;
}

/** Fields of the task that is sent, and those of the form that they come from. */
const fields: [RegExp, keyof ImportForm][] = [
  [/^metadata\.project|^project/, "project"],
  [/^spec\.credentials/, "secret"],
  [/^spec\.code\.folder|^spec\.folders/, "at"],
];

/** Which field of the form a refused field of the task is; undefined: none. */
export function importField(path: string): keyof ImportForm | undefined {
  return fields.find(([pattern]) => pattern.test(path))?.[1];
}

interface ImportTask {
  metadata: { displayName: string; project?: string };
  spec: {
    credentials?: { secret: string }[];
    code?: { folder: string };
    roles: { name: string; replicas: number; command: string[]; resources: { cpu: number; memory: string } }[];
  };
}

/** The task that reads the source. */
export function importTask(form: ImportForm): ImportTask {
  const name = form.name.trim();
  const at = form.at.trim().replace(/\/+$/, "");
  const option = (flag: string, value: string) => (value.trim() === "" ? [] : [flag, value.trim()]);
  const s3 = form.from === "s3";
  const command = [
    ...["fermi", "data", "import", name],
    ...(s3 ? [at, "--secret", form.secret] : ["--folder", at]),
    ...(s3 ? [...option("--endpoint", form.endpoint.replace(/\/+$/, "")), ...option("--region", form.region)] : []),
    ...(form.reference ? ["--reference"] : []),
    ...option("--message", form.message),
    "--here",
  ];
  return {
    metadata: { displayName: `import ${name}`, ...(form.project && { project: form.project }) },
    spec: {
      ...(s3 ? { credentials: [{ secret: form.secret }] } : { code: { folder: at } }),
      roles: [{ name: "worker", replicas: 1, command, resources: { cpu: 1, memory: "1Gi" } }],
    },
  };
}
