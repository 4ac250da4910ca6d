import { type CSSVariablesResolver, createTheme } from "@mantine/core";

export const theme = createTheme({
  primaryColor: "blue",
  primaryShade: { light: 8, dark: 8 },
  autoContrast: true,
  fontFamily:
    '-apple-system, "Segoe UI", "Noto Sans", "PingFang SC", "Noto Sans CJK SC", "Microsoft YaHei", sans-serif',
  fontFamilyMonospace: 'ui-monospace, "SF Mono", Menlo, Consolas, "Noto Sans Mono CJK SC", monospace',
  defaultRadius: "md",
  headings: { fontWeight: "600" },
});

const hues = ["blue", "green", "red", "yellow", "orange", "grape", "gray", "teal"];

/** Text colours that everybody can read: the library's own are too pale for small text. */
export const colours: CSSVariablesResolver = (t) => {
  const light: Record<string, string> = {
    "--mantine-color-dimmed": "#51595f",
    "--mantine-color-placeholder": "#5f676e",
    "--mantine-color-anchor": "#155b9e",
    "--mantine-color-error": "#b32020",
    "--fermi-used": "#1971c2",
    "--fermi-free": "#d3dbe3",
    "--fermi-down": "#e08a8a",
    "--fermi-page": "#f6f8fa",
    "--fermi-log": "#fbfcfd",
    "--fermi-track": "#e9eef3",
    ...terminal([
      ["#1f2328", "#b32020", "#1c5a2a", "#7a3b00", "#155b9e", "#6a2079", "#075c45", "#51595f"],
      ["#3b4248", "#c92a2a", "#1f7a35", "#8a4a00", "#1971c2", "#862e9c", "#0b7285", "#2b3036"],
    ]),
    ...painted(["#c92a2a", "#d9660a", "#7a828a", "#1971c2", "#0b8a73", "#7048c8"]),
  };
  const dark: Record<string, string> = {
    "--mantine-color-dimmed": "#a9b0b8",
    "--mantine-color-placeholder": "#9aa2aa",
    "--mantine-color-anchor": "#74b8f5",
    "--mantine-color-error": "#ff9c9c",
    "--fermi-used": "#4dabf7",
    "--fermi-free": "#3b4248",
    "--fermi-down": "#a34b4b",
    "--fermi-page": "#1a1b1e",
    "--fermi-log": "#141517",
    "--fermi-track": "#2a2e33",
    ...terminal([
      ["#9aa2aa", "#ff9c9c", "#8ce99a", "#ffd43b", "#74b8f5", "#e599f7", "#63e6be", "#ced4da"],
      ["#adb5bd", "#ffb3b3", "#b2f2bb", "#ffe066", "#a5d8ff", "#eebefa", "#96f2d7", "#f1f3f5"],
    ]),
    ...painted(["#ff8787", "#ffa94d", "#adb5bd", "#4dabf7", "#38d9a9", "#b197fc"]),
  };
  for (const hue of hues) {
    const shades = t.colors[hue];
    light[`--mantine-color-${hue}-light-color`] =
      hue === "yellow" || hue === "orange" ? "#7a3b00" : (darkest[hue] ?? "#222");
    dark[`--mantine-color-${hue}-light-color`] = shades?.[2] ?? "#eee";
  }
  return { variables: {}, light, dark };
};

/** The colours of a recovery's phases, in their order. */
function painted(list: readonly string[]): Record<string, string> {
  return Object.fromEntries(list.map((colour, i) => [`--fermi-phase-${i}`, colour]));
}

/** The 16 colours of terminals, so that each can be read on the log's ground. */
function terminal(rows: readonly (readonly string[])[]): Record<string, string> {
  return Object.fromEntries(rows.flat().map((colour, i) => [`--fermi-ansi-${i}`, colour]));
}

const darkest: Record<string, string> = {
  blue: "#11497f",
  green: "#1c5a2a",
  red: "#8f1c1c",
  grape: "#6a2079",
  gray: "#3b4248",
  teal: "#075c45",
};
