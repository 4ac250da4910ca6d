import { Alert, Button, Code, Group, NumberInput, Stack, Table, Tabs, Text } from "@mantine/core";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { useTranslation } from "react-i18next";
import { useLog, useWhoami } from "../api/queries";
import {
  type Service,
  useDelete,
  useRevise,
  useScale,
  useServiceReplicas,
  useWork,
  useWorkEvents,
  useWorkVerb,
  useWorkWhy,
} from "../api/works";
import { around, difference } from "../difference";
import { moment, said, title } from "../format";
import { PageHead } from "../parts/head";
import { AnchorLink } from "../parts/link";
import { LogView } from "../parts/log-view";
import { useLanguage } from "../parts/now";
import { PhaseBadge } from "../parts/phase";
import { Canary, ScaleLog } from "../parts/service-flow";
import { StandingBadge } from "../parts/standing";
import { Empty, Failure, LiveLight, Loading, Panel, View } from "../parts/states";
import { ResourceWish } from "../parts/wish";
import { Ask, EventList, Facts, WhyBox } from "../parts/work-row";
import { Yaml } from "../parts/yaml";
import { isUpdating, serviceStanding } from "../works";

const Access = lazy(() => import("../parts/service-access"));
const Figures = lazy(() => import("../parts/service-figures"));
const Manifest = lazy(() => import("../parts/manifest"));
const Playground = lazy(() => import("../parts/playground"));
const Traffic = lazy(() => import("../parts/service-traffic"));
const Revise = lazy(() => import("../parts/revise"));
const route = getRouteApi("/services/$name");
const kind = "inference-services";

export function ServicePage() {
  const { name } = route.useParams();
  const read = useWork(kind, name);
  return (
    <View read={read} rows={10}>
      {(service) => (
        <Ready key={service.metadata.id} name={name} service={service} live={<LiveLight state={read.live} />} />
      )}
    </View>
  );
}

function Ready({ name, service, live }: { name: string; service: Service; live: React.ReactNode }) {
  const { t } = useTranslation();
  const why = useWorkWhy(kind, name);
  const role = useWhoami().data?.role;
  const may = role === "admin" || role === "member";
  const { phase, health } = service.status ?? {};
  const word = service.metadata.name ?? "";
  const well = phase === "Running" && health !== "degraded";
  return (
    <Stack>
      <PageHead
        title={title(service)}
        badge={<StandingBadge {...serviceStanding(service)} />}
        live={live}
        about={
          <>
            {word} · {t(`svc.engine.${service.spec.template.engine ?? "custom"}`)} ·{" "}
            <ResourceWish resources={service.spec.template.resources} />
            {service.metadata.project && ` · ${service.metadata.project}`}
            {service.metadata.owner && ` · ${service.metadata.owner}`}
          </>
        }
        description={service.spec.description}
      >
        {may && <Actions name={name} service={service} />}
      </PageHead>
      {!well && phase !== "Stopped" && !service.metadata.deletedAt && <WhyBox read={why} bad={phase === "Failed"} />}
      <Canary name={name} service={service} may={may} />
      {isUpdating(service) && !service.status?.canary && <Updating service={service} />}
      <Panel title={t("work.about")}>
        <About service={service} />
      </Panel>
      <Tabs defaultValue="try" keepMounted={false}>
        <Tabs.List mb="md">
          <Tabs.Tab value="try">{t("play.title")}</Tabs.Tab>
          <Tabs.Tab value="figures">{t("svc.figures")}</Tabs.Tab>
          <Tabs.Tab value="access">{t("svc.access")}</Tabs.Tab>
          <Tabs.Tab value="replicas">{t("task.replicas")}</Tabs.Tab>
          <Tabs.Tab value="revisions">{t("svc.revisions")}</Tabs.Tab>
          <Tabs.Tab value="traffic">{t("svc.traffic")}</Tabs.Tab>
          <Tabs.Tab value="scaling">{t("svc.scaling")}</Tabs.Tab>
          <Tabs.Tab value="log">{t("task.log")}</Tabs.Tab>
          <Tabs.Tab value="events">{t("task.events")}</Tabs.Tab>
          <Tabs.Tab value="yaml">{t("task.yaml")}</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="try">
          {(service.status?.replicas?.ready ?? 0) === 0 ? (
            <Empty text={t("play.off")} />
          ) : service.spec.protocol === "grpc" ? (
            <Empty text={t("play.grpc")} />
          ) : (
            <Suspense fallback={<Loading />}>
              <Playground name={word} sample={service.spec.template.engine === "sample"} />
            </Suspense>
          )}
        </Tabs.Panel>
        <Tabs.Panel value="figures">
          <Suspense fallback={<Loading />}>
            <Figures name={name} />
          </Suspense>
        </Tabs.Panel>
        <Tabs.Panel value="access">
          <Suspense fallback={<Loading />}>
            <Access service={service} may={may} />
          </Suspense>
        </Tabs.Panel>
        <Tabs.Panel value="replicas">
          <Replicas name={name} live={phase !== "Stopped"} />
        </Tabs.Panel>
        <Tabs.Panel value="revisions">
          <Revisions name={name} service={service} may={may} />
        </Tabs.Panel>
        <Tabs.Panel value="traffic">
          <Suspense fallback={<Loading />}>
            <Traffic name={name} service={service} may={may} />
          </Suspense>
        </Tabs.Panel>
        <Tabs.Panel value="scaling">
          <ScaleLog service={service} />
        </Tabs.Panel>
        <Tabs.Panel value="log">
          <Log name={name} />
        </Tabs.Panel>
        <Tabs.Panel value="events">
          <Events name={name} />
        </Tabs.Panel>
        <Tabs.Panel value="yaml">
          <Suspense fallback={<Loading />}>
            {may && <Revise name={name} service={service} />}
            <Manifest kind="InferenceService" task={service}>
              {(text) => <Yaml text={text} />}
            </Manifest>
          </Suspense>
        </Tabs.Panel>
      </Tabs>
    </Stack>
  );
}

