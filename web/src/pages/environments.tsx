import { Badge, Stack, Table } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { type Environment, useCosts, useWorkStream, useWorks } from "../api/works";
import { duration, moment, said, title } from "../format";
import { AnchorLink, ButtonLink } from "../parts/link";
import { Below, ListHead, ListTable, PagedList, SearchField, ShortCell, Why } from "../parts/list";
import { useLanguage, useNow } from "../parts/now";
import { StandingBadge } from "../parts/standing";
import { Empty } from "../parts/states";
import { ResourceWish } from "../parts/wish";
import { environmentStanding, money } from "../works";

export function Environments() {
  const { t } = useTranslation();
  const [search, setSearch] = useState("");
  const [looked] = useDebouncedValue(search, 250);
  const now = useNow();
  const list = useWorks("dev-environments", { search: looked });
  const live = useWorkStream("dev-environments", list.data?.pages[0]?.revision);
  return (
    <Stack>
      <ListHead title={t("env.title")} live={live}>
        <ButtonLink to="/environments/create" size="sm">
          {t("env.create")}
        </ButtonLink>
      </ListHead>
      <SearchField value={search} onChange={setSearch} />
      <PagedList
        list={list}
        whenEmpty={
          <Empty text={looked === "" ? t("env.empty") : t("env.noMatch")}>
            {looked === "" && (
              <ButtonLink to="/environments/create" size="xs" variant="light">
                {t("env.create")}
              </ButtonLink>
            )}
          </Empty>
        }
      >
        {(items) => <Rows items={items} now={now} />}
      </PagedList>
    </Stack>
  );
}

function Rows({ items, now }: { items: readonly Environment[]; now: number }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const first = items.map((e) => e.metadata.createdAt ?? "").filter(Boolean);
  const costs = useCosts(first.reduce<string | undefined>((a, b) => (a === undefined || b < a ? b : a), undefined));
  return (
    <ListTable
      minWidth={820}
      columns={[
        t("env.name"),
        t("tasks.phase"),
        t("env.type"),
        t("tasks.resources"),
        t("tasks.zone"),
        t("work.cost"),
        t("work.uptime"),
      ]}
    >
      {items.map((e) => {
        const { phase, startedAt, message, zones } = e.status ?? {};
        const running = phase === "Running" && startedAt;
        return (
          <Table.Tr key={e.metadata.id}>
            <Table.Td maw={300}>
              <AnchorLink
                to="/environments/$name"
                params={{ name: e.metadata.id ?? "" }}
                fw={500}
                size="sm"
                className="break"
              >
                {title(e)}
              </AnchorLink>
              <Below>
                {[e.metadata.project, e.metadata.owner].filter(Boolean).join(" · ")}
                {e.spec.shared && (
                  <Badge size="xs" color="gray" variant="light" tt="none" ml={6}>
                    {t("env.shared")}
                  </Badge>
                )}
              </Below>
            </Table.Td>
            <Table.Td>
              <StandingBadge {...environmentStanding(e)} />
              {phase !== "Running" && phase !== "Stopped" && <Why>{said(message, lang)}</Why>}
            </Table.Td>
            <ShortCell>{t(`env.type.${e.spec.type ?? "custom"}`)}</ShortCell>
            <Table.Td>
              <EnvironmentWish env={e} />
            </Table.Td>
            <ShortCell>{zones?.join(", ") || e.spec.zone || "—"}</ShortCell>
            <ShortCell>
              <Cost id={e.metadata.id ?? ""} costs={costs.data} />
            </ShortCell>
            <ShortCell title={moment(startedAt, lang)}>
              {running ? duration(now - Date.parse(startedAt), t) : "—"}
            </ShortCell>
          </Table.Tr>
        );
      })}
    </ListTable>
  );
}

/** What an environment may use, in words. */
export function EnvironmentWish({ env }: { env: Environment }) {
  return <ResourceWish resources={env.spec.resources} />;
}

/** What it cost so far; nothing is said where that is not known. */
export function Cost({ id, costs }: { id: string; costs: ReturnType<typeof useCosts>["data"] }) {
  if (!costs) return <>—</>;
  const sums = costs.by.get(id)?.costs ?? [];
  if (sums.length === 0) return <>{costs.whole ? money(0, "CNY") : "—"}</>;
  return <>{sums.map((s) => money(s.total, s.currency)).join(" + ")}</>;
}
