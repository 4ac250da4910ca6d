import { useComputedColorScheme } from "@mantine/core";
import { useElementSize } from "@mantine/hooks";
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { type By, type Line, type Range, valueText } from "../curves";

const colours = {
  light: ["#1971c2", "#c2410c", "#2b8a3e", "#862e9c", "#b32020", "#0b7285", "#7a5c00", "#51595f"],
  dark: ["#74b8f5", "#ffa94d", "#8ce99a", "#e599f7", "#ff9c9c", "#63e6be", "#ffd43b", "#ced4da"],
};

interface Props {
  name: string;
  lines: readonly Line[];
  by: By;
  log: boolean;
  label: string; // for who does not see it
  axis: string; // what is counted along it
  zoom: (range: Range | undefined) => void;
}

/** Lines over steps or time; a drag over it zooms in, a double click shows all again. */
export function Chart({ name, lines, by, log, label, axis: along, zoom }: Props) {
  const scheme = useComputedColorScheme("light");
  const { ref: frame, width } = useElementSize();
  const at = useRef<HTMLDivElement>(null);
  const zoomed = useRef(zoom);
  zoomed.current = zoom;
  useEffect(() => {
    if (!at.current || width < 50) return;
    const scale = by === "time" ? 1000 : 1; // uPlot counts time in seconds
    const tables = lines.map((l): uPlot.AlignedData => [l.x.map((x) => x / scale), l.y]);
    const data: uPlot.AlignedData =
      tables.length > 0
        ? uPlot.join(
            tables,
            tables.map(() => [0, 1]),
          )
        : [[]];
    const ink = scheme === "dark" ? "#ced4da" : "#3b4248";
    const grid = { stroke: scheme === "dark" ? "#2f3338" : "#e9eef3", width: 1 };
    const axis: uPlot.Axis = { stroke: ink, grid, ticks: grid };
    const chart = new uPlot(
      {
        width,
        height: 260,
        scales: { x: { time: by === "time" }, y: { distr: log ? 3 : 1 } },
        axes: [
          by === "time" ? { ...axis, values: (_, ticks) => ticks.map((at) => timeText(at, ticks)) } : axis,
          { ...axis, size: 72, values: (_, ticks) => ticks.map((v) => (v === null ? "" : valueText(name, v))) },
        ],
        series: [
          {
            label: along,
            value: (_, v) =>
              v === null ? "—" : by === "time" ? new Date(v * 1000).toLocaleString(language()) : String(v),
          },
          ...lines.map(
            (l, i): uPlot.Series => ({
              label: l.label,
              stroke: colours[scheme][i % 8],
              dash: i < 8 ? [] : [6, 4],
              width: 1.5,
              points: { show: l.x.length < 3 },
              value: (_, v) => valueText(name, v),
            }),
          ),
        ],
        cursor: { drag: { x: true, y: false, setScale: false } },
        hooks: {
          setSelect: [
            (u) => {
              if (u.select.width < 4) return;
              const from = u.posToVal(u.select.left, "x") * scale;
              const to = u.posToVal(u.select.left + u.select.width, "x") * scale;
              u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
              zoomed.current({ from: Math.max(0, Math.floor(from)), to: Math.ceil(to) });
            },
          ],
        },
      },
      data,
      at.current,
    );
    const whole = () => zoomed.current(undefined);
    chart.over.addEventListener("dblclick", whole);
    return () => chart.destroy();
  }, [name, lines, by, log, along, width, scheme]);
  return (
    <div ref={frame}>
      <div ref={at} className="chart" role="img" aria-label={label} />
    </div>
  );
}

const language = () => document.documentElement.lang || undefined;

/** A moment on the axis: with its day where the axis has several. */
function timeText(at: number, ticks: readonly number[]): string {
  const days = (ticks[ticks.length - 1] ?? at) - (ticks[0] ?? at) > 86400;
  const moment = new Date(at * 1000);
  return days
    ? moment.toLocaleString(language(), { month: "numeric", day: "numeric", hour: "2-digit", minute: "2-digit" })
    : moment.toLocaleTimeString(language(), { hour12: false });
}