function Events({ name }: { name: string }) {
  return <EventList read={useWorkEvents(kind, name)} />;
}

/** How far a new revision is. */
function Updating({ service }: { service: Service }) {
  const { t } = useTranslation();
  const { wanted = 0, ready = 0, updated = 0, total = 0 } = service.status?.replicas ?? {};
  return (
    <Alert
      color="blue"
      variant="light"
      role="status"
      title={t("svc.updatingTitle", { n: service.status?.revision ?? 0 })}
    >
      <Text size="sm">{t("svc.updatingText", { updated, wanted, ready, total })}</Text>
    </Alert>
  );
}

function About({ service }: { service: Service }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const { replicas, revision, readyAt } = service.status ?? {};
  const { model } = service.spec.template;
  const facts: [string, React.ReactNode][] = [
    [t("svc.answering"), `${replicas?.ready ?? 0} / ${replicas?.wanted ?? service.spec.replicas ?? 1}`],
    [t("svc.revision"), revision === undefined ? "—" : String(revision)],
    [t("svc.protocol"), t(`svc.protocol.${service.spec.protocol ?? "rest"}`)],
    [
      t("svc.format"),
      service.spec.format
        ? t(`svc.format.${service.spec.format}`) + (service.spec.schema ? ` ${t("svc.schema")}` : "")
        : t("svc.formatNone"),
    ],
    [t("svc.path"), <Code key="path">{service.spec.path ?? "/"}</Code>],
    [t("svc.address"), <Code key="url">{service.status?.url ?? "—"}</Code>],
    [t("svc.timeout"), service.spec.timeout ?? "60s"],
    [t("svc.maxConcurrency"), String(service.spec.maxConcurrency ?? 64)],
    [t("svc.maxQueue"), String(service.spec.maxQueue ?? 128)],
    [t("svc.since"), readyAt ? moment(readyAt, lang) : t("task.notYet")],
    [t("task.created"), moment(service.metadata.createdAt, lang)],
  ];
  if (service.spec.zones?.length) facts.push([t("svc.zones"), <ZoneList key="zones" zones={service.spec.zones} />]);
  if (model?.name) facts.push([t("svc.modelName"), `${model.name}${model.version ? `@${model.version}` : ""}`]);
  if (model?.task) facts.push([t("svc.model"), `${model.task} · ${model.file || "model.json"}`]);
  return <Facts list={facts} />;
}

