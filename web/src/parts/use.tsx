import { SimpleGrid, Stack, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Task } from "../api/client";
import { moment } from "../format";
import type { Language } from "../i18n/setup";
import { figuresOf } from "../use";
import { FigureView } from "./figure";
import { Empty } from "./states";

/** What the task uses and how well, as it was taken last. */
export default function Use({ task, lang }: { task: Task; lang: Language }) {
  const { t } = useTranslation();
  const figures = figuresOf(task, t);
  if (figures.length === 0) return <Empty text={t("use.empty")} />;
  const at = task.status?.use?.at ?? task.status?.pace?.at;
  return (
    <Stack gap="md" className="figures">
      <SimpleGrid cols={{ base: 2, sm: 4 }}>
        {figures.map((f) => (
          <FigureView key={f.word} {...f} />
        ))}
      </SimpleGrid>
      {at && (
        <Text size="xs" c="dimmed">
          {t("use.at", { time: moment(at, lang) })}
        </Text>
      )}
    </Stack>
  );
}
