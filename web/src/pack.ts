// Code chosen in the browser, as the archive that `fermi train run` would send: a tar, compressed, in the order of
// its paths, without times and owners, and without what is of no use elsewhere. Loaded when code is chosen.
import { unzipSync } from "fflate";
import ignore from "ignore";
import { createTarPacker } from "modern-tar";

/** A file that was chosen: where it lies, with slashes, and its bytes. */
export interface Chosen {
  path: string;
  blob: Blob;
}

export interface Packed {
  blob: Blob;
  files: number;
  bytes: number;
  /** Folders and files that were left out; of what a rule left out only the top. */
  left: string[];
  /** Files at the top, for hints. */
  top: string[];
}

/** Why nothing was packed. */
export class CantPack extends Error {
  constructor(readonly why: "empty" | "tooMany" | "tooLarge" | "badZip") {
    super(why);
  }
}

export const maxFiles = 100_000;
export const maxBytes = 2 * 2 ** 30;
/** A zip is unpacked in memory. */
const maxZip = 2 ** 30;

// What programs make by themselves, as the command line leaves it out too.
const useless = new Set([
  ".git",
  ".hg",
  ".svn",
  "__pycache__",
  "node_modules",
  ".ipynb_checkpoints",
  ".mypy_cache",
  ".pytest_cache",
  ".ruff_cache",
  ".tox",
  ".nox",
  ".DS_Store",
  "__MACOSX",
]);
// Folders of a virtual environment whose own folder was chosen, with code in it.
const installed = new Set(["bin", "lib", "lib64", "include", "share", "conda-meta", "Lib", "Scripts", "Include"]);
const ignoreFiles = [".fermiignore", ".gitignore"];

/** What an input for files or folders holds. Names of a folder begin with the folder's, which is dropped. */
export function chosenFrom(files: Iterable<File>): Chosen[] {
  return [...files].map((file) => ({
    path: (file.webkitRelativePath || file.name)
      .split("/")
      .slice(file.webkitRelativePath ? 1 : 0)
      .join("/"),
    blob: file,
  }));
}

/** Opens a zip that was chosen alone; anything else is code as it is. */
export async function opened(chosen: readonly Chosen[]): Promise<Chosen[]> {
  const [only] = chosen;
  if (chosen.length !== 1 || !only || !/\.zip$/i.test(only.path)) return [...chosen];
  let room = maxZip;
  let files: Record<string, Uint8Array>;
  try {
    files = unzipSync(new Uint8Array(await only.blob.arrayBuffer()), {
      filter: (f) => {
        room -= f.originalSize;
        if (room < 0) throw new CantPack("tooLarge");
        return !f.name.endsWith("/");
      },
    });
  } catch (error) {
    throw error instanceof CantPack ? error : new CantPack("badZip");
  }
  const out = Object.entries(files).map(([path, data]) => ({
    path: path.replaceAll("\\", "/"),
    blob: new Blob([data as Uint8Array<ArrayBuffer>]),
  }));
  return withoutTop(out.filter((f) => !f.path.startsWith("__MACOSX/")));
}

/** Drops the one folder that everything lies in. */
function withoutTop(list: Chosen[]): Chosen[] {
  const top = list[0]?.path.split("/")[0];
  if (!top || !list.every((f) => f.path.startsWith(`${top}/`))) return list;
  return list.map((f) => ({ ...f, path: f.path.slice(top.length + 1) }));
}

/** Whether a path can be one inside a folder; a zip may say anything. */
function stays(path: string): boolean {
  return path !== "" && !path.startsWith("/") && !path.split("/").some((p) => p === "" || p === "." || p === "..");
}

/** Decides what goes along; what is left out is told by the top of it. */
export async function select(chosen: readonly Chosen[]): Promise<{ kept: Chosen[]; left: string[] }> {
  const paths = new Set(chosen.map((f) => f.path));
  const has = (folder: string, name: string) => paths.has(folder === "" ? name : `${folder}/${name}`);
  const rules = ignore();
  for (const name of ignoreFiles) {
    const file = chosen.find((f) => f.path === name);
    if (!file) continue;
    rules.add(await file.blob.slice(0, 1 << 20).text());
    break;
  }
  const within = has("", "pyvenv.cfg") || has("", "conda-meta/history");
  // A virtual environment works only where it was made; a server's data holds its keys.
  const folderIsOut = (folder: string) =>
    useless.has(folder.split("/").at(-1) ?? "") ||
    (within && installed.has(folder)) ||
    has(folder, "pyvenv.cfg") ||
    has(folder, "conda-meta/history") ||
    (has(folder, "format") && has(folder, "link.key")) ||
    rules.ignores(`${folder}/`);
  const known = new Map<string, boolean>();
  const isOut = (folder: string) => {
    let out = known.get(folder);
    if (out === undefined) {
      out = folderIsOut(folder);
      known.set(folder, out);
    }
    return out;
  };
  const kept: Chosen[] = [];
  const left = new Set<string>();
  if (has("", "format") && has("", "link.key")) return { kept, left: ["./"] };
  for (const file of chosen) {
    if (!stays(file.path)) {
      left.add(file.path);
      continue;
    }
    const parts = file.path.split("/");
    const folders = parts.slice(0, -1).map((_, i) => parts.slice(0, i + 1).join("/"));
    const out = folders.find(isOut);
    if (out !== undefined) left.add(`${out}/`);
    else if (useless.has(parts.at(-1) ?? "") || rules.ignores(file.path)) left.add(file.path);
    else kept.push(file);
  }
  return { kept, left: [...left].sort() };
}

/** Makes the archive. The same files give the same bytes in the same browser. */
export async function pack(chosen: readonly Chosen[]): Promise<Packed> {
  const { kept, left } = await select(await opened(chosen));
  if (kept.length === 0) throw new CantPack("empty");
  if (kept.length > maxFiles) throw new CantPack("tooMany");
  const bytes = kept.reduce((n, f) => n + f.blob.size, 0);
  if (bytes > maxBytes) throw new CantPack("tooLarge");
  kept.sort((a, b) => (a.path < b.path ? -1 : 1));
  const { readable, controller } = createTarPacker();
  const packing = (async () => {
    try {
      for (const { path, blob } of kept) {
        const script = (await blob.slice(0, 2).text()) === "#!"; // browsers don't tell what may be executed
        const header = {
          name: path,
          size: blob.size,
          mode: script ? 0o755 : 0o644,
          mtime: new Date(0),
          uid: 0,
          gid: 0,
        };
        await blob.stream().pipeTo(controller.add({ ...header, type: "file" }));
      }
      controller.finalize();
    } catch (error) {
      controller.error(error);
    }
  })();
  const zipped = (readable as ReadableStream<Uint8Array<ArrayBuffer>>).pipeThrough(new CompressionStream("gzip"));
  const [blob] = await Promise.all([new Response(zipped).blob(), packing]);
  const top = kept.map((f) => f.path).filter((p) => !p.includes("/"));
  return { blob, files: kept.length, bytes, left, top };
}
