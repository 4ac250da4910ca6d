import { Button, Group } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import type { Task } from "../api/client";
import { useRunAgain } from "../api/queries";
import { over } from "../format";
import { ButtonLink } from "./link";
import { Failure } from "./states";
import { wordOf } from "./task-row";

/** Runs an ended task once more: as it was, or changed first. Nothing while it has not ended. */
export function RunAgain({ task }: { task: Task }) {
  const { t } = useTranslation();
  const word = wordOf(task);
  const again = useRunAgain(word);
  const navigate = useNavigate();
  if (!over(task)) return null;
  const failed = task.status?.phase === "Failed"; // then it is rarely right to change nothing
  return (
    <>
      <Group gap="xs" wrap="nowrap" style={{ flexShrink: 0 }}>
        <Button
          variant="default"
          loading={again.isPending}
          onClick={() =>
            again.mutate(undefined, {
              onSuccess: (made) => void navigate({ to: "/tasks/$name", params: { name: made.taskId } }),
            })
          }
        >
          {t("task.again")}
        </Button>
        <ButtonLink to="/create" search={{ again: word }} variant={failed ? "filled" : "default"}>
          {t("task.editAgain")}
        </ButtonLink>
      </Group>
      {again.error && <Failure error={again.error} title={t("task.notAgain")} />}
    </>
  );
}
