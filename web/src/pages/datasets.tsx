// Datasets: which there are, and how to bring one.
import { Card, Code, Group, Stack, Table, Text, Title } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { type Dataset, useDatasets } from "../api/shelf";
import { moment, title } from "../format";
import { ImportData } from "../parts/import";
import { AnchorLink } from "../parts/link";
import { Below, ListTable, SearchField } from "../parts/list";
import { useLanguage } from "../parts/now";
import { Empty, View } from "../parts/states";
import { readable } from "../shelf";

export function Datasets() {
  const { t } = useTranslation();
  const [search, setSearch] = useState("");
  const read = useDatasets();
  const word = search.trim().toLowerCase();
  return (
    <Stack>
      <Group justify="space-between">
        <Title order={1} size="h3">
          {t("data.title")}
        </Title>
        <ImportData />
      </Group>
      <Text size="sm" c="dimmed">
        {t("data.how")} <Code>fermi data upload NAME FOLDER</Code> {t("data.or")}{" "}
        <Code>fermi data import NAME s3://BUCKET --secret SECRET</Code>
      </Text>
      <SearchField value={search} onChange={setSearch} />
      <Card withBorder padding={0}>
        <View read={read} rows={5} empty={(d) => d.length === 0} whenEmpty={<Empty text={t("data.empty")} />}>
          {(list) => (
            <Rows
              list={list.filter((d) =>
                `${d.metadata.name} ${d.metadata.displayName ?? ""} ${d.spec.description ?? ""}`
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

function Rows({ list }: { list: readonly Dataset[] }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  if (list.length === 0) return <Empty text={t("data.noMatch")} />;
  return (
    <ListTable minWidth={640} columns={[t("data.name"), t("data.versions"), t("data.size"), t("data.newest")]}>
      {list.map((d) => (
        <Table.Tr key={d.metadata.id}>
          <Table.Td maw={360}>
            <AnchorLink
              to="/datasets/$name"
              params={{ name: d.metadata.id ?? "" }}
              fw={500}
              size="sm"
              className="break"
            >
              {title(d)}
            </AnchorLink>
            <Below lines={2}>{[d.metadata.project, d.spec.description].filter(Boolean).join(" · ")}</Below>
          </Table.Td>
          <Table.Td>{d.status?.versions ?? 0}</Table.Td>
          <Table.Td>{readable(d.status?.size)}</Table.Td>
          <Table.Td>{moment(d.status?.at, lang)}</Table.Td>
        </Table.Tr>
      ))}
    </ListTable>
  );
}
