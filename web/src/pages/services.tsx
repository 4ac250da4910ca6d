import { Button, Card, Group, Stack, Table, Text, TextInput, Title } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { type Service, useWorkStream, useWorks } from "../api/works";
import { moment, said, title } from "../format";
import { cores } from "../hosts";
import { AnchorLink, ButtonLink } from "../parts/link";
import { useLanguage } from "../parts/now";
import { Spread } from "../parts/spread";
import { StandingBadge } from "../parts/standing";
import { Empty, LiveLight, View } from "../parts/states";
import { isUpdating, serviceStanding } from "../works";

export function Services() {
  const { t } = useTranslation();
  const [search, setSearch] = useState("");
  const [looked] = useDebouncedValue(search, 250);
  const list = useWorks("inference-services", { search: looked });
  const live = useWorkStream("inference-services", list.data?.pages[0]?.revision);
  return (
    <Stack>
      <Group justify="space-between">
        <Group>
          <Title order={1} size="h3">
            {t("svc.title")}
          </Title>
          <LiveLight state={live} />
        </Group>
        <Group gap="xs">
          <Spread of="service" />
          <ButtonLink to="/services/create" size="sm">
            {t("svc.create")}
          </ButtonLink>
        </Group>
      </Group>
      <TextInput
        label={t("tasks.search")}
        value={search}
        maxLength={128}
        onChange={(e) => setSearch(e.currentTarget.value)}
        maw={360}
      />
      <Card withBorder padding={0}>
        <View
          read={list}
          rows={6}
          empty={(d) => (d.pages[0]?.items.length ?? 0) === 0}
          whenEmpty={
            <Empty text={looked === "" ? t("svc.empty") : t("svc.noMatch")}>
              {looked === "" && (
                <ButtonLink to="/services/create" size="xs" variant="light">
                  {t("svc.create")}
                </ButtonLink>
              )}
            </Empty>
          }
        >
          {(d) => <Rows items={d.pages.flatMap((p) => p.items)} />}
        </View>
      </Card>
      {list.hasNextPage && (
        <Button variant="default" onClick={() => void list.fetchNextPage()} loading={list.isFetchingNextPage}>
          {t("tasks.more")}
        </Button>
      )}
    </Stack>
  );
}

/** What each replica of a service may use, in words. */
export function ServiceWish({ service }: { service: Service }) {
  const { t } = useTranslation();
  const { accelerators, cpu, memory } = service.spec.template.resources ?? {};
  const count = accelerators?.count ?? 0;
  const parts: string[] = [
    count > 0 ? t("unit.devices", { count, type: accelerators?.type || t("unit.anyDevice") }) : t("unit.cpuOnly"),
  ];
  if (cpu) parts.push(t("work.cores", { count: cores(cpu), n: cores(cpu) }));
  if (memory) parts.push(memory);
  return <>{parts.join(" · ")}</>;
}

function Rows({ items }: { items: readonly Service[] }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  return (
    <Table.ScrollContainer minWidth={820}>
      <Table highlightOnHover verticalSpacing="sm" horizontalSpacing="md">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t("svc.name")}</Table.Th>
            <Table.Th>{t("tasks.phase")}</Table.Th>
            <Table.Th>{t("svc.answering")}</Table.Th>
            <Table.Th>{t("svc.engine")}</Table.Th>
            <Table.Th>{t("svc.each")}</Table.Th>
            <Table.Th>{t("svc.revision")}</Table.Th>
            <Table.Th>{t("tasks.created")}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {items.map((s) => {
            const { phase, health, replicas, message } = s.status ?? {};
            return (
              <Table.Tr key={s.metadata.id}>
                <Table.Td maw={300}>
                  <AnchorLink
                    to="/services/$name"
                    params={{ name: s.metadata.id ?? "" }}
                    fw={500}
                    size="sm"
                    className="break"
                  >
                    {title(s)}
                  </AnchorLink>
                  <Text size="xs" c="dimmed" lineClamp={1} className="break">
                    {[s.metadata.project, s.metadata.owner].filter(Boolean).join(" · ")}
                  </Text>
                </Table.Td>
                <Table.Td>
                  <StandingBadge {...serviceStanding(s)} />
                  {((phase !== "Running" && phase !== "Stopped") || health === "degraded") && (
                    <Text size="xs" c="dimmed" lineClamp={2} maw={260} className="break">
                      {said(message, lang)}
                    </Text>
                  )}
                </Table.Td>
                <Table.Td style={{ whiteSpace: "nowrap" }}>
                  {replicas?.ready ?? 0} / {replicas?.wanted ?? s.spec.replicas ?? 1}
                </Table.Td>
                <Table.Td style={{ whiteSpace: "nowrap" }}>
                  {t(`svc.engine.${s.spec.template.engine ?? "custom"}`)}
                </Table.Td>
                <Table.Td>
                  <ServiceWish service={s} />
                </Table.Td>
                <Table.Td style={{ whiteSpace: "nowrap" }}>
                  {s.status?.revision ?? "—"}
                  {isUpdating(s) && ` · ${t("svc.updating")}`}
                </Table.Td>
                <Table.Td style={{ whiteSpace: "nowrap" }}>{moment(s.metadata.createdAt, lang)}</Table.Td>
              </Table.Tr>
            );
          })}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
