import { Group, Stack, Switch, Text } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import type { Liveness } from "../api/live";
import { type LogLine, maxLogLines } from "../api/queries";
import { LiveLight } from "./states";

// Colours and cursor moves that programs send to terminals, and other control characters.
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const control = /\u001b\[[0-9;?]*[ -/]*[@-~]|\u001b\][^\u0007]*\u0007|[\u0000-\u0008\u000b-\u001f\u007f]/g;

/** A line as people can read it. It is shown as text, never as markup. */
export function plain(text: string): string {
  return text.replace(control, "");
}

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
          <div key={line.key} className={line.stream === "stderr" ? "stderr" : undefined}>
            {prefix && <span className="replica">{line.replica} </span>}
            {plain(line.text)}
          </div>
        ))}
        {lines.length === 0 && state !== "connecting" && <span className="replica">{t("task.logEmpty")}</span>}
        {lines.length > 0 && state === "ended" && <span className="replica">{t("task.logEnded")}</span>}
      </pre>
    </Stack>
  );
}
