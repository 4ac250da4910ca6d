import { Button, Group, MultiSelect, SegmentedControl, Slider, Stack, Switch, Text } from "@mantine/core";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import type { Task } from "../api/client";
import { useCurveNames, useCurves, useTasks } from "../api/queries";
import { type By, firstNames, labelOf, lineOf, positive, type Range } from "../curves";
import { title } from "../format";
import { Chart } from "./chart";
import { Empty, Failure, Loading, Panel, View } from "./states";

interface How {
  by: By;
  rank: "first" | "all";
  all: boolean;
  log: boolean;
  smooth: number;
  range: Range | undefined;
}

/** The curves of a task, beside those of others that are chosen. */
export default function Curves({ name, task }: { name: string; task: Task }) {
  const { t } = useTranslation();
  const live = !["Completed", "Failed", "Stopped"].includes(task.status?.phase ?? "");
  const read = useCurveNames(name, live);
  return (
    <View read={read} empty={(d) => d.items.length === 0} whenEmpty={<Empty text={t("curves.empty")} />}>
      {(d) => (
        <Stack>
          <Ready name={name} live={live} names={d.items} />
          {d.dropped > 0 && (
            <Text size="sm" c="dimmed">
              {t("curves.dropped", { count: d.dropped })}
            </Text>
          )}
        </Stack>
      )}
    </View>
  );
}

function Ready({ name, live, names }: { name: string; live: boolean; names: Parameters<typeof firstNames>[0] }) {
  const { t } = useTranslation();
  const [chosen, choose] = useState<string[]>();
  const [others, compare] = useState<string[]>([]);
  const [how, change] = useState<How>({
    by: "step",
    rank: "first",
    all: false,
    log: false,
    smooth: 0,
    range: undefined,
  });
  const set = (more: Partial<How>) => change((h) => ({ ...h, ...more }));
  const shown = chosen ?? firstNames(names);
  const tasks = useTasks({ limit: 50, sort: "-createdAt" });
  const choices = (tasks.data?.pages ?? [])
    .flatMap((p) => p.items)
    .map((o) => ({
      value: o.metadata.name ?? "",
      label: title(o) === o.metadata.name ? title(o) : `${title(o)} (${o.metadata.name})`,
    }))
    .filter((o) => o.value !== "" && o.value !== name);
  return (
    <Stack>
      <Group align="flex-end" gap="md">
        <MultiSelect
          label={t("curves.shown")}
          data={names.map((n) => n.name)}
          value={shown}
          onChange={choose}
          maxValues={8}
          searchable
          flex="1 1 260px"
        />
        <MultiSelect
          label={t("curves.compare")}
          placeholder={others.length === 0 ? t("curves.compareNone") : undefined}
          data={choices}
          value={others}
          onChange={compare}
          maxValues={4}
          searchable
          flex="1 1 260px"
        />
      </Group>
      <Group gap="lg" align="center">
        <SegmentedControl
          aria-label={t("curves.by")}
          value={how.by}
          onChange={(by) => set({ by: by as By, range: undefined })}
          data={[
            { value: "step", label: t("curves.step") },
            { value: "time", label: t("curves.time") },
          ]}
        />
        <Switch label={t("curves.log")} checked={how.log} onChange={(e) => set({ log: e.currentTarget.checked })} />
        <Switch
          label={t("curves.ranks")}
          checked={how.rank === "all"}
          onChange={(e) => set({ rank: e.currentTarget.checked ? "all" : "first" })}
        />
        <Switch label={t("curves.again")} checked={how.all} onChange={(e) => set({ all: e.currentTarget.checked })} />
        <Group gap="xs" wrap="nowrap">
          <Text size="sm" id="curves-smooth">
            {t("curves.smooth")}
          </Text>
          <Slider
            w={140}
            min={0}
            max={0.99}
            step={0.01}
            label={(v) => v.toFixed(2)}
            value={how.smooth}
            onChange={(smooth) => set({ smooth })}
            thumbLabel={t("curves.smooth")}
          />
        </Group>
        {how.range && (
          <Button size="compact-sm" variant="default" onClick={() => set({ range: undefined })}>
            {t("curves.whole")}
          </Button>
        )}
      </Group>
      {shown.map((curve) => (
        <One
          key={curve}
          tasks={[name, ...others]}
          live={live}
          curve={curve}
          how={how}
          zoom={(range) => set({ range })}
        />
      ))}
      <Text size="xs" c="dimmed">
        {t("curves.help")}
      </Text>
    </Stack>
  );
}

interface OneProps {
  tasks: string[];
  live: boolean;
  curve: string;
  how: How;
  zoom: (range: Range | undefined) => void;
}

function One({ tasks, live, curve, how, zoom }: OneProps) {
  const { t } = useTranslation();
  const { by, rank, all, range } = how;
  const reads = useCurves(tasks, { name: curve, rank, by, all, range }, live);
  const found = reads.map((r) => r.data);
  const read = reads.map((r) => r.dataUpdatedAt).join();
  const named = tasks.join();
  // biome-ignore lint/correctness/useExhaustiveDependencies: found and tasks are new each time; read and named say when what is in them is
  const { lines, broken, left, more, points } = useMemo(() => {
    const several = { tasks: tasks.length > 1, generations: all };
    const made = found.flatMap((d, i) =>
      (d?.items ?? []).map((c) => lineOf(c, by, labelOf(c, tasks[i] ?? "", several, t("curves.rank")), how.smooth)),
    );
    const fit = how.log ? made.map(positive) : made.map((line) => ({ line, left: 0 }));
    return {
      lines: fit.map((f) => f.line),
      left: fit.reduce((n, f) => n + f.left, 0),
      broken: made.reduce((n, l) => n + l.broken, 0),
      more: found.reduce((n, d) => n + (d?.left ?? 0), 0),
      points: found.reduce((n, d) => n + (d?.items ?? []).reduce((m, c) => m + c.total, 0), 0),
    };
  }, [read, named, curve, by, all, range, how.smooth, how.log, t]);
  const failed = reads.find((r) => r.error);
  return (
    <Panel title={curve}>
      {failed?.error && <Failure error={failed.error} retry={() => void failed.refetch()} />}
      {reads.every((r) => r.isPending) ? (
        <Loading rows={4} />
      ) : (
        <Stack gap={4}>
          <Chart
            name={curve}
            lines={lines}
            by={by}
            log={how.log}
            zoom={zoom}
            label={t("curves.chart", { name: curve, count: lines.length })}
            axis={t(by === "time" ? "curves.time" : "curves.step")}
          />
          <Text size="xs" c="dimmed">
            {[
              t("curves.points", { count: points }),
              broken > 0 ? t("curves.broken", { count: broken }) : "",
              left > 0 ? t("curves.below", { count: left }) : "",
              more > 0 ? t("curves.more", { count: more }) : "",
            ]
              .filter((s) => s !== "")
              .join(" · ")}
          </Text>
        </Stack>
      )}
    </Panel>
  );
}
