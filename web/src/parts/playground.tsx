import {
  Button,
  Code,
  Group,
  NativeSelect,
  ScrollArea,
  SegmentedControl,
  Stack,
  Text,
  Textarea,
  TextInput,
} from "@mantine/core";
import { type FormEvent, type KeyboardEvent, useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { useAsk, useChat } from "../api/gateway";
import { Failure } from "./states";

/** Tries a service: a chat that streams, or one plain request. */
export default function Playground({ name, sample }: { name: string; sample: boolean }) {
  const { t } = useTranslation();
  const [how, choose] = useState("chat");
  return (
    <Stack gap="sm">
      <SegmentedControl
        aria-label={t("play.how")}
        value={how}
        onChange={choose}
        data={[
          { value: "chat", label: t("play.chat") },
          { value: "request", label: t("play.request") },
        ]}
        style={{ alignSelf: "flex-start" }}
      />
      {how === "chat" ? <Chat name={name} sample={sample} /> : <Plain name={name} sample={sample} />}
    </Stack>
  );
}

function Chat({ name, sample }: { name: string; sample: boolean }) {
  const { t } = useTranslation();
  const chat = useChat(name);
  const [text, setText] = useState("");
  const end = useRef<HTMLDivElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: what is new is looked at
  useEffect(() => {
    end.current?.scrollIntoView?.({ block: "nearest" });
  }, [chat.messages]);
  function send() {
    const content = text.trim();
    if (content === "" || chat.busy) return;
    setText("");
    void chat.send(content);
  }
  function onSubmit(event: FormEvent) {
    event.preventDefault();
    send();
  }
  function onKey(event: KeyboardEvent) {
    // A word that is still being composed, as in Chinese, is not sent.
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    send();
  }
  const { first, whole } = chat.timing;
  return (
    <Stack gap="sm">
      {chat.messages.length > 0 && (
        <ScrollArea.Autosize mah={420} className="chat" viewportProps={{ tabIndex: 0 }}>
          <Stack gap="xs" role="log" aria-label={t("play.talk")} aria-live="polite">
            {chat.messages.map((m, i) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: messages never change their order
              <div key={i} className={m.role}>
                <Text size="xs" c="dimmed">
                  {m.role === "user" ? t("play.you") : name}
                </Text>
                <Text size="sm" className="said">
                  {m.content || (chat.busy ? "…" : "")}
                </Text>
              </div>
            ))}
            <div ref={end} />
          </Stack>
        </ScrollArea.Autosize>
      )}
      {first !== undefined && (
        <Text size="xs" c="dimmed">
          {t("play.first", { ms: Math.round(first) })}
          {whole !== undefined && ` · ${t("play.whole", { ms: Math.round(whole) })}`}
        </Text>
      )}
      {chat.error && <Failure error={chat.error} title={t("play.failed")} />}
      <form onSubmit={onSubmit}>
        <Stack gap="xs">
          <Textarea
            aria-label={t("play.ask")}
            placeholder={sample ? t("play.askSample") : t("play.ask")}
            value={text}
            onChange={(e) => setText(e.currentTarget.value)}
            onKeyDown={onKey}
            autosize
            minRows={2}
            maxRows={8}
            maxLength={32_000}
          />
          <Group justify="space-between">
            <Text size="xs" c="dimmed">
              {t("play.chatHint")}
            </Text>
            <Group gap="xs">
              {chat.messages.length > 0 && !chat.busy && (
                <Button variant="default" onClick={chat.clear}>
                  {t("play.clear")}
                </Button>
              )}
              {chat.busy ? (
                <Button variant="default" onClick={chat.stop}>
                  {t("play.stop")}
                </Button>
              ) : (
                <Button type="submit" disabled={text.trim() === ""}>
                  {t("play.send")}
                </Button>
              )}
            </Group>
          </Group>
        </Stack>
      </form>
    </Stack>
  );
}

const methods = ["GET", "POST", "PUT", "PATCH", "DELETE"];

function Plain({ name, sample }: { name: string; sample: boolean }) {
  const { t } = useTranslation();
  const [method, setMethod] = useState(sample ? "GET" : "POST");
  const [path, setPath] = useState(sample ? "predict?x=1.5&y=-0.5" : "");
  const [body, setBody] = useState("");
  const asked = useAsk(name);
  function onSubmit(event: FormEvent) {
    event.preventDefault();
    asked.mutate({ method, path, body });
  }
  const answer = asked.data;
  return (
    <form onSubmit={onSubmit}>
      <Stack gap="sm">
        <Group gap="xs" align="flex-end" wrap="nowrap">
          <NativeSelect
            label={t("play.method")}
            data={methods}
            value={method}
            onChange={(e) => setMethod(e.currentTarget.value)}
            w={110}
          />
          <TextInput
            label={t("play.path")}
            leftSection={<Text size="sm">/inference/{name}/</Text>}
            leftSectionWidth={`calc(${name.length + 13}ch + 12px)`}
            value={path}
            onChange={(e) => setPath(e.currentTarget.value)}
            spellCheck={false}
            maxLength={2048}
            flex={1}
            styles={{ section: { justifyContent: "flex-start", paddingLeft: 12, overflow: "hidden" } }}
          />
        </Group>
        {method !== "GET" && (
          <Textarea
            label={t("play.body")}
            placeholder='{"points": [[1.5, -0.5]]}'
            value={body}
            onChange={(e) => setBody(e.currentTarget.value)}
            autosize
            minRows={3}
            maxRows={12}
            spellCheck={false}
            styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)", fontSize: 13 } }}
          />
        )}
        <Group justify="flex-end">
          <Button type="submit" loading={asked.isPending}>
            {t("play.send")}
          </Button>
        </Group>
        {asked.error && <Failure error={asked.error} title={t("play.failed")} />}
        {answer && (
          <Stack gap={4} role="status">
            <Text size="xs" c="dimmed">
              HTTP {answer.status} · {answer.media} · {Math.round(answer.ms)} {t("unit.ms")}
              {answer.cut && ` · ${t("play.cut")}`}
            </Text>
            <Code block mah={420} style={{ overflow: "auto" }} tabIndex={0} aria-label={t("play.answer")}>
              {answer.text}
            </Code>
          </Stack>
        )}
      </Stack>
    </form>
  );
}
