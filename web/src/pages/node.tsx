import { Alert, Badge, Button, Group, List, NumberInput, Select, Stack, Switch, Table, Text } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { Fragment, useState } from "react";
import { useTranslation } from "react-i18next";
import type { Node } from "../api/client";
import { type NodeVerb, useDrainPreview, useFault, useNode, useNodeVerb, useUpgrade } from "../api/nodes";
import { useDevices, useWhoami } from "../api/queries";
import { bytes, duration, moment, quantity, said, title } from "../format";
import { type Card, cardHue, cardsOf, faultKinds } from "../nodes";
import { PageHead } from "../parts/head";
import { Leaving } from "../parts/leaving";
import { useLanguage, useNow } from "../parts/now";
import { Empty, Failure, LiveLight, Panel, View } from "../parts/states";
import { Ask, Facts } from "../parts/work-row";

const route = getRouteApi("/nodes/$name");

export function NodePage() {
  const { name } = route.useParams();
  const read = useNode(name);
  return (
    <View read={read} rows={10}>
      {(node) => <Ready key={node.metadata.id} name={name} node={node} live={<LiveLight state={read.live} />} />}
    </View>
  );
}

function Ready({ name, node, live }: { name: string; node: Node; live: React.ReactNode }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const role = useWhoami().data?.role;
  const operates = role === "admin" || role === "operator";
  const uses = useDevices();
  const used = new Set((uses.data?.items ?? []).find((u) => u.node === node.metadata.name)?.used ?? []);
  const cards = cardsOf(node, used);
  const { ready, message, reason } = node.status ?? { ready: false };
  return (
    <Stack>
      <PageHead
        title={title(node)}
        badge={<Badges node={node} />}
        live={live}
        about={
          <>
            {[node.spec.zone, node.spec.rack && `${t("zones.rack")} ${node.spec.rack}`].filter(Boolean).join(" · ")}
            {node.spec.spot && ` · ${t("node.spot")}`}
            {node.spec.virtual && ` · ${t("overview.virtual")}`}
          </>
        }
      >
        {operates && <Actions name={name} node={node} />}
      </PageHead>
      {(said(message, lang) || (!ready && reason)) && (
        <Alert
          color={ready ? "yellow" : "red"}
          variant="light"
          title={[!ready && t("task.why"), reason].filter(Boolean).join(" · ")}
        >
          <Text size="sm" className="break">
            {said(message, lang)}
          </Text>
        </Alert>
      )}
      <Panel title={t("work.about")}>
        <About node={node} cards={cards} />
      </Panel>
      <Holds node={node} />
      <Panel title={t("node.cards")} right={operates && cards.length > 0 ? <Drill name={name} cards={cards} /> : null}>
        {cards.length === 0 ? (
          <Empty text={t("node.noCards")} />
        ) : (
          <Cards name={name} cards={cards} operates={operates} />
        )}
      </Panel>
    </Stack>
  );
}

function Badges({ node }: { node: Node }) {
  const { t } = useTranslation();
  const ready = node.status?.ready === true;
  return (
    <>
      <Badge color={ready ? "green" : "red"} variant="light" tt="none">
        {ready ? t("zones.ready") : t("zones.notReady")}
      </Badge>
      {node.spec.lost && (
        <Badge color="red" variant="light" tt="none">
          {t("node.lostBadge")}
        </Badge>
      )}
      {node.spec.cordoned && !node.spec.lost && (
        <Badge color="orange" variant="light" tt="none">
          {node.spec.drain ? t("node.draining") : t("zones.cordoned")}
        </Badge>
      )}
    </>
  );
}

const upgradeStates = ["fetching", "trying", "done", "failed"] as const;

