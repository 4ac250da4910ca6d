import { Group, Stack, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Task } from "../api/client";
import { duration, ran, said, sizes, title, wish } from "../format";
import { AnchorLink } from "./link";
import { useLanguage } from "./now";
import { PhaseBadge } from "./phase";

/** The word by which a task's page is found: its id is never used twice. */
export function wordOf(task: Task): string {
  return task.metadata.id ?? task.metadata.name ?? "";
}

export function TaskLink({ task }: { task: Task }) {
  return (
    <AnchorLink to="/tasks/$name" params={{ name: wordOf(task) }} fw={500} size="sm" className="break">
      {title(task)}
    </AnchorLink>
  );
}

/** What the task asks for, in words. */
export function Wish({ task }: { task: Task }) {
  const { t } = useTranslation();
  const { replicas, devices, type } = wish(task);
  const parts: string[] = [
    devices > 0 ? t("unit.devices", { count: devices, type: type || t("unit.anyDevice") }) : t("unit.cpuOnly"),
  ];
  const range = sizes(task);
  if (range) parts.push(t("unit.elastic", { range }));
  else if (replicas > 1) parts.push(t("unit.replicas", { count: replicas }));
  return <>{parts.join(" · ")}</>;
}

/** A task in a short list. */
export function TaskRow({ task, now }: { task: Task; now: number }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const time = ran(task, now);
  return (
    <Group justify="space-between" wrap="nowrap" gap="sm" align="flex-start">
      <Stack gap={0} miw={0}>
        <TaskLink task={task} />
        <Text size="xs" c="dimmed" lineClamp={2} className="break">
          {task.status?.phase === "Running" ? (
            <Wish task={task} />
          ) : (
            said(task.status?.message, lang) || <Wish task={task} />
          )}
        </Text>
      </Stack>
      <Stack gap={2} align="flex-end" style={{ flexShrink: 0 }}>
        <PhaseBadge phase={task.status?.phase} />
        {Number.isFinite(time) && (
          <Text size="xs" c="dimmed" style={{ whiteSpace: "nowrap" }}>
            {duration(time, t)}
          </Text>
        )}
      </Stack>
    </Group>
  );
}
