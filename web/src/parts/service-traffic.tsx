import { Button, Group, NativeSelect, NumberInput, SimpleGrid, Stack, Switch, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { type Service, useRevise } from "../api/works";
import { type Draft, draftOf, type Rule, trafficOf, wrongOf } from "../traffic";
import { Failure, Panel } from "./states";

/** How new revisions take over, and who gets them: the form of spec.traffic. */
export default function Traffic({ name, service, may }: { name: string; service: Service; may: boolean }) {
  const { t } = useTranslation();
  const revise = useRevise("inference-services", name);
  const [draft, setDraft] = useState<Draft>(() => draftOf(service.spec.traffic));
  const put = (next: Partial<Draft>) => setDraft((was) => ({ ...was, ...next }));
  const rule = (i: number, next: Partial<Rule>) =>
    put({ rules: draft.rules.map((r, n) => (n === i ? { ...r, ...next } : r)) });
  const wrong = wrongOf(draft);
  const off = !may || Boolean(service.metadata.deletedAt);
  return (
    <Panel title={t("svc.traffic")}>
      <Stack>
        <Text size="sm" c="dimmed">
          {t("svc.trafficText")}
        </Text>
        <Switch
          label={t("svc.trafficOn")}
          checked={draft.on}
          disabled={off}
          onChange={(e) => put({ on: e.currentTarget.checked })}
        />
        {draft.on && (
          <>
            <SimpleGrid cols={{ base: 1, sm: 2, md: 3 }}>
              <TextInput
                label={t("svc.trafficSteps")}
                value={draft.steps}
                error={wrong === "steps" ? t("svc.trafficStepsBad") : undefined}
                disabled={off}
                onChange={(e) => put({ steps: e.currentTarget.value })}
              />
              <TextInput
                label={t("svc.trafficEvery")}
                value={draft.every}
                error={wrong === "every" ? t("svc.trafficSpanBad") : undefined}
                disabled={off}
                onChange={(e) => put({ every: e.currentTarget.value })}
              />
              <NumberInput
                label={t("svc.trafficMin")}
                value={draft.minRequests}
                min={1}
                max={1_000_000}
                allowDecimal={false}
                disabled={off}
                onChange={(v) => put({ minRequests: Number(v) || 0 })}
              />
              <NumberInput
                label={t("svc.trafficErrors")}
                value={draft.maxErrors}
                min={0}
                max={100}
                disabled={off}
                onChange={(v) => put({ maxErrors: Number(v) || 0 })}
              />
              <TextInput
                label={t("svc.trafficLatency")}
                value={draft.maxLatency}
                error={wrong === "maxLatency" ? t("svc.trafficSpanBad") : undefined}
                placeholder="500ms"
                disabled={off}
                onChange={(e) => put({ maxLatency: e.currentTarget.value })}
              />
              <TextInput
                label={t("svc.trafficCheck")}
                value={draft.check}
                error={wrong === "check" ? t("svc.trafficCheckBad") : undefined}
                placeholder="/check"
                disabled={off}
                onChange={(e) => put({ check: e.currentTarget.value })}
              />
              <NumberInput
                label={t("svc.trafficShadow")}
                value={draft.shadow}
                min={0}
                max={100}
                allowDecimal={false}
                disabled={off}
                onChange={(v) => put({ shadow: Number(v) || 0 })}
              />
            </SimpleGrid>
            <Switch
              label={t("svc.trafficManual")}
              checked={draft.manual}
              disabled={off}
              onChange={(e) => put({ manual: e.currentTarget.checked })}
            />
            <Text size="sm" fw={600}>
              {t("svc.trafficRules")}
            </Text>
            {draft.rules.map((r, i) => (
              <Group key={r.id} align="flex-end" gap="xs">
                <NativeSelect
                  label={t("svc.ruleBy")}
                  data={(["header", "cookie", "user", "percent"] as const).map((value) => ({
                    value,
                    label: t(`svc.rule.${value}`),
                  }))}
                  value={r.by}
                  disabled={off}
                  onChange={(e) => rule(i, { by: e.currentTarget.value as Rule["by"] })}
                />
                <TextInput
                  label={t(r.by === "percent" ? "svc.rulePercent" : "svc.ruleName")}
                  value={r.name}
                  error={wrong === `rule${i}` ? t("svc.ruleBad") : undefined}
                  disabled={off}
                  onChange={(e) => rule(i, { name: e.currentTarget.value })}
                />
                {(r.by === "header" || r.by === "cookie") && (
                  <TextInput
                    label={t("svc.ruleValue")}
                    value={r.value}
                    disabled={off}
                    onChange={(e) => rule(i, { value: e.currentTarget.value })}
                  />
                )}
                <NativeSelect
                  label={t("svc.ruleTo")}
                  data={(["canary", "stable"] as const).map((value) => ({ value, label: t(`svc.rule.${value}`) }))}
                  value={r.to}
                  disabled={off}
                  onChange={(e) => rule(i, { to: e.currentTarget.value as Rule["to"] })}
                />
                <Button
                  size="xs"
                  variant="default"
                  disabled={off}
                  onClick={() => put({ rules: draft.rules.filter((_, n) => n !== i) })}
                >
                  {t("svc.ruleRemove")}
                </Button>
              </Group>
            ))}
            <Group>
              <Button
                size="xs"
                variant="default"
                disabled={off || draft.rules.length >= 32}
                onClick={() =>
                  put({
                    rules: [...draft.rules, { id: Date.now(), by: "header", name: "", value: "", to: "canary" }],
                  })
                }
              >
                {t("svc.ruleAdd")}
              </Button>
            </Group>
          </>
        )}
        {revise.error && <Failure error={revise.error} title={t("svc.notChanged")} />}
        {may && (
          <Group>
            <Button
              disabled={off || wrong !== undefined}
              loading={revise.isPending}
              onClick={() => revise.mutate((s) => ({ ...s, spec: { ...s.spec, traffic: trafficOf(draft) } }))}
            >
              {t("svc.editConfirm")}
            </Button>
            {revise.isSuccess && (
              <Text size="sm" role="status">
                {t("svc.trafficSaved")}
              </Text>
            )}
          </Group>
        )}
      </Stack>
    </Panel>
  );
}
