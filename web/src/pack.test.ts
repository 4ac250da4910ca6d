// @vitest-environment node
import { gunzipSync, zipSync } from "fflate";
import { unpackTar } from "modern-tar";
import { expect, test } from "vitest";
import { CantPack, type Chosen, chosenFrom, opened, pack, select } from "./pack";

const file = (path: string, text = path): Chosen => ({ path, blob: new Blob([text]) });
const paths = async (...list: Chosen[]) => (await select(list)).kept.map((f) => f.path);

async function contents(blob: Blob) {
  return unpackTar(gunzipSync(new Uint8Array(await blob.arrayBuffer())));
}

test("what is of no use elsewhere stays at home", async () => {
  const { kept, left } = await select([
    file("train.py"),
    file(".git/config"),
    file("src/__pycache__/m.pyc"),
    file("src/m.py"),
    file("env/pyvenv.cfg"),
    file("env/lib/python3/site.py"),
    file("conda/conda-meta/history"),
    file("conda/bin/python"),
    file("data/format"),
    file("data/link.key"),
    file("data/admin.token"),
    file(".DS_Store"),
  ]);
  expect(kept.map((f) => f.path)).toEqual(["train.py", "src/m.py"]);
  expect(left).toEqual([".DS_Store", ".git/", "conda/", "data/", "env/", "src/__pycache__/"]);
});

test("of an environment with code in it the code goes along", async () => {
  expect(
    await paths(file("pyvenv.cfg"), file("bin/python"), file("lib/x/y"), file("train.py"), file("src/lib/m.py")),
  ).toEqual(["pyvenv.cfg", "train.py", "src/lib/m.py"]);
});

test("rules of an ignore file count, ours before git's", async () => {
  const git = file(".gitignore", "*.log\n/build/\n!keep.log\n");
  expect(await paths(git, file("a.log"), file("keep.log"), file("build/x"), file("src/build/x"))).toEqual([
    ".gitignore",
    "keep.log",
    "src/build/x",
  ]);
  expect(await paths(git, file(".fermiignore", "*.txt"), file("a.log"), file("a.txt"))).toEqual([
    ".gitignore",
    ".fermiignore",
    "a.log",
  ]);
});

test("a path that leads out of the folder does not go along", async () => {
  expect(await paths(file("../x"), file("/etc/x"), file("a/../../x"), file("a//b"), file(""), file("ok"))).toEqual([
    "ok",
  ]);
});

test("the archive holds the files, in their order and without times", async () => {
  const long = `${"d/".repeat(60)}模型.py`;
  const made = await pack([file("run.sh", "#!/bin/sh\n"), file(long, "x"), file("a.py", "print(1)")]);
  const entries = await contents(made.blob);
  expect(entries.map((e) => e.header.name)).toEqual(["a.py", long, "run.sh"]);
  expect(entries.map((e) => e.header.mode)).toEqual([0o644, 0o644, 0o755]);
  expect(new TextDecoder().decode(entries[0]?.data)).toBe("print(1)");
  expect(entries.every((e) => e.header.mtime?.getTime() === 0)).toBe(true);
  expect(made).toMatchObject({ files: 3, top: ["a.py", "run.sh"], left: [] });
  const again = await pack([file("a.py", "print(1)"), file(long, "x"), file("run.sh", "#!/bin/sh\n")]);
  expect(await again.blob.arrayBuffer()).toEqual(await made.blob.arrayBuffer());
});

test("a zip is opened, without the one folder around everything", async () => {
  const bytes = (text: string) => new TextEncoder().encode(text);
  const zip = (entries: Record<string, string>) =>
    opened([
      {
        path: "code.zip",
        blob: new Blob([zipSync(Object.fromEntries(Object.entries(entries).map(([k, v]) => [k, bytes(v)])))]),
      },
    ]);
  expect((await zip({ "p/train.py": "1", "p/m/x.py": "2", "__MACOSX/p/._x": "" })).map((f) => f.path)).toEqual([
    "train.py",
    "m/x.py",
  ]);
  expect((await zip({ "train.py": "1", "m/x.py": "2" })).map((f) => f.path)).toEqual(["train.py", "m/x.py"]);
  await expect(opened([file("code.zip", "no zip")])).rejects.toThrow(CantPack);
  expect((await opened([file("code.zip"), file("b.py")])).length).toBe(2);
});

test("nothing to pack is said", async () => {
  await expect(pack([])).rejects.toMatchObject({ why: "empty" });
  await expect(pack([file(".git/config")])).rejects.toMatchObject({ why: "empty" });
  await expect(pack([file("format"), file("link.key"), file("admin.token")])).rejects.toMatchObject({ why: "empty" });
});

test("a folder's own name is dropped", () => {
  const one = Object.assign(new File(["x"], "train.py"), { webkitRelativePath: "proj/src/train.py" });
  expect(chosenFrom([one])[0]?.path).toBe("src/train.py");
  expect(chosenFrom([new File(["x"], "train.py")])[0]?.path).toBe("train.py");
});
