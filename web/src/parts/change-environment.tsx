// What an environment has, changed: all of it while it is stopped, some of it while it runs.
import { Button, Modal } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { lazy, Suspense } from "react";
import { useTranslation } from "react-i18next";
import type { Environment } from "../api/works";
import { title } from "../format";
import { Loading } from "./states";

const Editor = lazy(() => import("./environment-editor"));

/** The button that changes an environment, and its dialog. */
export function ChangeEnvironment({ name, env }: { name: string; env: Environment }) {
  const { t } = useTranslation();
  const [open, dialog] = useDisclosure(false);
  return (
    <>
      <Button variant="default" onClick={dialog.open}>
        {t("env.change")}
      </Button>
      <Modal
        opened={open}
        onClose={dialog.close}
        title={t("env.changeTitle", { name: title(env) })}
        size="xl"
        centered
        closeButtonProps={{ "aria-label": t("task.cancel") }}
      >
        <Suspense fallback={<Loading />}>
          <Editor name={name} env={env} close={dialog.close} />
        </Suspense>
      </Modal>
    </>
  );
}
