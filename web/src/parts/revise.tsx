import { Button, Group, Modal, Stack, Text, Textarea } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { parse, stringify } from "yaml";
import { type Service, useRevise } from "../api/works";
import { title } from "../format";
import { Failure } from "./states";

/** What is wished, as YAML, or undefined where it is none. */
export function specOf(text: string): Service["spec"] | undefined {
  try {
    const value: unknown = parse(text, { maxAliasCount: 100 });
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Service["spec"])
      : undefined;
  } catch {
    return undefined;
  }
}

/** Changes the wish of a service. Another template is a new revision, which replaces its replicas one by one. */
export default function Revise({ name, service }: { name: string; service: Service }) {
  const { t } = useTranslation();
  const [open, dialog] = useDisclosure(false);
  const [text, setText] = useState("");
  const revise = useRevise("inference-services", name);
  const spec = specOf(text);
  return (
    <Group mb="sm">
      <Button
        size="xs"
        variant="default"
        disabled={Boolean(service.metadata.deletedAt)}
        onClick={() => {
          setText(stringify(service.spec, { lineWidth: 0 }));
          revise.reset();
          dialog.open();
        }}
      >
        {t("svc.edit")}
      </Button>
      <Modal
        opened={open}
        onClose={dialog.close}
        title={t("svc.editTitle", { name: title(service) })}
        size="xl"
        centered
        closeButtonProps={{ "aria-label": t("task.cancel") }}
      >
        <Stack>
          <Text size="sm">{t("svc.editText")}</Text>
          <Textarea
            aria-label="YAML"
            value={text}
            onChange={(e) => setText(e.currentTarget.value)}
            error={spec ? undefined : t("svc.editBad")}
            autosize
            minRows={12}
            maxRows={26}
            spellCheck={false}
            styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)", fontSize: 13 } }}
          />
          {revise.error && <Failure error={revise.error} title={t("svc.notChanged")} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={dialog.close}>
              {t("task.cancel")}
            </Button>
            <Button
              disabled={!spec}
              loading={revise.isPending}
              onClick={() => spec && revise.mutate((s) => ({ ...s, spec }), { onSuccess: dialog.close })}
            >
              {t("svc.editConfirm")}
            </Button>
          </Group>
        </Stack>
      </Modal>
    </Group>
  );
}
