// Images: the catalogue, and what is done with images, with its log.
import {
  Badge,
  Button,
  Card,
  Code,
  Group,
  Modal,
  SegmentedControl,
  SimpleGrid,
  Stack,
  Table,
  Text,
  TextInput,
  Title,
} from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { useLog } from "../api/queries";
import { type Image, type ImageJob, useImageJobs, useImages, useStopJob } from "../api/shelf";
import { moment, said, title } from "../format";
import { LogView } from "../parts/log-view";
import { useLanguage } from "../parts/now";
import { Empty, Failure, Panel, View } from "../parts/states";
import { fits, readable } from "../shelf";

const categories = ["", "official", "community", "custom"] as const;

export function Images() {
  const { t } = useTranslation();
  const [category, setCategory] = useState<(typeof categories)[number]>("");
  const [search, setSearch] = useState("");
  const read = useImages();
  return (
    <Stack>
      <Title order={1} size="h3">
        {t("images.title")}
      </Title>
      <Group align="flex-end">
        <SegmentedControl
          aria-label={t("images.category")}
          data={categories.map((c) => ({ value: c, label: t(`images.category.${c || "all"}`) }))}
          value={category}
          onChange={(c) => setCategory(c as typeof category)}
        />
        <TextInput
          label={t("tasks.search")}
          value={search}
          maxLength={128}
          onChange={(e) => setSearch(e.currentTarget.value)}
          w={280}
        />
      </Group>
      <View read={read} rows={6}>
        {(list) => <Cards list={list.filter((i) => fits(i, category, search.trim()))} />}
      </View>
      <Panel title={t("images.jobs")}>
        <Jobs />
      </Panel>
    </Stack>
  );
}

function Cards({ list }: { list: readonly Image[] }) {
  const { t } = useTranslation();
  if (list.length === 0) return <Empty text={t("images.none")} />;
  return (
    <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }}>
      {list.map((i) => (
        <Entry key={i.metadata.id} image={i} />
      ))}
    </SimpleGrid>
  );
}

function Entry({ image }: { image: Image }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const { spec, status } = image;
  const found = status?.verified?.found;
  const facts = [spec.framework, spec.cuda && `CUDA ${spec.cuda}`, spec.python && `Python ${spec.python}`].filter(
    Boolean,
  );
  const size = found?.size ?? spec.size;
  return (
    <Card withBorder padding="sm" component="article" aria-label={title(image)}>
      <Stack gap={6}>
        <Group justify="space-between" wrap="nowrap" align="flex-start">
          <Text fw={600} size="sm" className="break">
            {title(image)}
          </Text>
          <Badge size="sm" variant="light" tt="none" color="gray" style={{ flexShrink: 0 }}>
            {t(`images.category.${spec.category ?? "custom"}`)}
          </Badge>
        </Group>
        <Text size="xs" className="break">
          {said(spec.description, lang)}
        </Text>
        <Text size="xs" c="dimmed">
          {[...facts, size && (found?.size ? readable(size) : t("images.about", { size: readable(size) }))]
            .filter(Boolean)
            .join(" · ")}
        </Text>
        <Code className="break" style={{ whiteSpace: "normal" }}>
          {spec.reference}
        </Code>
        <Text size="xs" c="dimmed" className="break" title={found?.digest}>
          {status?.verified
            ? t("images.verified", {
                by: status.verified.by,
                at: moment(status.verified.at, lang),
                digest: (found?.digest ?? "").slice(0, 19),
              })
            : t("images.unverified")}
        </Text>
      </Stack>
    </Card>
  );
}

const over = ["Completed", "Failed", "Stopped"];

function Jobs() {
  const { t } = useTranslation();
  const lang = useLanguage();
  const read = useImageJobs();
  const stop = useStopJob();
  const [log, show] = useState<ImageJob>();
  return (
    <Stack gap="sm">
      <Text size="sm" c="dimmed">
        {t("images.how")} <Code>fermi image build . --tag REGISTRY/NAME:TAG</Code>
      </Text>
      {stop.error && <Failure error={stop.error} />}
      <View read={read} rows={3} empty={(l) => l.length === 0} whenEmpty={<Empty text={t("images.noJobs")} />}>
        {(list) => (
          <Table.ScrollContainer minWidth={720}>
            <Table verticalSpacing={6}>
              <Table.Thead>
                <Table.Tr>
                  <Table.Th>{t("images.do")}</Table.Th>
                  <Table.Th>{t("images.image")}</Table.Th>
                  <Table.Th>{t("tasks.phase")}</Table.Th>
                  <Table.Th>{t("task.created")}</Table.Th>
                  <Table.Th />
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {list.map((j) => (
                  <Table.Tr key={j.metadata.id}>
                    <Table.Td>{t(`images.do.${j.spec.do}`)}</Table.Td>
                    <Table.Td className="break">{j.spec.image}</Table.Td>
                    <Table.Td maw={280}>
                      <Text size="sm">{t(`env.state.${j.status?.phase ?? "Pending"}`)}</Text>
                      <Text size="xs" c="dimmed" lineClamp={2} className="break">
                        {said(j.status?.message, lang)}
                      </Text>
                    </Table.Td>
                    <Table.Td style={{ whiteSpace: "nowrap" }}>{moment(j.metadata.createdAt, lang)}</Table.Td>
                    <Table.Td>
                      <Group gap={6} wrap="nowrap" justify="flex-end">
                        <Button size="compact-xs" variant="default" onClick={() => show(j)}>
                          {t("task.log")}
                        </Button>
                        {!over.includes(j.status?.phase ?? "") && !j.spec.stop && (
                          <Button
                            size="compact-xs"
                            variant="default"
                            onClick={() => stop.mutate(j.metadata.id ?? "")}
                            loading={stop.isPending && stop.variables === j.metadata.id}
                          >
                            {t("images.cancel")}
                          </Button>
                        )}
                      </Group>
                    </Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        )}
      </View>
      <Modal
        opened={log !== undefined}
        onClose={() => show(undefined)}
        title={log?.spec.image}
        size="xl"
        closeButtonProps={{ "aria-label": t("task.cancel") }}
      >
        {log && <JobLog key={log.metadata.id} id={log.metadata.id ?? ""} />}
      </Modal>
    </Stack>
  );
}

function JobLog({ id }: { id: string }) {
  return <LogView {...useLog(id, "image-jobs")} prefix={false} />;
}
