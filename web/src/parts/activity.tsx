// Whether somebody works in an environment: what keeps it, the table of its signals, and one click to keep it.
import { Alert, Badge, Button, Group, Stack, Table, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Schemas } from "../api/client";
import { type Environment, useActivity, useWorkVerb } from "../api/works";
import { duration, moment, said, span } from "../format";
import { useLanguage } from "./now";
import { Failure, View } from "./states";

type Activity = Schemas["Activity"];

export function ActivityTable({ name, env, mine }: { name: string; env: Environment; mine: boolean }) {
  const read = useActivity(name, true);
  return <View read={read}>{(a) => <Ready name={name} env={env} a={a} mine={mine} />}</View>;
}

function Ready({ name, env, a, mine }: { name: string; env: Environment; a: Activity; mine: boolean }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const keep = useWorkVerb("dev-environments", name);
  const warned = env.status?.idle?.warnedAt && a.warnedAt;
  return (
    <Stack gap="sm">
      <Group justify="space-between" align="flex-start">
        <Stack gap={2}>
          <Text size="sm" fw={500} data-testid="kept-by">
            {said(a.message, lang)}
          </Text>
          <Text size="sm" c="dimmed">
            {a.after
              ? t("env.idleAfter", { after: duration(span(a.after), t), at: a.stopsAt ? moment(a.stopsAt, lang) : "—" })
              : t("env.idleNever")}
          </Text>
          {!a.active && (
            <Text size="sm" c="dimmed">
              {t("env.idleCost", {
                idle: duration(span(a.idle), t),
                cost: a.idleCost.toFixed(2),
                hour: a.costHour.toFixed(2),
              })}
            </Text>
          )}
        </Stack>
        {mine && a.after && (
          <Button
            size="xs"
            variant={warned ? "filled" : "default"}
            onClick={() => keep.mutate("keep")}
            loading={keep.isPending}
          >
            {t("env.keep")}
          </Button>
        )}
      </Group>
      {warned && a.stopsAt && (
        <Alert color="orange" variant="light" title={t("env.idleSoon", { at: moment(a.stopsAt, lang) })}>
          {t("env.idleSoonText")}
        </Alert>
      )}
      {keep.error && <Failure error={keep.error} />}
      <Table.ScrollContainer minWidth={480}>
        <Table aria-label={t("env.signals")}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t("env.signal")}</Table.Th>
              <Table.Th>{t("env.signalNow")}</Table.Th>
              <Table.Th>{t("env.signalLast")}</Table.Th>
              <Table.Th>{t("env.signalSeen")}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {(a.signals ?? []).map((s) => {
              const counts = (a.counts ?? []).includes(s.name);
              return (
                <Table.Tr key={s.name} c={counts ? undefined : "dimmed"}>
                  <Table.Td>
                    {t(`env.signal.${s.name}`)}
                    {!counts && ` (${t("env.signalOff")})`}
                  </Table.Td>
                  <Table.Td>
                    <Badge color={s.active && counts ? "green" : "gray"} variant="light" tt="none">
                      {s.active ? t("env.signalActive") : t("env.signalQuiet")}
                    </Badge>
                  </Table.Td>
                  <Table.Td>{s.last ? moment(s.last, lang) : "—"}</Table.Td>
                  <Table.Td className="break">{said(s.value, lang) || "—"}</Table.Td>
                </Table.Tr>
              );
            })}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Stack>
  );
}
