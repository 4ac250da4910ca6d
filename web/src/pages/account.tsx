import { Alert, Button, PasswordInput, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import { useChangePassword, useSession, useSignOutEverywhere } from "../api/queries";
import { moment } from "../format";
import { useLanguage } from "../parts/now";
import { Secrets } from "../parts/secrets";
import { SshKeys } from "../parts/ssh-keys";
import { Failure, Panel, View } from "../parts/states";
import { Tokens } from "../parts/tokens";
import { byCookie } from "../session";

/** Who one is, one's keys, secrets, tokens and password, and the end of all one's sessions. */
export function Account() {
  const { t } = useTranslation();
  const session = useSession();
  return (
    <Stack maw={800}>
      <Title order={1} size="h2">
        {t("account.title")}
      </Title>
      <View read={session}>
        {(s) => (
          <>
            <Who user={s.user} role={s.role} token={s.token} until={s.expiresAt} />
            <SshKeys user={s.user} />
            <Secrets />
            <Tokens user={s.user} />
            <ChangePassword user={s.user} />
            <Everywhere />
          </>
        )}
      </View>
    </Stack>
  );
}

function Who({ user, role, token, until }: { user: string; role: string; token: string; until?: string }) {
  const { t } = useTranslation();
  const lang = useLanguage();
  const facts = [
    [t("account.user"), user],
    [t("account.role"), role],
    [t("account.by"), byCookie() ? t("account.byCookie") : t("account.byToken", { name: token })],
    [t("account.until"), until ? moment(until, lang) : t("account.never")],
  ] as const;
  return (
    <Panel>
      <SimpleGrid cols={{ base: 1, xs: 2 }}>
        {facts.map(([word, value]) => (
          <div key={word}>
            <Text size="xs" c="dimmed">
              {word}
            </Text>
            <Text size="sm" className="break">
              {value}
            </Text>
          </div>
        ))}
      </SimpleGrid>
    </Panel>
  );
}

const shortest = 8;

function ChangePassword({ user }: { user: string }) {
  const { t } = useTranslation();
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const [again, setAgain] = useState("");
  const [tried, setTried] = useState(false);
  const change = useChangePassword(user);
  const short = [...next].length < shortest;
  const differ = next !== again;
  function submit(event: FormEvent) {
    event.preventDefault();
    setTried(true);
    if (short || differ) return;
    change.mutate(
      { password: next, ...(current === "" ? {} : { current }) },
      {
        onSuccess: () => {
          setCurrent("");
          setNext("");
          setAgain("");
          setTried(false);
        },
      },
    );
  }
  return (
    <Panel title={t("account.password")}>
      <form onSubmit={submit} noValidate>
        <Stack>
          <Text size="sm">{t("account.passwordText")}</Text>
          <input type="text" name="username" autoComplete="username" value={user} readOnly hidden />
          <PasswordInput
            label={t("account.current")}
            description={t("account.currentHint")}
            value={current}
            onChange={(e) => setCurrent(e.currentTarget.value)}
            autoComplete="current-password"
            maxLength={256}
          />
          <PasswordInput
            label={t("account.next")}
            description={t("account.nextHint")}
            value={next}
            onChange={(e) => setNext(e.currentTarget.value)}
            error={tried && short ? t("account.short") : undefined}
            autoComplete="new-password"
            maxLength={256}
          />
          <PasswordInput
            label={t("account.again")}
            value={again}
            onChange={(e) => setAgain(e.currentTarget.value)}
            error={tried && differ ? t("account.differ") : undefined}
            autoComplete="new-password"
            maxLength={256}
          />
          {change.error && <Failure error={change.error} title={t("account.notChanged")} />}
          {change.isSuccess && (
            <Alert color="green" variant="light" role="status">
              {t("account.changed")}
            </Alert>
          )}
          <Button type="submit" loading={change.isPending} style={{ alignSelf: "flex-start" }}>
            {t("account.change")}
          </Button>
        </Stack>
      </form>
    </Panel>
  );
}

function Everywhere() {
  const { t } = useTranslation();
  const end = useSignOutEverywhere();
  return (
    <Panel title={t("account.everywhere")}>
      <Stack>
        <Text size="sm">{t("account.everywhereText")}</Text>
        {end.error && <Failure error={end.error} />}
        {end.isSuccess && (
          <Alert color="green" variant="light" role="status">
            {t("account.everywhereDone")}
          </Alert>
        )}
        <Button
          color="red"
          variant="light"
          loading={end.isPending}
          onClick={() => end.mutate()}
          style={{ alignSelf: "flex-start" }}
        >
          {t("account.everywhere")}
        </Button>
      </Stack>
    </Panel>
  );
}
