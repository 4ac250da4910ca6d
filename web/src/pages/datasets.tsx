// Datasets: which there are, and how to bring one.
import { Card, Code, Group, Stack, Table, Text, TextInput, Title } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { type Dataset, useDatasets } from "../api/shelf";
import { moment, title } from "../format";
import { AnchorLink } from "../parts/link";
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
      <Title order={1} size="h3">
        {t("data.title")}
      </Title>
      <Text size="sm" c="dimmed">
        {t("data.how")} <Code>fermi data upload NAME FOLDER</Code> {t("data.or")}{" "}
        <Code>fermi data import NAME s3://BUCKET --secret SECRET</Code>
      </Text>
      <TextInput
        label={t("tasks.search")}
        value={search}
        maxLength={128}
        onChange={(e) => setSearch(e.currentTarget.value)}
        maw={360}
      />
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
    <Table.ScrollContainer minWidth={640}>
      <Table highlightOnHover verticalSpacing="sm" horizontalSpacing="md">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t("data.name")}</Table.Th>
            <Table.Th>{t("data.versions")}</Table.Th>
            <Table.Th>{t("data.size")}</Table.Th>
            <Table.Th>{t("data.newest")}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
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
                <Group gap={6}>
                  <Text size="xs" c="dimmed" className="break" lineClamp={2}>
                    {[d.metadata.project, d.spec.description].filter(Boolean).join(" · ")}
                  </Text>
                </Group>
              </Table.Td>
              <Table.Td>{d.status?.versions ?? 0}</Table.Td>
              <Table.Td>{readable(d.status?.size)}</Table.Td>
              <Table.Td>{moment(d.status?.at, lang)}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
