import {
  Alert,
  Button,
  Card,
  Center,
  Group,
  PasswordInput,
  SegmentedControl,
  Stack,
  Text,
  TextInput,
  Title,
} from "@mantine/core";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import { usePasswordSignIn, useSignIn } from "../api/queries";
import { Choices } from "../parts/shell";
import { Failure } from "../parts/states";
import { partedBy } from "../session";

type Door = "password" | "token";

export function SignIn() {
  const { t } = useTranslation();
  const [door, setDoor] = useState<Door>("password");
  const parting = partedBy();
  return (
    <Center mih="100vh" p="md" component="main">
      <Card withBorder shadow="sm" padding="xl" w="100%" maw={420}>
        <Stack>
          <Group justify="space-between">
            <img src="/favicon.svg" alt="" width={34} height={34} />
            <Choices />
          </Group>
          <Title order={1} size="h3">
            {t("signIn.title")}
          </Title>
          {parting && (
            <Alert color="blue" variant="light" role="status">
              {t(`signIn.${parting}`)}
            </Alert>
          )}
          <SegmentedControl
            aria-label={t("signIn.method")}
            fullWidth
            value={door}
            onChange={(v) => setDoor(v === "token" ? "token" : "password")}
            data={[
              { value: "password", label: t("signIn.byPassword") },
              { value: "token", label: t("signIn.byToken") },
            ]}
          />
          {door === "password" ? <ByPassword /> : <ByToken />}
        </Stack>
      </Card>
    </Center>
  );
}

function ByPassword() {
  const { t } = useTranslation();
  const [user, setUser] = useState("");
  const [password, setPassword] = useState("");
  const [tried, setTried] = useState(false);
  const signIn = usePasswordSignIn();
  function submit(event: FormEvent) {
    event.preventDefault();
    setTried(true);
    if (user.trim() !== "" && password !== "") signIn.mutate({ user: user.trim(), password });
  }
  return (
    <form onSubmit={submit} noValidate>
      <Stack>
        <TextInput
          label={t("signIn.user")}
          value={user}
          onChange={(e) => setUser(e.currentTarget.value)}
          error={tried && user.trim() === "" ? t("signIn.emptyUser") : undefined}
          autoComplete="username"
          autoCapitalize="none"
          spellCheck={false}
          maxLength={63}
        />
        <PasswordInput
          label={t("signIn.password")}
          value={password}
          onChange={(e) => setPassword(e.currentTarget.value)}
          error={tried && password === "" ? t("signIn.emptyPassword") : undefined}
          autoComplete="current-password"
          maxLength={256}
        />
        {signIn.error && <Failure error={signIn.error} title={t("signIn.failed")} />}
        <Button type="submit" loading={signIn.isPending}>
          {t("signIn.submit")}
        </Button>
        <Text size="xs" c="dimmed">
          {t("signIn.passwordHint")}
        </Text>
      </Stack>
    </form>
  );
}

function ByToken() {
  const { t } = useTranslation();
  const [token, setToken] = useState("");
  const [missing, setMissing] = useState(false);
  const signIn = useSignIn();
  function submit(event: FormEvent) {
    event.preventDefault();
    const clean = token.trim();
    setMissing(clean === "");
    if (clean !== "") signIn.mutate(clean);
  }
  return (
    <form onSubmit={submit} noValidate>
      <Stack>
        <PasswordInput
          label={t("signIn.token")}
          description={t("signIn.hint")}
          value={token}
          onChange={(e) => setToken(e.currentTarget.value)}
          error={missing ? t("signIn.empty") : undefined}
          autoComplete="off"
          maxLength={4096}
        />
        {signIn.error && <Failure error={signIn.error} title={t("signIn.failed")} />}
        <Button type="submit" loading={signIn.isPending}>
          {t("signIn.submit")}
        </Button>
        <Text size="xs" c="dimmed">
          {t("signIn.kept")}
        </Text>
      </Stack>
    </form>
  );
}
