// Models: which there are, and how to bring one.
import { Badge, Card, Code, Group, Stack, Table, Text, Title } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { type Model, useModels } from "../api/shelf";
import { moment, title } from "../format";
import { AnchorLink } from "../parts/link";
import { Below, ListTable, SearchField } from "../parts/list";
import { useLanguage } from "../parts/now";
import { Empty, View } from "../parts/states";
import { readable } from "../shelf";

export function Models() {
  const { t } = useTranslation();
  const [search, setSearch] = useState("");
  const read = useModels();
  const word = search.trim().toLowerCase();
  return (
    <Stack>
      <Title order={1} size="h3">
        {t("models.title")}
      </Title>
      <Text size="sm" c="dimmed">
        {t("models.how")} <Code>fermi model upload NAME FOLDER</Code>{" "}
        <Code>fermi train run --output-model NAME -- …</Code>
      </Text>
      <SearchField value={search} onChange={setSearch} />
      <Card withBorder padding={0}>
        <View read={read} rows={5} empty={(d) => d.length === 0} whenEmpty={<Empty text={t("models.empty")} />}>
          {(list) => (
            <Rows
              list={list.filter((m) =>
                `${m.metadata.name} ${m.metadata.displayName ?? ""} ${m.spec.description ?? ""}`
                  .toLowerCase()
                  .includes(word),
              )}
            />
          )}
        </View>
      </Card>
    </Stack>
  );
}

function Rows({ list }: { list: readonly Model[] }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  if (list.length === 0) return <Empty text={t("models.noMatch")} />;
  return (
    <ListTable
      minWidth={640}
      columns={[
        t("models.name"),
        t("models.format"),
        t("data.versions"),
        t("models.known"),
        t("data.size"),
        t("data.newest"),
      ]}
    >
      {list.map((m) => (
        <Table.Tr key={m.metadata.id}>
          <Table.Td maw={360}>
            <AnchorLink to="/models/$name" params={{ name: m.metadata.id ?? "" }} fw={500} size="sm" className="break">
              {title(m)}
            </AnchorLink>
            <Below lines={2}>{[m.metadata.project, m.spec.description].filter(Boolean).join(" · ")}</Below>
          </Table.Td>
          <Table.Td>{m.status?.format ?? "—"}</Table.Td>
          <Table.Td>{m.status?.versions ?? 0}</Table.Td>
          <Table.Td>
            <Group gap={4}>
              {Object.entries(m.spec.aliases ?? {}).map(([alias, n]) => (
                <Badge key={alias} size="sm" variant="light" tt="none">
                  {alias} @{n}
                </Badge>
              ))}
              {Object.entries(m.spec.stages ?? {}).map(([n, stage]) => (
                <Badge key={`${n} ${stage}`} size="sm" variant="outline" tt="none">
                  {stage} @{n}
                </Badge>
              ))}
            </Group>
          </Table.Td>
          <Table.Td>{readable(m.status?.size)}</Table.Td>
          <Table.Td>{moment(m.status?.at, lang)}</Table.Td>
        </Table.Tr>
      ))}
    </ListTable>
  );
}
