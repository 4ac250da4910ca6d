import "@xterm/xterm/css/xterm.css";
import { Alert, Button, Group, Text, useComputedColorScheme } from "@mantine/core";
import { FitAddon } from "@xterm/addon-fit";
import { type ITheme, Terminal } from "@xterm/xterm";
import { useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { dialTerminal, whyNoTerminal } from "../api/terminal";
import { Line, type LineState } from "../terminal/line";

/** Lines that can be scrolled back to. */
const scrollback = 5000;

/** The page's colours, as an emulator wants them. */
function paint(): ITheme {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim() || undefined;
  const ansi = (i: number) => colour(`--fermi-ansi-${i}`);
  const text = colour("--mantine-color-text");
  return {
    background: colour("--fermi-log"),
    foreground: text,
    cursor: text,
    cursorAccent: colour("--fermi-log"),
    selectionBackground: "#4dabf766",
    black: ansi(0),
    red: ansi(1),
    green: ansi(2),
    yellow: ansi(3),
    blue: ansi(4),
    magenta: ansi(5),
    cyan: ansi(6),
    white: ansi(7),
    brightBlack: ansi(8),
    brightRed: ansi(9),
    brightGreen: ansi(10),
    brightYellow: ansi(11),
    brightBlue: ansi(12),
    brightMagenta: ansi(13),
    brightCyan: ansi(14),
    brightWhite: ansi(15),
  };
}

interface Props {
  /** Address of the terminal's route. */
  path: string;
  session: string;
  /** Its name for people who can't see it. */
  label: string;
  /** Takes what ends the shell, while there is one. */
  onLine: (hangUp: (() => void) | undefined) => void;
  /** Another shell in its place. */
  another: () => void;
}

/** A shell as an emulator of a terminal. */
export default function ShellView({ path, session, label, onLine, another }: Props) {
  const { t } = useTranslation();
  const at = useRef<HTMLDivElement>(null);
  const term = useRef<Terminal>(undefined);
  const line = useRef<Line>(undefined);
  const words = useRef(t);
  words.current = t;
  const [state, setState] = useState<LineState>({ name: "connecting" });
  const scheme = useComputedColorScheme("light");

  useEffect(() => {
    if (!at.current) return;
    const emulator = new Terminal({
      scrollback,
      cursorBlink: false,
      screenReaderMode: true,
      fontSize: 13,
      lineHeight: 1.2,
      fontFamily: getComputedStyle(at.current).fontFamily,
      theme: paint(),
    });
    const fit = new FitAddon();
    emulator.loadAddon(fit);
    emulator.open(at.current);
    fit.fit();
    const wire = new Line({
      dial: () => dialTerminal(path),
      session,
      screen: {
        write: (data, done) => emulator.write(data, done),
        size: () => ({ columns: emulator.cols, rows: emulator.rows }),
      },
      onState: setState,
      onLost: (bytes) => emulator.write(`\r\n\x1b[2m[${words.current("shell.lost", { n: bytes })}]\x1b[0m\r\n`),
      why: () => whyNoTerminal(path),
    });
    emulator.onData((text) => wire.type(text));
    emulator.onResize(() => wire.resize());
    wire.open();
    emulator.focus();
    const watch = new ResizeObserver(() => fit.fit());
    watch.observe(at.current);
    term.current = emulator;
    line.current = wire;
    return () => {
      watch.disconnect();
      wire.leave();
      emulator.dispose();
    };
  }, [path, session]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: the colours are the scheme's
  useEffect(() => {
    const emulator = term.current;
    // The new colours are in force a frame after the scheme.
    const frame = requestAnimationFrame(() => {
      if (emulator) emulator.options.theme = paint();
    });
    return () => cancelAnimationFrame(frame);
  }, [scheme]);

  const ended = state.name === "ended" || state.name === "refused";
  useEffect(() => {
    onLine(ended ? undefined : () => line.current?.hangUp());
  }, [ended, onLine]);
  return (
    <div className="shell">
      <State state={state} retry={() => line.current?.open()} another={another} />
      <section ref={at} className="shell-screen" aria-label={label} data-state={state.name} />
    </div>
  );
}

/** What the line does, where that is not plain to see. */
function State({ state, retry, another }: { state: LineState; retry: () => void; another: () => void }) {
  const { t } = useTranslation();
  if (state.name === "open") return null;
  if (state.name === "connecting" || state.name === "cut") {
    return (
      <Group gap={6} className="shell-state" role="status">
        <span className="dot" style={{ background: "#e8950c" }} />
        <Text size="xs">{t(state.name === "cut" ? "shell.cut" : "shell.connecting")}</Text>
      </Group>
    );
  }
  const gone = state.name === "ended" || state.reason === "NoSession";
  const text =
    state.name === "ended"
      ? state.signal
        ? t("shell.endedBy", { signal: state.signal })
        : t("shell.ended", { code: state.code })
      : state.reason === "NoSession"
        ? t("shell.gone")
        : state.reason === "NotRunning"
          ? t("shell.notRunning")
          : state.message || t("state.failed");
  return (
    <Alert color={gone ? "gray" : "red"} variant="light" p="xs" mb="xs" role="alert">
      <Group justify="space-between" gap="sm">
        <Text size="sm" className="break">
          {text}
        </Text>
        <Button size="compact-sm" variant="default" onClick={gone ? another : retry}>
          {gone ? t("shell.another") : t("state.retry")}
        </Button>
      </Group>
    </Alert>
  );
}