/** Where it stands: replicas, share of the requests, and whether it is a backup. */
function ZoneList({ zones }: { zones: NonNullable<Service["spec"]["zones"]> }) {
  const { t } = useTranslation();
  const primary = zones.filter((z) => z.role !== "backup");
  const sum = primary.reduce((n, z) => n + (z.weight ?? 1), 0);
  return (
    <Stack gap={2}>
      {zones.map((z) => (
        <Text size="sm" key={z.zone}>
          {z.role === "backup"
            ? t("svc.zoneBackup", { zone: z.zone, count: z.replicas ?? 1 })
            : t("svc.zonePrimary", {
                zone: z.zone,
                count: z.replicas ?? 1,
                percent: Math.round((100 * (z.weight ?? 1)) / sum),
              })}
          {z.serves?.length ? ` · ${t("svc.zoneFirst", { regions: z.serves.join(", ") })}` : ""}
        </Text>
      ))}
    </Stack>
  );
}

function Replicas({ name, live }: { name: string; live: boolean }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const read = useServiceReplicas(name, live);
  return (
    <View read={read} empty={(d) => d.length === 0} whenEmpty={<Empty text={t("task.replicasEmpty")} />}>
      {(list) => (
        <Table.ScrollContainer minWidth={680}>
          <Table verticalSpacing="xs">
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{t("svc.replica")}</Table.Th>
                <Table.Th>{t("task.state")}</Table.Th>
                <Table.Th>{t("svc.answers")}</Table.Th>
                <Table.Th>{t("svc.revision")}</Table.Th>
                <Table.Th>{t("task.node")}</Table.Th>
                <Table.Th>{t("task.started")}</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {list.map((r) => (
                <Table.Tr key={r.metadata.id}>
                  <Table.Td className="break">{r.metadata.name}</Table.Td>
                  <Table.Td>
                    <PhaseBadge phase={r.status?.phase} />
                    {r.status?.phase !== "Running" && (
                      <Text size="xs" c="dimmed" className="break" maw={360}>
                        {said(r.status?.message, lang)}
                      </Text>
                    )}
                  </Table.Td>
                  <Table.Td className="break" maw={260}>
                    {r.spec.drainAt ? t("svc.draining") : r.status?.ready ? t("svc.yes") : t("svc.no")}
                    {!r.status?.ready && r.status?.why && (
                      <Text size="xs" c="dimmed" className="break">
                        {r.status.why}
                      </Text>
                    )}
                  </Table.Td>
                  <Table.Td>{r.spec.revision}</Table.Td>
                  <Table.Td>
                    {r.status?.node ? (
                      <AnchorLink to="/nodes/$name" params={{ name: r.status.node }} size="sm">
                        {r.status.node}
                      </AnchorLink>
                    ) : (
                      "—"
                    )}
                  </Table.Td>
                  <Table.Td style={{ whiteSpace: "nowrap" }}>{moment(r.status?.startedAt, lang)}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </View>
  );
}

function Revisions({ name, service, may }: { name: string; service: Service; may: boolean }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const revise = useRevise("inference-services", name);
  const list = [...(service.status?.revisions ?? [])].reverse();
  const newest = service.status?.revision ?? 0;
  if (list.length === 0) return <Empty text={t("svc.revisionsEmpty")} />;
  return (
    <Stack>
      {list.map((r, i) => (
        <Panel
          key={r.number}
          title={t("svc.revisionN", { n: r.number })}
          right={
            r.number === newest ? (
              <Text size="sm" c="dimmed">
                {t("svc.current")}
              </Text>
            ) : (
              may && (
                <Ask
                  word={t("svc.rollBack")}
                  size="xs"
                  variant="default"
                  color="blue"
                  title={t("svc.rollBackTitle", { n: r.number })}
                  confirm={t("svc.rollBack")}
                  pending={revise.isPending}
                  error={revise.error}
                  act={(done) =>
                    revise.mutate((s) => ({ ...s, spec: { ...s.spec, template: r.template } }), { onSuccess: done })
                  }
                >
                  <Text size="sm">{t("svc.rollBackText")}</Text>
                </Ask>
              )
            )
          }
        >
          <Stack gap="xs">
            <Text size="xs" c="dimmed">
              {moment(r.createdAt, lang)}
            </Text>
            <Suspense fallback={<Loading rows={2} />}>
              <Template of={r} before={list[i + 1]} />
            </Suspense>
          </Stack>
        </Panel>
      ))}
    </Stack>
  );
}

type Revision = NonNullable<NonNullable<Service["status"]>["revisions"]>[number];

/** What a revision is made from: what changed, or all of it. */
function Template({ of, before }: { of: Revision; before?: Revision | undefined }) {
  const [whole, setWhole] = useState(false);
  const bare = (text: string) => text.replace(/^kind: ""\n/, "");
  return (
    <Manifest kind="" task={of.template}>
      {(text) =>
        before && !whole ? (
          <Manifest kind="" task={before.template}>
            {(earlier) => <Changes before={bare(earlier)} after={bare(text)} than={before.number} all={setWhole} />}
          </Manifest>
        ) : (
          <Code block mah={260} style={{ overflow: "auto" }} tabIndex={0}>
            {bare(text)}
          </Code>
        )
      }
    </Manifest>
  );
}

function Changes(props: { before: string; after: string; than: number; all: (whole: boolean) => void }) {
  const { t } = useTranslation();
  const marks = around(difference(props.before, props.after), 2);
  const changed = marks.some(({ sign }) => sign !== " ");
  return (
    <Stack gap="xs">
      <Group justify="space-between">
        <Text size="sm">{t(changed ? "svc.changed" : "svc.same", { n: props.than })}</Text>
        <Button size="compact-xs" variant="subtle" onClick={() => props.all(true)}>
          {t("svc.whole")}
        </Button>
      </Group>
      {changed && (
        <Code block mah={260} style={{ overflow: "auto" }} tabIndex={0}>
          {marks.map(({ sign, line }) => `${sign} ${line}`).join("\n")}
        </Code>
      )}
    </Stack>
  );
}

function Log({ name }: { name: string }) {
  return <LogView {...useLog(name, kind)} prefix />;
}

function Actions({ name, service }: { name: string; service: Service }) {
  const { t } = useTranslation();
  const verb = useWorkVerb(kind, name);
  const remove = useDelete(kind, name);
  const navigate = useNavigate();
  const gone = Boolean(service.metadata.deletedAt);
  return (
    <Stack gap="xs" align="flex-end">
      <Group gap="xs">
        {!service.spec.stop && !service.spec.autoscale && !service.spec.zones?.length && (
          <Scale name={name} service={service} />
        )}
        {service.spec.stop ? (
          <Button onClick={() => verb.mutate("start")} loading={verb.isPending} disabled={gone}>
            {t("env.start")}
          </Button>
        ) : (
          <Ask
            word={t("task.stop")}
            title={t("svc.stopTitle", { name: title(service) })}
            confirm={t("svc.stopConfirm")}
            variant="default"
            color="blue"
            disabled={gone}
            pending={verb.isPending}
            error={verb.error}
            act={(done) => verb.mutate("stop", { onSuccess: done })}
          >
            <Text size="sm">{t("svc.stopText")}</Text>
          </Ask>
        )}
        <Ask
          word={t("work.delete")}
          title={t("svc.deleteTitle", { name: title(service) })}
          confirm={t("svc.deleteConfirm")}
          disabled={gone}
          pending={remove.isPending}
          error={remove.error}
          act={(done) =>
            remove.mutate(undefined, {
              onSuccess: () => {
                done();
                void navigate({ to: "/services" });
              },
            })
          }
        >
          <Text size="sm">{t("svc.deleteText")}</Text>
        </Ask>
      </Group>
      {service.spec.stop && verb.error && <Failure error={verb.error} />}
    </Stack>
  );
}

function Scale({ name, service }: { name: string; service: Service }) {
  const { t } = useTranslation();
  const scale = useScale(name);
  const [count, setCount] = useState<number | string>(service.spec.replicas ?? 1);
  return (
    <Ask
      word={t("svc.scale")}
      title={t("svc.scaleTitle", { name: title(service) })}
      confirm={t("svc.scale")}
      variant="default"
      color="blue"
      disabled={Boolean(service.metadata.deletedAt)}
      pending={scale.isPending}
      error={scale.error}
      onOpen={() => setCount(service.spec.replicas ?? 1)}
      act={(done) => typeof count === "number" && scale.mutate(count, { onSuccess: done })}
    >
      <NumberInput
        label={t("create.replicas")}
        value={count}
        onChange={setCount}
        min={1}
        max={1000}
        allowDecimal={false}
        data-autofocus
      />
    </Ask>
  );
}
