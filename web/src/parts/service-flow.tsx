import { Alert, Button, Group, Progress, Stack, Table, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { type Service, useServiceFlow } from "../api/works";
import { moment, said } from "../format";
import { useLanguage } from "./now";
import { Empty, Failure } from "./states";

/** A new revision that is tried out on a share of the requests, or was rolled back. */
export function Canary({ name, service, may }: { name: string; service: Service; may: boolean }) {
  const { t } = useTranslation();
  const flow = useServiceFlow(name);
  const at = service.status?.canary;
  if (!at) return null;
  const back = at.verdict === "rolledBack";
  const steps = service.spec.traffic?.canary?.steps ?? [];
  return (
    <Alert
      color={back ? "orange" : "blue"}
      variant="light"
      role="status"
      title={t(back ? "svc.canaryBack" : "svc.canaryTitle", { n: at.revision, stable: at.stable })}
    >
      <Stack gap="xs">
        <Text size="sm">
          {back
            ? t("svc.canaryBackText", { stable: at.stable })
            : t("svc.canaryText", { percent: at.percent, step: at.step + 1, steps: steps.length })}
        </Text>
        {!back && <Progress value={at.percent} aria-label={t("svc.canaryShare", { percent: at.percent })} />}
        {may && !back && (
          <Group gap="xs">
            <Button size="xs" onClick={() => flow.mutate("promote")} loading={flow.isPending}>
              {t("svc.promote")}
            </Button>
            <Button size="xs" variant="default" onClick={() => flow.mutate("rollback")} loading={flow.isPending}>
              {t("svc.rollBack")}
            </Button>
          </Group>
        )}
        {flow.error && <Failure error={flow.error} />}
      </Stack>
    </Alert>
  );
}

/** Each change of the number of replicas, and why. */
export function ScaleLog({ service }: { service: Service }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const a = service.spec.autoscale;
  const log = [...(service.status?.scale?.log ?? [])].reverse();
  if (!a) return <Empty text={t("svc.scaleOff")} />;
  return (
    <Stack>
      <Text size="sm">
        {t("svc.scaleBounds", {
          min: a.minReplicas ?? 0,
          max: a.maxReplicas,
          metrics: (a.metrics ?? []).map((m) => `${m.type} ${m.target}`).join(", "),
        })}
      </Text>
      {log.length === 0 ? (
        <Empty text={t("svc.scaleEmpty")} />
      ) : (
        <Table.ScrollContainer minWidth={560}>
          <Table verticalSpacing="xs">
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{t("svc.scaleAt")}</Table.Th>
                <Table.Th>{t("task.replicas")}</Table.Th>
                <Table.Th>{t("svc.scaleWhy")}</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {log.map((l) => (
                <Table.Tr key={l.at}>
                  <Table.Td style={{ whiteSpace: "nowrap" }}>{moment(l.at, lang)}</Table.Td>
                  <Table.Td>
                    {l.from} → {l.to}
                  </Table.Td>
                  <Table.Td className="break">
                    {l.reason}
                    <Text size="xs" c="dimmed" className="break">
                      {said(l.message, lang)}
                    </Text>
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </Stack>
  );
}
