import { Badge, Group, SimpleGrid, Stack, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { type Environment, type Service, useWorks } from "../api/works";
import { duration, said, title } from "../format";
import { countBy, environmentStanding, type Standing, serviceStanding } from "../works";
import { AnchorLink, ButtonLink } from "./link";
import { useLanguage } from "./now";
import { StandingBadge } from "./standing";
import { Empty, Panel, View } from "./states";

/** So many are counted, and so many are named. */
const counted = 200;
const named = 5;

/** Environments and services: how many stand where, and why those that don't run do not. */
export default function OverviewWorks({ now }: { now: number }) {
  const { t } = useTranslation();
  const environments = useWorks("dev-environments", { limit: counted }, 5000);
  const services = useWorks("inference-services", { limit: counted }, 5000);
  return (
    <SimpleGrid cols={{ base: 1, md: 2 }}>
      <Short
        title={t("nav.environments")}
        read={environments}
        standing={environmentStanding}
        active={(e: Environment) => e.status?.phase !== "Stopped" && e.status?.phase !== "Completed"}
        since={(e) => (e.status?.phase === "Running" ? e.status.startedAt : undefined)}
        quiet={(e) => e.status?.phase === "Running"}
        to="/environments"
        one="/environments/$name"
        make="/environments/create"
        makeWord={t("env.create")}
        empty={t("env.noneActive")}
        now={now}
      />
      <Short
        title={t("nav.services")}
        read={services}
        standing={serviceStanding}
        active={(s: Service) => s.status?.phase !== "Stopped"}
        since={() => undefined}
        note={(s) => `${s.status?.replicas?.ready ?? 0} / ${s.status?.replicas?.wanted ?? s.spec.replicas ?? 1}`}
        quiet={(s) => s.status?.phase === "Running" && s.status.health !== "degraded"}
        to="/services"
        one="/services/$name"
        make="/services/create"
        makeWord={t("svc.create")}
        empty={t("svc.noneActive")}
        now={now}
      />
    </SimpleGrid>
  );
}

function Short<T extends Environment | Service>(props: {
  title: string;
  read: {
    data: { pages: { items: T[]; next?: string }[] } | undefined;
    error: Error | null;
    refetch: () => unknown;
  };
  standing: (item: T) => Standing;
  active: (item: T) => boolean;
  /** Since when it runs. */
  since: (item: T) => string | undefined;
  note?: (item: T) => string;
  /** Whether nothing needs to be said of it. */
  quiet: (item: T) => boolean;
  to: "/environments" | "/services";
  one: "/environments/$name" | "/services/$name";
  make: "/environments/create" | "/services/create";
  makeWord: string;
  empty: string;
  now: number;
}) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const page = props.read.data?.pages[0];
  const counts = countBy(page?.items ?? [], props.standing);
  return (
    <Panel
      title={props.title}
      right={
        <AnchorLink to={props.to} size="sm" aria-label={`${t("overview.all")}: ${props.title}`}>
          {t("overview.all")}
        </AnchorLink>
      }
    >
      <Stack gap="sm">
        {counts.length > 0 && (
          <Group gap={6}>
            {counts.map(([s, n]) => (
              <Badge key={s.word} color={s.hue} variant="light" tt="none">
                {t(s.word as "env.state.Running")} {n}
                {page?.next && "+"}
              </Badge>
            ))}
          </Group>
        )}
        <View
          read={props.read}
          rows={3}
          empty={(d) => !(d.pages[0]?.items ?? []).some(props.active)}
          whenEmpty={
            <Empty text={props.empty}>
              <ButtonLink to={props.make} size="xs" variant="light">
                {props.makeWord}
              </ButtonLink>
            </Empty>
          }
        >
          {(d) => {
            const list = (d.pages[0]?.items ?? []).filter(props.active);
            // What needs a hand comes first.
            const sorted = [...list.filter((x) => !props.quiet(x)), ...list.filter(props.quiet)].slice(0, named);
            return (
              <Stack gap="sm">
                {sorted.map((item) => {
                  const since = props.since(item);
                  return (
                    <Group key={item.metadata.id} justify="space-between" wrap="nowrap" gap="sm" align="flex-start">
                      <Stack gap={0} miw={0}>
                        <AnchorLink
                          to={props.one}
                          params={{ name: item.metadata.id ?? "" }}
                          fw={500}
                          size="sm"
                          className="break"
                        >
                          {title(item)}
                        </AnchorLink>
                        {!props.quiet(item) && (
                          <Text size="xs" c="dimmed" lineClamp={2} className="break">
                            {said(item.status?.message, lang)}
                          </Text>
                        )}
                      </Stack>
                      <Stack gap={2} align="flex-end" style={{ flexShrink: 0 }}>
                        <StandingBadge {...props.standing(item)} />
                        <Text size="xs" c="dimmed" style={{ whiteSpace: "nowrap" }}>
                          {props.note?.(item)}
                          {since && duration(props.now - Date.parse(since), t)}
                        </Text>
                      </Stack>
                    </Group>
                  );
                })}
              </Stack>
            );
          }}
        </View>
      </Stack>
    </Panel>
  );
}
