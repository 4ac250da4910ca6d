import { Stack, Table } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { type Service, useWorkStream, useWorks } from "../api/works";
import { moment, said, title } from "../format";
import { AnchorLink, ButtonLink } from "../parts/link";
import { Below, ListHead, ListTable, PagedList, SearchField, ShortCell, Why } from "../parts/list";
import { useLanguage } from "../parts/now";
import { Spread } from "../parts/spread";
import { StandingBadge } from "../parts/standing";
import { Empty } from "../parts/states";
import { ResourceWish } from "../parts/wish";
import { isUpdating, serviceStanding } from "../works";

export function Services() {
  const { t } = useTranslation();
  const [search, setSearch] = useState("");
  const [looked] = useDebouncedValue(search, 250);
  const list = useWorks("inference-services", { search: looked });
  const live = useWorkStream("inference-services", list.data?.pages[0]?.revision);
  return (
    <Stack>
      <ListHead title={t("svc.title")} live={live}>
        <Spread of="service" />
        <ButtonLink to="/services/create" size="sm">
          {t("svc.create")}
        </ButtonLink>
      </ListHead>
      <SearchField value={search} onChange={setSearch} />
      <PagedList
        list={list}
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
        {(items) => <Rows items={items} />}
      </PagedList>
    </Stack>
  );
}

function Rows({ items }: { items: readonly Service[] }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  return (
    <ListTable
      minWidth={820}
      columns={[
        t("svc.name"),
        t("tasks.phase"),
        t("svc.answering"),
        t("svc.engine"),
        t("svc.each"),
        t("svc.revision"),
        t("tasks.created"),
      ]}
    >
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
              <Below>{[s.metadata.project, s.metadata.owner].filter(Boolean).join(" · ")}</Below>
            </Table.Td>
            <Table.Td>
              <StandingBadge {...serviceStanding(s)} />
              {((phase !== "Running" && phase !== "Stopped") || health === "degraded") && (
                <Why>{said(message, lang)}</Why>
              )}
            </Table.Td>
            <ShortCell>
              {replicas?.ready ?? 0} / {replicas?.wanted ?? s.spec.replicas ?? 1}
            </ShortCell>
            <ShortCell>{t(`svc.engine.${s.spec.template.engine ?? "custom"}`)}</ShortCell>
            <Table.Td>
              <ResourceWish resources={s.spec.template.resources} />
            </Table.Td>
            <ShortCell>
              {s.status?.revision ?? "—"}
              {isUpdating(s) && ` · ${t("svc.updating")}`}
            </ShortCell>
            <ShortCell>{moment(s.metadata.createdAt, lang)}</ShortCell>
          </Table.Tr>
        );
      })}
    </ListTable>
  );
}
