// What changed between two texts, line by line.

export interface Mark {
  sign: " " | "+" | "-";
  line: string;
}

/** The lines of both texts in order: kept, new, or gone. Longest common subsequence; for texts of a page or two. */
export function difference(before: string, after: string): Mark[] {
  const a = before.split("\n");
  const b = after.split("\n");
  const width = b.length + 1;
  const longest = new Uint32Array((a.length + 1) * width);
  const at = (i: number, j: number) => longest[i * width + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      longest[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const marks: Mark[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      marks.push({ sign: " ", line: a[i] ?? "" });
      i++;
      j++;
    } else if (i < a.length && (j === b.length || at(i + 1, j) >= at(i, j + 1))) {
      marks.push({ sign: "-", line: a[i++] ?? "" });
    } else {
      marks.push({ sign: "+", line: b[j++] ?? "" });
    }
  }
  return marks;
}

/** The marks that changed, with so many kept lines around them; a gap is one kept line "…". */
export function around(marks: readonly Mark[], context: number): Mark[] {
  const near = marks.map((_, i) =>
    marks.slice(Math.max(0, i - context), i + context + 1).some(({ sign }) => sign !== " "),
  );
  return marks.flatMap((m, i): Mark[] => {
    if (near[i]) return [m];
    return i === 0 || near[i - 1] ? [{ sign: " ", line: "…" }] : [];
  });
}
