import { Badge, Button, Group, Progress, Stack, Table, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { type TaskArray, useArrays, useEndArray } from "../api/many";
import { said, title } from "../format";
import { AnchorLink } from "./link";
import { useLanguage } from "./now";
import { Failure, Panel } from "./states";

const hues: Record<string, string> = { Running: "blue", Completed: "green", Failed: "red", Stopped: "gray" };

/** The task arrays, where there are any. */
export function Arrays() {
  const { t } = useTranslation();
  const list = useArrays();
  if (list.error) return <Failure error={list.error} retry={() => void list.refetch()} />;
  if (!list.data || list.data.length === 0) return null;
  return (
    <Panel title={t("arrays.title")}>
      <Table.ScrollContainer minWidth={640}>
        <Table verticalSpacing="sm">
          <Table.Tbody>
            {list.data.map((a) => (
              <Row key={a.metadata.id} array={a} />
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Panel>
  );
}

function Row({ array }: { array: TaskArray }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const end = useEndArray();
  const { phase = "Running", count, message, ended } = array.status ?? {};
  const total = Math.max(count?.total ?? 0, 1);
  const part = (n: number | undefined) => (100 * (n ?? 0)) / total;
  const over = phase !== "Running";
  return (
    <Table.Tr>
      <Table.Td maw={260}>
        <AnchorLink to="/tasks" search={{ search: `${array.metadata.name}-` }} fw={500} size="sm" className="break">
          {title(array)}
        </AnchorLink>
        <Text size="xs" c="dimmed" className="break">
          {t("arrays.indexes", { indexes: array.spec.indexes.slice(0, 60) })}
          {array.spec.atOnce ? ` · ${t("arrays.atOnce", { n: array.spec.atOnce })}` : ""}
        </Text>
      </Table.Td>
      <Table.Td miw={260}>
        <Stack gap={4}>
          <Progress.Root aria-label={t("arrays.progress", { name: title(array) })}>
            <Progress.Section value={part(count?.completed)} color="green" />
            <Progress.Section value={part(count?.failed)} color="red" />
            <Progress.Section value={part(count?.stopped)} color="gray" />
            <Progress.Section value={part(count?.running)} color="blue" />
          </Progress.Root>
          <Text size="xs" c="dimmed" className="break">
            {said(message, lang)}
          </Text>
          {ended?.failed && over && (
            <Text size="xs" className="break">
              {t("arrays.failed", { indexes: ended.failed.slice(0, 200) })}
            </Text>
          )}
          {end.error && <Failure error={end.error} />}
        </Stack>
      </Table.Td>
      <Table.Td>
        <Group justify="flex-end" wrap="nowrap">
          <Badge color={hues[phase] ?? "gray"} variant="light" tt="none">
            {t(`arrays.phase.${phase}`)}
          </Badge>
          <Button
            size="xs"
            variant="default"
            loading={end.isPending}
            disabled={array.metadata.deletedAt !== undefined || (!over && array.spec.stop)}
            onClick={() => end.mutate({ id: array.metadata.id ?? "", over })}
          >
            {t(over ? "arrays.remove" : "arrays.stop")}
          </Button>
        </Group>
      </Table.Td>
    </Table.Tr>
  );
}
