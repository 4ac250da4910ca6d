import { Button, Group, Modal, Stack, Text, TextInput } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { Task } from "../api/client";
import { useModelOf } from "../api/shelf";
import type { Checkpoint } from "../checkpoints";
import { Failure } from "./states";

/** Asks which model shall have a version of a checkpoint, makes it, and shows the model. */
export function ModelOf({ task, chosen, close }: { task: Task; chosen: Checkpoint; close: () => void }) {
  const { t } = useTranslation();
  const [name, setName] = useState("");
  const make = useModelOf(task.metadata.id ?? "", task.metadata.project ?? "");
  const navigate = useNavigate();
  return (
    <Modal
      opened
      onClose={close}
      title={t("checkpoints.modelTitle", { step: chosen.step })}
      centered
      closeButtonProps={{ "aria-label": t("task.cancel") }}
    >
      <Stack>
        <Text size="sm">{t("checkpoints.modelText")}</Text>
        <TextInput
          label={t("checkpoints.modelName")}
          value={name}
          onChange={(e) => setName(e.currentTarget.value)}
          maxLength={40}
          spellCheck={false}
          data-autofocus
        />
        {make.error && <Failure error={make.error} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={close}>
            {t("task.cancel")}
          </Button>
          <Button
            disabled={name.trim() === ""}
            loading={make.isPending}
            onClick={() =>
              make.mutate(
                { name: name.trim(), step: chosen.step },
                { onSuccess: (made) => void navigate({ to: "/models/$name", params: { name: made.spec.assetId } }) },
              )
            }
          >
            {t("checkpoints.modelConfirm")}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