function About({ node, cards }: { node: Node; cards: readonly Card[] }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const closed = cards.filter((c) => c.state === "closed" || c.state === "testing" || c.state === "out").length;
  const facts: [string, React.ReactNode][] = [
    ["CPU", node.spec.cpu],
    [t("task.memory"), bytes(quantity(node.spec.memory))],
    [
      t("overview.devices"),
      t("overview.devicesUsed", { used: cards.filter((c) => c.used).length, total: cards.length }),
    ],
    [t("node.closed"), String(closed)],
    [t("node.failures"), String(node.status?.failures ?? 0)],
  ];
  if (node.status?.os) facts.push([t("node.os"), node.status.os]);
  if (node.status?.limits) facts.push([t("node.limits"), node.status.limits]);
  if (node.status?.tenancy) facts.push([t("node.tenancy"), node.status.tenancy]);
  const agent = node.status?.agent;
  if (agent?.version) facts.push([t("node.agent"), agent.version]);
  const up = agent?.upgrade;
  const state = upgradeStates.find((s) => s === up?.state);
  if (up && state)
    facts.push([
      t("node.upgradeState"),
      <Text key={up.id} span size="sm" c={state === "failed" ? "red" : undefined} className="break">
        {t(`node.upgrade.${state}`, { version: up.version })} · {moment(up.at, lang)}
        {state === "failed" && ` · ${said(up.message, lang)}`}
      </Text>,
    ]);
  for (const l of node.status?.launchers ?? [])
    facts.push([t("node.launchers"), t("node.launchersOf", { count: l.count, version: l.version || t("node.older") })]);
  return <Facts list={facts} />;
}

