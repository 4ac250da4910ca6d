import { Group, Stack, Switch, Text } from "@mantine/core";
import { memo, useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import type { Liveness } from "../api/live";
import { maxLogLines } from "../api/queries";
import { type LogLine, spans } from "../log";
import { LiveLight } from "./states";

/** The end of a log. Scrolling up stops following, scrolling to the end takes it up again. */
export function LogView(props: { lines: readonly LogLine[]; dropped: boolean; state: Liveness; prefix: boolean }) {
  const { lines, dropped, state, prefix } = props;
  const { t } = useTranslation();
  const [follow, setFollow] = useState(true);
  const box = useRef<HTMLPreElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: new lines are what moves the box
  useEffect(() => {
    if (follow && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines, follow]);
  function onScroll() {
    const b = box.current;
    if (b) setFollow(b.scrollHeight - b.scrollTop - b.clientHeight < 24);
  }
  return (
    <Stack gap="xs">
      <Group justify="space-between">
        <Switch
          size="sm"
          label={t("task.follow")}
          checked={follow}
          onChange={(e) => setFollow(e.currentTarget.checked)}
        />
        <Group gap="md">
          {dropped && (
            <Text size="xs" c="dimmed">
              {t("task.logDropped", { count: maxLogLines })}
            </Text>
          )}
          <LiveLight state={state} />
        </Group>
      </Group>
      <pre
        className="log"
        ref={box}
        onScroll={onScroll}
        tabIndex={0}
        role="log"
        aria-label={t("task.logLabel")}
        aria-live="off"
      >
        {lines.map((line) => (
          <Line key={line.key} line={line} prefix={prefix} />
        ))}
        {lines.length === 0 && state !== "connecting" && <span className="replica">{t("task.logEmpty")}</span>}
        {lines.length > 0 && state === "ended" && <span className="replica">{t("task.logEnded")}</span>}
      </pre>
    </Stack>
  );
}

/** A line as text, never as markup. What went to stderr has a mark beside it: most of it is no error. */
const Line = memo(function Line({ line, prefix }: { line: LogLine; prefix: boolean }) {
  return (
    <div className={line.stream === "stderr" ? "stderr" : undefined}>
      {prefix && <span className="replica">{line.replica} </span>}
      {spans(line.text).map(({ text, colour, bold }, i) =>
        colour === undefined && !bold ? (
          text
        ) : (
          <span
            // biome-ignore lint/suspicious/noArrayIndexKey: the pieces of a line never change their order
            key={i}
            style={{
              color: colour === undefined ? undefined : `var(--fermi-ansi-${colour})`,
              fontWeight: bold ? 600 : undefined,
            }}
          >
            {text}
          </span>
        ),
      )}
    </div>
  );
});
