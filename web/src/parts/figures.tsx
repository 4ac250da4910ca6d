import { NativeSelect, SimpleGrid, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { useFigures, useProjects, useWhoami } from "../api/queries";
import { type Gauge, gaugesOf, remarksOf } from "../figures";
import { title } from "../format";
import { Panel, View } from "./states";

/** How well all tasks do, or those of one project. */
export default function FiguresPanel() {
  const { t } = useTranslation();
  const [project, choose] = useState("");
  const projects = useProjects();
  const read = useFigures(project);
  const who = useWhoami();
  const all = { value: "", label: who.data && !who.data.seesAll ? t("figures.mine") : t("figures.all") };
  const names = (projects.data?.items ?? []).map((p) => ({ value: p.metadata.name ?? "", label: title(p) }));
  const choice = (
    <NativeSelect
      size="xs"
      aria-label={t("figures.project")}
      data={[all, ...names]}
      value={project}
      onChange={(e) => choose(e.currentTarget.value)}
    />
  );
  return (
    <Panel title={t("figures.title")} right={choice}>
      <View read={read} rows={3}>
        {(view) => (
          <Stack gap="sm">
            <SimpleGrid cols={{ base: 1, xs: 2, md: 4 }} spacing="xl">
              {gaugesOf(view, t).map((g) => (
                <GaugeView key={g.name} {...g} />
              ))}
            </SimpleGrid>
            <Text size="xs" c="dimmed" className="break">
              {remarksOf(view, t).join(" · ")}
            </Text>
          </Stack>
        )}
      </View>
    </Panel>
  );
}

function GaugeView({ word, value, note, fill, goal, bad }: Gauge) {
  const words = [word, value, note].filter(Boolean).join(", ");
  return (
    <Stack gap={4}>
      <Text size="sm" c="dimmed">
        {word}
      </Text>
      <Text fw={fill === undefined ? undefined : 600} c={bad ? "var(--mantine-color-error)" : undefined}>
        {value}
      </Text>
      <div className="gauge" role="img" aria-label={words} title={words}>
        {fill !== undefined && <span className={bad ? "fill bad" : "fill"} style={{ width: `${fill}%` }} />}
        {goal !== undefined && <i className="goal" style={{ left: `${goal}%` }} />}
      </div>
      <Text size="xs" c="dimmed">
        {note}
      </Text>
    </Stack>
  );
}
