import { Notification } from "@mantine/core";
import { useEffect, useSyncExternalStore } from "react";
import { useTranslation } from "react-i18next";
import { announce, announced, listen } from "../announce";

/** How long a word stays, in ms. */
const stays = 10_000;

/** What was just done, in a corner of the page, for a while. */
export function Announcement() {
  const { t } = useTranslation();
  const said = useSyncExternalStore(listen, announced);
  useEffect(() => {
    if (said === undefined) return;
    const timer = setTimeout(() => announce(undefined), stays);
    return () => clearTimeout(timer);
  }, [said]);
  if (said === undefined) return null;
  return (
    <Notification
      role="status"
      color="green"
      title={`✅ ${said.title}`}
      onClose={() => announce(undefined)}
      closeButtonProps={{ "aria-label": t("inside.dismiss") }}
      withBorder
      style={{ position: "fixed", right: 16, bottom: 16, zIndex: 400, maxWidth: 360 }}
    >
      {said.text}
    </Notification>
  );
}