/** Replicas that were given up without proof of their end. */
function Holds({ node }: { node: Node }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const now = useNow();
  const holds = node.status?.holds ?? [];
  if (holds.length === 0) return null;
  return (
    <Panel title={t("node.holds")}>
      <Stack gap="xs">
        <Text size="sm" c="dimmed">
          {t("node.holdsHint")}
        </Text>
        <Table.ScrollContainer minWidth={600}>
          <Table>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{t("node.holdOf")}</Table.Th>
                <Table.Th>{t("overview.devices")}</Table.Th>
                <Table.Th>{t("node.silentSince")}</Table.Th>
                <Table.Th>{t("task.state")}</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {holds.map((h) => (
                <Table.Tr key={h.replica}>
                  <Table.Td className="break">
                    {h.name ?? h.owner}
                    <Text size="xs" c="dimmed" className="break">
                      {[h.project, h.replica].filter(Boolean).join(" · ")}
                    </Text>
                  </Table.Td>
                  <Table.Td>{(h.devices ?? []).join(", ") || "—"}</Table.Td>
                  <Table.Td>
                    {moment(h.heard, lang)}
                    <Text size="xs" c="dimmed">
                      {t("node.ago", { time: duration(now - Date.parse(h.heard), t) })}
                    </Text>
                  </Table.Td>
                  <Table.Td>
                    {h.reason === "NodeLost" ? t("node.holdLost") : t("node.holdSilent")}
                    <Text size="xs" c="dimmed">
                      {h.released ? t("node.released") : t("node.held")}
                    </Text>
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      </Stack>
    </Panel>
  );
}

function Cards({ name, cards, operates }: { name: string; cards: readonly Card[]; operates: boolean }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const verb = useNodeVerb(name);
  return (
    <Stack gap="xs">
      {verb.error && <Failure error={verb.error} />}
      <Table.ScrollContainer minWidth={640}>
        <Table verticalSpacing="xs">
          <Table.Thead>
            <Table.Tr>
              <Table.Th w={60}>{t("node.card")}</Table.Th>
              <Table.Th>{t("create.deviceType")}</Table.Th>
              <Table.Th>{t("task.state")}</Table.Th>
              <Table.Th>{t("node.condition")}</Table.Th>
              {operates && <Table.Th>{t("checkpoints.actions")}</Table.Th>}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {cards.map((c) => (
              <Fragment key={c.index}>
                <Table.Tr>
                  <Table.Td>{c.index}</Table.Td>
                  <Table.Td style={{ whiteSpace: "nowrap" }}>
                    {c.type}
                    {c.memory && (
                      <Text span size="xs" c="dimmed">
                        {" "}
                        {bytes(quantity(c.memory))}
                      </Text>
                    )}
                  </Table.Td>
                  <Table.Td>
                    <Badge color={cardHue[c.state]} variant="light" tt="none">
                      {t(`node.state.${c.state}`)}
                    </Badge>
                    {c.health?.reason && (
                      <Text size="xs" c="dimmed">
                        {c.health.reason} · {moment(c.health.closedAt ?? c.health.since, lang)}
                      </Text>
                    )}
                  </Table.Td>
                  <Table.Td className="break">
                    <Condition card={c} />
                  </Table.Td>
                  {operates && (
                    <Table.Td>
                      <CardActions
                        card={c}
                        busy={verb.isPending}
                        act={(v) => verb.mutate({ verb: v, device: c.index })}
                      />
                    </Table.Td>
                  )}
                </Table.Tr>
                {(c.health?.faults ?? []).length > 0 && (
                  <Table.Tr>
                    <Table.Td />
                    <Table.Td colSpan={operates ? 4 : 3}>
                      <History card={c} />
                    </Table.Td>
                  </Table.Tr>
                )}
              </Fragment>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Stack>
  );
}

/** What is wrong with a card now, and how its last test went. */
function Condition({ card }: { card: Card }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const h = card.health;
  if (!h) return <>—</>;
  const text = said(h.message, lang);
  return (
    <Stack gap={2}>
      {text !== "" && <Text size="sm">{text}</Text>}
      {(h.conditions ?? []).map((c) => (
        <Text size="sm" key={c.kind}>
          <b>{c.kind}</b> · {t(`node.action.${action(c.action)}`)}
          {c.value ? ` · ${c.value}` : ""} {said(c.message, lang)}
        </Text>
      ))}
      {h.test && (
        <Text size="xs" c="dimmed">
          {t("node.test")}: {h.test.passed ? t("node.passed") : t("node.failed")}
          {h.test.how ? ` (${t(`node.how.${how(h.test.how)}`)})` : ""} · {moment(h.test.at, lang)}{" "}
          {said(h.test.message, lang)}
        </Text>
      )}
    </Stack>
  );
}

const actions = ["none", "watch", "test", "reset", "restart"] as const;
const action = (word: string) => actions.find((a) => a === word) ?? "none";
const hows = ["computed", "tested", "virtual", "untested"] as const;
const how = (word: string) => hows.find((a) => a === word) ?? "untested";
const sources = ["driver", "kernel", "drill"] as const;

/** What happened to a card, the newest first. */
function History({ card }: { card: Card }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const faults = [...(card.health?.faults ?? [])].reverse();
  return (
    <details>
      <summary>
        <Text span size="xs" c="dimmed">
          {t("node.history", { count: card.health?.total ?? faults.length })}
        </Text>
      </summary>
      <List size="xs" mt={4}>
        {faults.map((f) => {
          const source = sources.find((s) => s === f.source);
          return (
            <List.Item key={`${f.at}${f.kind}`} className="break">
              {moment(f.at, lang)} · <b>{f.kind}</b> · {source ? t(`node.source.${source}`) : f.source} ·{" "}
              {t(`node.action.${action(f.action)}`)}
              {f.closed && ` · ${t("node.closedIt")}`} {said(f.message, lang)}
            </List.Item>
          );
        })}
      </List>
    </details>
  );
}

function CardActions({ card, busy, act }: { card: Card; busy: boolean; act: (verb: NodeVerb) => void }) {
  const { t } = useTranslation();
  const sick = card.state === "closed" || card.state === "testing" || card.state === "out";
  const button = (verb: NodeVerb, word: string) => (
    <Button
      size="compact-xs"
      variant="default"
      disabled={busy}
      onClick={() => act(verb)}
      aria-label={t("node.verbOf", { verb: word, n: card.index })}
    >
      {word}
    </Button>
  );
  return (
    <Group gap={4} wrap="nowrap">
      {sick && button("test", t("node.testIt"))}
      {sick && button("uncordon", t("node.return"))}
      {!sick && card.state === "cordoned" && button("uncordon", t("node.uncordon"))}
      {!sick && card.state !== "cordoned" && button("cordon", t("node.cordon"))}
    </Group>
  );
}

/** The dialog for a drill. */
function Drill({ name, cards }: { name: string; cards: readonly Card[] }) {
  const { t } = useTranslation();
  const fault = useFault(name);
  const [device, setDevice] = useState<number | string>(0);
  const [kind, setKind] = useState<string>("xid");
  const [xid, setXid] = useState<number | string>(79);
  const [heal, setHeal] = useState(true);
  return (
    <Ask
      word={t("node.fault")}
      size="xs"
      variant="default"
      title={t("node.faultTitle", { name })}
      confirm={t("node.faultConfirm")}
      pending={fault.isPending}
      error={fault.error}
      onOpen={() => {
        fault.reset();
        setHeal(true);
      }}
      act={(done) =>
        fault.mutate({ device: Number(device), kind: kind === "xid" ? `xid-${xid}` : kind, heal }, { onSuccess: done })
      }
    >
      <Text size="sm">{t("node.faultText")}</Text>
      <Group grow align="flex-start">
        <NumberInput
          label={t("node.card")}
          value={device}
          onChange={setDevice}
          min={0}
          max={cards.length - 1}
          allowDecimal={false}
        />
        <Select
          label={t("node.faultKind")}
          data={[
            { value: "xid", label: "Xid" },
            ...faultKinds.map((k) => ({ value: k, label: `${k} · ${t(`node.fault.${k}`)}` })),
          ]}
          value={kind}
          onChange={(v) => setKind(v ?? "xid")}
          allowDeselect={false}
        />
        {kind === "xid" && (
          <NumberInput label="Xid" value={xid} onChange={setXid} min={1} max={999} allowDecimal={false} />
        )}
      </Group>
      <Switch
        label={t("node.heal")}
        description={t("node.healHint")}
        checked={heal}
        onChange={(e) => setHeal(e.currentTarget.checked)}
      />
    </Ask>
  );
}

function Actions({ name, node }: { name: string; node: Node }) {
  const { t } = useTranslation();
  const verb = useNodeVerb(name);
  const upgrade = useUpgrade(name);
  const [looked, look] = useState(false);
  const leaving = useDrainPreview(name, looked);
  const tasks = (leaving.data?.items ?? []).length + (leaving.data?.more ?? 0);
  const word = node.metadata.name ?? name;
  return (
    <Stack gap="xs" align="flex-end">
      <Group gap="xs">
        {node.spec.cordoned || node.spec.lost ? (
          <Button variant="default" loading={verb.isPending} onClick={() => verb.mutate({ verb: "uncordon" })}>
            {t("node.uncordon")}
          </Button>
        ) : (
          <Button variant="default" loading={verb.isPending} onClick={() => verb.mutate({ verb: "cordon" })}>
            {t("node.cordon")}
          </Button>
        )}
        {node.spec.agent && (
          <Ask
            word={t("node.upgrade")}
            title={t("node.upgradeTitle", { name: word })}
            confirm={t("node.upgradeConfirm")}
            color="blue"
            variant="default"
            pending={upgrade.isPending}
            error={upgrade.error}
            onOpen={upgrade.reset}
            act={(done) => upgrade.mutate(undefined, { onSuccess: done })}
          >
            <Text size="sm">{t("node.upgradeText")}</Text>
          </Ask>
        )}
        <Ask
          word={t("node.drain")}
          title={t("node.drainTitle", { name: word })}
          confirm={t("node.drainConfirm")}
          color="blue"
          variant="default"
          disabled={node.spec.drain}
          pending={verb.isPending}
          error={verb.error}
          onOpen={() => {
            look(true);
            void leaving.refetch();
          }}
          act={(done) => verb.mutate({ verb: "drain" }, { onSuccess: done })}
        >
          <Text size="sm">{t("node.drainText")}</Text>
          <Leaving read={leaving} />
        </Ask>
        <Ask
          word={t("node.lost")}
          title={t("node.lostTitle", { name: word })}
          confirm={t("node.lostConfirm")}
          disabled={node.spec.lost}
          pending={verb.isPending}
          error={verb.error}
          onOpen={() => {
            look(true);
            void leaving.refetch();
          }}
          act={(done) => verb.mutate({ verb: "lost" }, { onSuccess: done })}
        >
          <Alert color="orange" variant="light">
            <Text size="sm">{t("node.lostText", { count: tasks })}</Text>
          </Alert>
          <Leaving read={leaving} />
        </Ask>
      </Group>
      {verb.error && <Failure error={verb.error} />}
    </Stack>
  );
}
