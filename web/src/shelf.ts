// Sizes and paths of datasets and images, as people read them.
import { bytes, quantity } from "./format";

/** A quantity of bytes such as 1536Mi in words. */
export function readable(size: string | undefined): string {
  return size === undefined ? "—" : bytes(quantity(size));
}

export function folderAbove(path: string): string {
  const cut = path.lastIndexOf("/");
  return cut < 0 ? "" : path.slice(0, cut);
}

interface Place {
  folder?: string;
  s3?: { bucket: string; prefix?: string };
}

/** Where the bytes of a version lie, or were read from; "" where they were uploaded or a task left them. */
export function origin(v: { spec: { source?: Place; origin?: { task?: string; imported?: Place } } }): string {
  const at = v.spec.source ?? v.spec.origin?.imported;
  if (at?.s3) return `s3://${[at.s3.bucket, at.s3.prefix].filter(Boolean).join("/")}`;
  return at?.folder ?? v.spec.origin?.task ?? "";
}

interface Elsewhere {
  metadata: { project?: string };
  spec: { number: number; source?: { s3?: { secret: string } } };
}

/** What a task that looks at a file where it lies leaves. */
export const lookLeaves = "preview.json";

/** A task that looks at a file of a version by reference: in the bucket, or in the folder that is mounted for it. */
export function lookTask(name: string, v: Elsewhere, path: string) {
  const version = String(v.spec.number);
  const s3 = v.spec.source?.s3;
  return {
    metadata: { displayName: `look at ${name}`, ...(v.metadata.project && { project: v.metadata.project }) },
    spec: {
      ...(s3 ? { credentials: [{ secret: s3.secret }] } : { datasets: [{ name, version, path: `/data/${name}` }] }),
      roles: [
        {
          name: "worker",
          replicas: 1,
          command: ["fermi", "data", "look", `${name}@${version}`, path],
          resources: { cpu: "500m", memory: "256Mi" },
        },
      ],
    },
  };
}

interface Entry {
  metadata: { name?: string; displayName?: string };
  spec: {
    reference: string;
    category?: string;
    framework?: string;
    description?: { en?: string; zh?: string };
    tags?: string[] | null;
  };
}

/** Whether an entry of the catalogue is of a category ("" is any) and has all these words. */
export function fits(entry: Entry, category: string, words: string): boolean {
  const { spec, metadata } = entry;
  if (category !== "" && (spec.category ?? "custom") !== category) return false;
  const text = [
    metadata.name,
    metadata.displayName,
    spec.reference,
    spec.framework,
    spec.description?.en,
    spec.description?.zh,
    ...(spec.tags ?? []),
  ]
    .join(" ")
    .toLowerCase();
  return words
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}
