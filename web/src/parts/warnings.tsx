import { Alert, List } from "@mantine/core";
import type { Schemas } from "../api/client";
import { said } from "../format";
import { useLanguage } from "./now";

/** What will work, but perhaps not as meant. */
export function Warnings({ list }: { list: Schemas["Text"][] | null | undefined }) {
  const lang = useLanguage();
  if (!list || list.length === 0) return null;
  return (
    <Alert color="yellow" variant="light" p="sm">
      <List size="sm">
        {list.map((w) => (
          <List.Item key={said(w, "en")} className="break">
            {said(w, lang)}
          </List.Item>
        ))}
      </List>
    </Alert>
  );
}
