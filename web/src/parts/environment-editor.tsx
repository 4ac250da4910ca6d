// The form by which an environment is changed; read when it is opened.
import { Alert, Button, Group, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";
import { type Environment, useRevise } from "../api/works";
import { changed, formOf } from "../workform";
import { isOff } from "../works";
import { ClockFields, MachineFields, PageFields, ShareField, StorageField } from "./environment-fields";
import { ImageField, useWorkForm, ValueFields, WorkFormFrame } from "./work-fields";

export default function Editor({ name, env, close }: { name: string; env: Environment; close: () => void }) {
  const { t } = useTranslation();
  const [first] = useState(() => formOf(env));
  const { form, change, faults, refused, clear } = useWorkForm(first, () => []);
  const revise = useRevise("dev-environments", name);
  const at = faults.at;
  const runs = !isOff(env);
  function send() {
    clear();
    revise.mutate((now) => ({ ...now, spec: changed(now.spec, first, form) }), { onError: refused, onSuccess: close });
  }
  const machine = (
    <Part key="machine" title={t("work.resources")} disabled={runs}>
      <MachineFields form={form} change={change} at={at} />
      <ImageField form={form} change={change} at={at} />
      <ValueFields form={form} change={change} at={at} />
    </Part>
  );
  const ways = (
    <Part key="ways" title={t("env.changeWays")}>
      <SimpleGrid cols={{ base: 1, xs: 2 }}>
        <StorageField form={form} change={change} at={at} />
      </SimpleGrid>
      <PageFields form={form} change={change} at={at} />
      <ClockFields form={form} change={change} at={at} />
      <ShareField form={form} change={change} />
    </Part>
  );
  return (
    <WorkFormFrame
      error={revise.error}
      faults={faults}
      pending={revise.isPending}
      send={send}
      refusal={t("env.notChanged")}
    >
      {runs ? (
        <Alert color="yellow" variant="light" role="note" title={t("env.changeRuns")}>
          <Text size="sm">{t("env.changeRunsText")}</Text>
        </Alert>
      ) : (
        <Text size="sm">{t("env.changeText")}</Text>
      )}
      {runs ? [ways, machine] : [machine, ways]}
      <Group justify="flex-end">
        <Button variant="default" onClick={close}>
          {t("task.cancel")}
        </Button>
        <Button type="submit" disabled={form === first} loading={revise.isPending}>
          {t("env.changeConfirm")}
        </Button>
      </Group>
    </WorkFormFrame>
  );
}

function Part(props: { title: string; disabled?: boolean; children: ReactNode }) {
  return (
    <fieldset className="bare" disabled={props.disabled}>
      <Stack gap="sm">
        <Title order={3} size="h5">
          {props.title}
        </Title>
        {props.children}
      </Stack>
    </fieldset>
  );
}
