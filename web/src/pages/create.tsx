import { Alert, Button, Group, SimpleGrid, Stack, Textarea, Title } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { type FormEvent, lazy, type ReactNode, Suspense, useEffect, useMemo, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { announce } from "../announce";
import { Refused, type Schemas } from "../api/client";
import { useInside, useProjects, useSubmit, useTaskOnce, useWhoami } from "../api/queries";
import { blankCommand, draftAgain, draftFrom, emptyDraft, toForm, withForm } from "../draft";
import { type Faults, placeFaults, stillWrong } from "../faults";
import { title } from "../format";
import { Fields } from "../parts/create-fields";
import { Failure, Panel, View } from "../parts/states";
import { keepProject, usualProject } from "../project";

const Recipe = lazy(() => import("../parts/recipe"));

const route = getRouteApi("/create");

export function Create() {
  const { from, step, again } = route.useSearch();
  if (from !== undefined && step !== undefined)
    return <FromCheckpoint key={`${from}@${step}`} from={from} step={step} />;
  return again === undefined ? <Fresh /> : <Again key={again} name={again} />;
}

/** A copy of a task, to begin where that one was at a step. */
function FromCheckpoint({ from, step }: { from: string; step: number }) {
  const { t } = useTranslation();
  const read = useTaskOnce(from);
  return (
    <View read={read} rows={10}>
      {(task) => (
        <WithProjects>
          {(projects) => (
            <Editor
              draft={draftFrom(task, step, t("create.fromName", { name: title(task).slice(0, 100), step }))}
              projects={projects}
            />
          )}
        </WithProjects>
      )}
    </View>
  );
}

/** The same work as a task's, to be changed and run again. */
function Again({ name }: { name: string }) {
  const { t } = useTranslation();
  const read = useTaskOnce(name);
  return (
    <View read={read} rows={10}>
      {(task) => (
        <WithProjects>
          {(projects) => (
            <Editor draft={draftAgain(task)} projects={projects} note={t("create.again", { name: title(task) })} />
          )}
        </WithProjects>
      )}
    </View>
  );
}

function Fresh() {
  return (
    <WithProjects>
      {(projects) => {
        const names = projects.map((p) => p.metadata.name ?? "");
        return <Editor draft={withForm(emptyDraft, { project: usualProject(names) })} projects={projects} />;
      }}
    </WithProjects>
  );
}

/** The projects one may use: all for who looks after the cluster, one's own for everybody else. */
function WithProjects({ children }: { children: (projects: readonly Schemas["Project"][]) => ReactNode }) {
  const who = useWhoami();
  const all = useProjects();
  const read = {
    data: who.data && all.data ? { who: who.data, all: all.data.items } : undefined,
    error: who.error ?? all.error,
    refetch: () => Promise.all([who.refetch(), all.refetch()]),
  };
  return (
    <View read={read} rows={10}>
      {(d) => children(d.who.seesAll ? d.all : d.all.filter((p) => d.who.projects?.includes(p.metadata.name ?? "")))}
    </View>
  );
}

function Editor({ draft, projects, note }: { draft: string; projects: readonly Schemas["Project"][]; note?: string }) {
  const { t } = useTranslation();
  const [yaml, setYaml] = useState(draft);
  const form = useMemo(() => toForm(yaml), [yaml]);
  const submit = useSubmit();
  const [sent, setSent] = useState<string>(); // what was sent last, with which its faults are compared
  const [shown, recipe] = useDisclosure(false);
  const [wantsExisting, setExisting] = useState(false);
  const chosen = form?.inside.length ?? 0;
  const existing = wantsExisting || chosen > 0;
  const together = useInside(form?.project ?? "", form?.inside ?? [], form?.framework ?? "");
  const navigate = useNavigate();
  const page = useRef<HTMLFormElement>(null);
  const blank = useMemo(() => blankCommand(yaml), [yaml]);
  const faults = useFaults(submit.error, sent, yaml);
  if (faults.at.displayName && form?.displayName.trim() === "")
    faults.at.displayName = t(existing ? "inside.noName" : "create.nameEmpty");
  if (sent !== undefined && blank) faults.at.command ??= t("create.commandEmpty");
  if (sent !== undefined && existing && chosen === 0) faults.at.inside ??= t("inside.noneChosen");
  const marked = Object.keys(faults.at).length + Object.keys(faults.rows).length;

  // The first field that needs a hand is where the hand goes.
  const answers = submit.submittedAt + (submit.isPending ? 0 : 1);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each answer moves the focus once
  useEffect(() => {
    if (submit.isPending || sent === undefined || marked === 0) return;
    page.current?.querySelector<HTMLElement>('[aria-invalid="true"], [data-fault]')?.focus();
  }, [answers]);

  function send(dryRun: boolean) {
    setSent(yaml);
    submit.mutate(
      { yaml, dryRun: dryRun || blank || (existing && chosen === 0) }, // what else is wrong is told with it
      {
        onSuccess: (made) => {
          if (made.dryRun) return;
          keepProject(form?.project ?? "");
          const p = together.data;
          if (chosen > 0 && p)
            announce({
              title: t("inside.made"),
              text: p.isDistributed
                ? t("inside.madeMany", { n: p.nodeCount, gpus: p.totalGpus })
                : t("inside.madeOne", { name: p.nodes[0]?.name ?? "" }),
            });
          void navigate({ to: "/tasks/$name", params: { name: made.taskId } });
        },
      },
    );
  }
  function onSubmit(event: FormEvent) {
    event.preventDefault();
    send(false);
  }
  return (
    <form onSubmit={onSubmit} ref={page} noValidate>
      <Stack>
        <Group justify="space-between">
          <Title order={1} size="h3">
            {t("create.title")}
          </Title>
          <Group gap="xs">
            <Button variant="default" onClick={recipe.open} disabled={!form}>
              {t("recipe.show")}
            </Button>
            <Button variant="default" onClick={() => send(true)} disabled={submit.isPending}>
              {t("create.check")}
            </Button>
            <Button type="submit" loading={submit.isPending}>
              {t("create.submit")}
            </Button>
          </Group>
        </Group>
        {note && (
          <Alert color="blue" variant="light" role="note">
            {note}
          </Alert>
        )}
        {projects.length === 0 && (
          <Alert color="orange" variant="light" title={t("create.noProject")}>
            {t("create.noProjectHint")}
          </Alert>
        )}
        {shown && (
          <Suspense>
            <Recipe yaml={yaml} close={recipe.close} />
          </Suspense>
        )}
        <Verdict error={submit.error} faults={faults} marked={marked} pending={submit.isPending} />
        {submit.data?.dryRun && !submit.error && marked === 0 && sent === yaml && (
          <Alert color="green" variant="light" role="status">
            {t("create.checkOk")}
          </Alert>
        )}
        <SimpleGrid cols={{ base: 1, md: 2 }}>
          <Panel title={t("create.form")}>
            <Fields
              form={form}
              change={(patch) => setYaml((old) => withForm(old, patch))}
              faults={faults}
              projects={projects}
              existing={existing}
              setExisting={setExisting}
            />
          </Panel>
          <Panel title={t("create.yaml")}>
            <Textarea
              aria-label={t("create.yaml")}
              description={t("create.yamlHint")}
              value={yaml}
              onChange={(e) => setYaml(e.currentTarget.value)}
              error={form ? undefined : t("create.yamlBad")}
              autosize
              minRows={18}
              maxRows={48}
              spellCheck={false}
              styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)", fontSize: 13 } }}
            />
          </Panel>
        </SimpleGrid>
      </Stack>
    </form>
  );
}

/** What was refused of what was sent last, as far as it was not changed since. */
function useFaults(error: Error | null, sent: string | undefined, yaml: string): Faults {
  return useMemo(() => {
    const fields = error instanceof Refused ? error.fields : [];
    const before = sent === undefined ? undefined : toForm(sent);
    const now = stillWrong(placeFaults(fields, before), before, toForm(yaml));
    return { ...now, at: { ...now.at } };
  }, [error, sent, yaml]);
}

/** Above the form: how many fields are marked, and what has no field to be marked. */
function Verdict(props: { error: Error | null; faults: Faults; marked: number; pending: boolean }) {
  const { error, faults, marked, pending } = props;
  const { t } = useTranslation();
  if (pending) return null;
  const placed = error instanceof Refused && error.fields.length > 0 && faults.rest.length === 0;
  return (
    <>
      {error && !placed && <Failure error={error} fields={faults.rest} title={t("create.notSubmitted")} />}
      {marked > 0 && (
        <Alert color="red" variant="light" role="alert">
          {t("create.marked", { count: marked })}
        </Alert>
      )}
    </>
  );
}
