import { Alert, Button, Group, Modal, Stack, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useTranslation } from "react-i18next";
import { Refused, type Task } from "../api/client";
import { useStop } from "../api/queries";
import { over, title } from "../format";
import { Failure } from "./states";

/** Ends a task, and whoever trains inside it; asks first. */
export function Stop({ name, task }: { name: string; task: Task }) {
  const { t } = useTranslation();
  const [open, dialog] = useDisclosure(false);
  const stop = useStop(name);
  const inside = task.status?.inUseBy;
  if (over(task)) return null;
  return (
    <>
      <Button color="red.9" onClick={dialog.open} disabled={task.spec.stop} style={{ flexShrink: 0 }}>
        {t("task.stop")}
      </Button>
      <Modal
        opened={open}
        onClose={dialog.close}
        title={t("task.stopTitle", { name: title(task) })}
        centered
        closeButtonProps={{ "aria-label": t("task.cancel") }}
      >
        <Stack>
          <Text size="sm">{t("task.stopText")}</Text>
          <EndsToo inside={inside} />
          {stop.error && !(inside && isInUse(stop.error)) && <Failure error={stop.error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={dialog.close}>
              {t("task.cancel")}
            </Button>
            <Button
              color="red.9"
              loading={stop.isPending}
              onClick={() => stop.mutate({ force: inside !== undefined }, { onSuccess: dialog.close })}
            >
              {t(inside ? "task.stopBoth" : "task.stopConfirm")}
            </Button>
          </Group>
        </Stack>
      </Modal>
    </>
  );
}

/** Names the task that ends with its environment. */
export function EndsToo({ inside }: { inside: string | undefined }) {
  const { t } = useTranslation();
  if (!inside) return null;
  return (
    <Alert color="orange" variant="light" className="break">
      {t("task.endsToo", { name: inside })}
    </Alert>
  );
}

/** Whether the server refused because another task, not known here before, would end too. */
export function isInUse(error: Error): boolean {
  return error instanceof Refused && error.reason === "InUse";
}
