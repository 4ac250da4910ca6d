package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/clitest"
	"github.com/fermi-cluster/fermi/internal/cli/object"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func check(t *testing.T, got, want result) {
	t.Helper()
	if diff := cmp.Diff(want.out, got.out); diff != "" {
		t.Errorf("stdout (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want.err, got.err); diff != "" {
		t.Errorf("stderr (-want +got):\n%s", diff)
	}
	if got.code != want.code {
		t.Errorf("exit code %d, want %d", got.code, want.code)
	}
}

func someZone(name, display, region string, nodes int, ms float64, health api.ZoneHealth) *api.Zone {
	return &api.Zone{
		Meta: api.Meta{Name: name, DisplayName: display}, Spec: api.ZoneSpec{Region: region, ConsoleLatencyMs: ms},
		Status: api.ZoneStatus{Health: health, Nodes: nodes, Ready: nodes, Devices: nodes * 8},
	}
}

func TestZoneList(t *testing.T) {
	f := clitest.New(t)
	near, grams := someZone("beijing-1", "A可用区（北京-1）", "北京", 24, 1.2, api.ZoneHealthy), 558.0
	near.Spec.Carbon = &api.Carbon{GramsPerKWh: &grams}
	f.Add(near, someZone("shenzhen-1", "D可用区（深圳-1）", "深圳", 16, 12.3, api.ZoneDegraded))
	check(t, fermi(f, t, "", "zone", "list", "--lang", "zh"), result{out: "" +
		"可用区                          区域  可用节点    延迟  单价/卡·时  碳强度 g/kWh  状态\n" +
		"A可用区（北京-1） (beijing-1)   北京        24   1.2ms       ¥8.50           558  健康\n" +
		"D可用区（深圳-1） (shenzhen-1)  深圳        16  12.3ms       ¥8.50             -  降级\n"})
	t.Setenv("LANG", "zh_CN.UTF-8")
	if got := fermi(f, t, "", "zone", "list"); !strings.Contains(got.out, "可用节点") {
		t.Errorf("LANG is not heard:\n%s", got.out)
	}
	check(t, fermi(f, t, "", "zone", "list", "--lang", "en"), result{out: "" +
		"ZONE                            REGION  NODES  LATENCY  PRICE/DEVICE·H  CO₂ g/kWh  STATE\n" +
		"A可用区（北京-1） (beijing-1)   北京       24    1.2ms           ¥8.50        558  healthy\n" +
		"D可用区（深圳-1） (shenzhen-1)  深圳       16   12.3ms           ¥8.50          -  degraded\n"})
}

func TestGet(t *testing.T) {
	f := clitest.New(t)
	f.Add(clitest.SomeTask("gpt-1", "GPT大模型分布式训练", api.PhaseRunning), clitest.SomeTask("bert-1", "BERT中文预训练", api.PhasePending))
	check(t, fermi(f, t, "", "get", "tasks"), result{out: "" +
		"NAME    DISPLAY NAME         STATE    REPLICAS  DEVICES  QUEUE    CREATED  DURATION\n" +
		"gpt-1   GPT大模型分布式训练  Running       2/2  16×A100  default  3m ago   2m\n" +
		"bert-1  BERT中文预训练       Pending       0/2  16×A100  default  3m ago   -\n"})
	check(t, fermi(f, t, "", "train", "list", "-o", "name"), result{out: "task/gpt-1\ntask/bert-1\n"})
	wide := fermi(f, t, "", "get", "task", "gpt-1", "-o", "wide").out
	for _, want := range []string{"PROJECT", "PRIORITY", "2026-05-04 11:57:00", "task-gpt-1"} {
		if !strings.Contains(wide, want) {
			t.Errorf("wide lacks %q:\n%s", want, wide)
		}
	}
	var one map[string]any
	if err := json.Unmarshal([]byte(fermi(f, t, "", "get", "task/gpt-1", "-o", "json").out), &one); err != nil || one["kind"] != "TrainingTask" || one["apiVersion"] != "fermi/v1" {
		t.Errorf("json: %v, %v", one, err)
	}
	var many struct{ Items []map[string]any }
	if err := json.Unmarshal([]byte(fermi(f, t, "", "get", "TrainingTasks", "-o", "json").out), &many); err != nil || len(many.Items) != 2 {
		t.Errorf("json list: %v, %v", many, err)
	}
	check(t, fermi(f, t, "", "get", "queues"), result{err: "Nothing found.\n"})
	check(t, fermi(f, t, "", "get", "task", "none"), result{err: "error: There is no task none.\n", code: 5})
	check(t, fermi(f, t, "", "get", "pods"), result{code: 2, err: "error: There is no kind \"pods\"; there are: task, placement, zone, node, queue, project, user, token, secret.\n"})
}

// TestYAMLRoundTrip: what get prints can be applied again.
func TestYAMLRoundTrip(t *testing.T) {
	f := clitest.New(t)
	f.Add(&api.Queue{Meta: api.Meta{Name: "q1", DisplayName: "q1"}, Spec: api.QueueSpec{MaxPending: 100000}}, &api.Queue{Meta: api.Meta{Name: "q2", DisplayName: "二号"}, Spec: api.QueueSpec{MaxPending: 5}})
	for _, format := range []string{"yaml", "json"} {
		list := fermi(f, t, "", "get", "queues", "-o", format).out
		got := fermi(f, t, list, "apply", "-f", "-")
		check(t, got, result{out: "queue/q1 unchanged\nqueue/q2 unchanged\n"})
	}
}

func TestUsageErrors(t *testing.T) {
	f := clitest.New(t)
	for _, args := range [][]string{
		{"nonsense"}, {"get"}, {"get", "task", "-o", "xml"}, {"logs"}, {"logs", "a", "b"}, {"train", "nonsense"}, {"train", "run"},
		{"train", "run", "--gpus", "x", "--", "a"}, {"delete"}, {"delete", "task"}, {"apply"},
		{"--nonsense"}, {"logs", "a", "--since", "yesterday"}, {"get", "tasks", "-l", "x"},
		{"describe", "task"}, {"sample", "x"}, {"sample", "train", "x"},
	} {
		got := fermi(f, t, "", args...)
		if got.code != 2 || got.out != "" || !strings.HasPrefix(got.err, "error: ") {
			t.Errorf("%v: %+v", args, got)
		}
	}
	check(t, fermi(f, t, "", "trian"), result{code: 2, err: "error: There is no command \"trian\" in `fermi`.\n  hint: Did you mean: fermi train?\n"})
	check(t, fermi(f, t, "", "--lang", "zh", "train", "foo"), result{code: 2, err: "错误：`fermi train` 中没有命令 \"foo\"。\n  提示：参见 `fermi train --help`。\n"})
	if calls := f.Called(); len(calls) != 0 {
		t.Errorf("wrong usage reached the server: %v", calls)
	}
}

func TestHelp(t *testing.T) {
	f := clitest.New(t)
	en, zh := fermi(f, t, "", "--help"), fermi(f, t, "", "--help", "--lang", "zh")
	if en.code != 0 || !strings.Contains(en.out, "Create or update objects") || strings.Contains(en.out, speech.Mark) {
		t.Errorf("%+v", en)
	}
	if zh.code != 0 || !strings.Contains(zh.out, "按清单创建或更新对象") || strings.Contains(zh.out, speech.Mark) || !strings.Contains(zh.out, "任务：") {
		t.Errorf("%+v", zh)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if got := fermi(f, t, "", "completion", shell); got.code != 0 || len(got.out) < 1000 {
			t.Errorf("completion %s: code %d, %d bytes", shell, got.code, len(got.out))
		}
	}
	if got := fermi(f, t, "", "__complete", "get", ""); !strings.Contains(got.out, "zone\n") {
		t.Errorf("completion of kinds: %+v", got)
	}
}

func TestReaching(t *testing.T) {
	f := clitest.New(t)
	check(t, fermi(f, t, "", "whoami"), result{out: "admin (admin)\n"})
	t.Setenv("FERMI_TOKEN", "wrong")
	check(t, fermi(f, t, "", "whoami"), result{err: "error: The token is not known.\n", code: 4})
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("good\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	check(t, fermi(f, t, "", "whoami", "--token-file", file), result{out: "admin (admin)\n"})
	if got := fermi(f, t, "", "whoami", "--token-file", file+"x"); got.code != 2 || !strings.Contains(got.err, "no such file") {
		t.Errorf("%+v", got)
	}
	t.Setenv("FERMI_TOKEN", "")
	if err := os.WriteFile(filepath.Join(os.Getenv("FERMI_DATA"), "admin.token"), []byte("good"), 0o600); err != nil {
		t.Fatal(err)
	}
	check(t, fermi(f, t, "", "whoami"), result{out: "admin (admin)\n"})
	got := fermi(f, t, "", "whoami", "--server", "http://127.0.0.1:1")
	if got.code != 7 || !strings.Contains(got.err, "http://127.0.0.1:1") || !strings.Contains(got.err, "fermi up") {
		t.Errorf("%+v", got)
	}
}

const twoDocs = `# a comment
apiVersion: fermi/v1
kind: Queue
metadata:
  name: batch
spec:
  maxPending: 10
---
kind: Project
metadata:
  name: nlp
  displayName: 自然语言
spec:
  queue: batch
`

func TestApply(t *testing.T) {
	f := clitest.New(t)
	check(t, fermi(f, t, twoDocs, "apply", "-f", "-", "--dry-run"), result{out: "queue/batch created (dry run)\nproject/nlp created (dry run)\n"})
	check(t, fermi(f, t, twoDocs, "apply", "-f", "-"), result{out: "queue/batch created\nproject/nlp created\n"})
	check(t, fermi(f, t, twoDocs, "apply", "-f", "-"), result{out: "queue/batch unchanged\nproject/nlp unchanged\n"})
	check(t, fermi(f, t, strings.Replace(twoDocs, "10", "20", 1), "apply", "-f", "-", "--lang", "zh"), result{out: "queue/batch 已更新\nproject/nlp 无变化\n"})
	if q := f.Objects[api.KindQueue][0].(*api.Queue); q.Spec.MaxPending != 20 {
		t.Errorf("maxPending is %d", q.Spec.MaxPending)
	}
	var structured struct{ Items []object.Outcome }
	got := fermi(f, t, twoDocs, "apply", "-f", "-", "-o", "json")
	if err := json.Unmarshal([]byte(got.out), &structured); err != nil || len(structured.Items) != 2 || structured.Items[0].Result != "updated" {
		t.Errorf("%+v %v", got, err)
	}
	check(t, fermi(f, t, "kind: Node\nmetadata: {name: n1}\nspec: {number: 1, zone: z, cpu: 1, memory: 1Gi}\n", "apply", "-f", "-"),
		result{out: "node/n1 failed\n", err: "error: Objects of kind Node are made by the system, not by manifests.\n", code: 2})
	check(t, fermi(f, t, twoDocs, "delete", "-f", "-"), result{out: "queue/batch deleted\nproject/nlp deleted\n"})
	check(t, fermi(f, t, "", "delete", "queue", "batch", "--ignore-missing"), result{})
	check(t, fermi(f, t, "", "delete", "queue", "batch"), result{err: "error: There is no queue batch.\n", code: 5})
}

func TestApplyMistakes(t *testing.T) {
	f := clitest.New(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "bad.yaml")
	text := "kind: Queue\nmetadata:\n  name: a\n---\nkind: Queue\nmetadata:\n  name: b\nspec:\n  maxPending: 3\n  maxPendin: 4\n---\nkind: Queue\nspec:\n  x: [1\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got := fermi(f, t, "", "apply", "-f", file)
	if got.code != 2 || got.out != "" || !strings.Contains(got.err, file+":10: spec.maxPendin: ") || !strings.Contains(got.err, "line 14") {
		t.Errorf("%+v", got)
	}
	if calls := f.Called(); len(calls) != 0 {
		t.Errorf("a file with mistakes reached the server: %v", calls)
	}
	for name, stdin := range map[string]string{"empty": "", "comments": "# nothing\n---\n\n", "no kind": "metadata: {name: x}\n", "unknown kind": "kind: Pod\n"} {
		if got := fermi(f, t, stdin, "apply", "-f", "-"); got.code != 2 || !strings.HasPrefix(got.err, "error: ") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := fermi(f, t, "", "apply", "-f", file+"x"); got.code != 2 || !strings.Contains(got.err, "no such file") {
		t.Errorf("%+v", got)
	}
}

func TestDescribe(t *testing.T) {
	f := clitest.New(t)
	f.Add(clitest.SomeTask("gpt-1", "GPT大模型", api.PhasePending), clitest.SomeTask("gpt-2", "GPT大模型", api.PhaseRunning), &api.Queue{Meta: api.Meta{Name: "default"}, Spec: api.QueueSpec{MaxPending: 7}})
	f.Events = []client.Event{{Seq: 1, Time: clitest.Now.Add(-time.Minute), Kind: api.KindTrainingTask, Name: "gpt-1", Type: "Normal", Reason: "Created", Message: client.Text{EN: "Made.", ZH: "已创建。"}}}
	got := fermi(f, t, "", "describe", "task", "gpt-1")
	for _, want := range []string{"Name:         gpt-1\n", "State:        Pending\n", "  Command:  python 'train me.py'\n", "The queue is paused. [QueuePaused]", "estimated start: in 5m", "fermi queue resume default", "task/gpt-1  Created  Made."} {
		if !strings.Contains(got.out, want) {
			t.Errorf("no %q in\n%s", want, got.out)
		}
	}
	if got := fermi(f, t, "", "describe", "task", "gpt-2", "--lang", "zh"); !strings.Contains(got.out, "worker-0") || strings.Contains(got.out, "为何等待") || !strings.Contains(got.out, "状态:") {
		t.Errorf("a running task:\n%s", got.out)
	}
	if got := fermi(f, t, "", "describe", "queue/default"); !strings.Contains(got.out, "maxPending: 7") {
		t.Errorf("a queue:\n%s", got.out)
	}
	check(t, fermi(f, t, "", "why", "gpt-1", "--lang", "zh"), result{out: "队列已暂停。 [QueuePaused]\n  - 队列 default\n  预计开始：5m后\n  可采取的措施：fermi queue resume default\n"})
	check(t, fermi(f, t, "", "events", "task/gpt-1"), result{out: "TIME    TYPE    OBJECT      REASON   MESSAGE\n1m ago  Normal  task/gpt-1  Created  Made.\n"})
}

func TestAdmin(t *testing.T) {
	f := clitest.New(t)
	f.Add(&api.Queue{Meta: api.Meta{Name: "default"}}, &api.Node{Meta: api.Meta{Name: "n1"}, Spec: api.NodeSpec{Number: 1, Zone: "z", CPU: 128000, Memory: 1 << 40, Devices: []api.Device{{Type: "A100"}, {Type: "A100"}, {Type: "V100"}}}, Status: api.NodeStatus{Ready: true}})
	check(t, fermi(f, t, "", "queue", "pause", "default"), result{out: "queue/default paused\n"})
	if !f.Objects[api.KindQueue][0].(*api.Queue).Spec.Paused {
		t.Error("not paused")
	}
	check(t, fermi(f, t, "", "queue", "resume", "default"), result{out: "queue/default resumed\n"})
	check(t, fermi(f, t, "", "node", "cordon", "n1"), result{out: "node/n1 cordoned\n"})
	check(t, fermi(f, t, "", "node", "list"), result{out: "NAME  ZONE  RACK  CPU   MEMORY  DEVICES        STATE\nn1    z           128  1.0 TiB  2×A100,1×V100  ready, cordoned\n"})
	check(t, fermi(f, t, "", "node", "uncordon", "n1"), result{out: "node/n1 uncordoned\n"})
	check(t, fermi(f, t, "", "user", "create", "li", "--role", "viewer"), result{out: "user/li created\n"})
	check(t, fermi(f, t, "", "project", "create", "nlp", "--member", "li"), result{out: "project/nlp created\n"})
	check(t, fermi(f, t, "", "user", "create", "wu", "--project", "nlp"), result{out: "user/wu created\nproject/nlp + wu\n"})
	if r := fermi(f, t, "", "user", "create", "zhao", "--project", "nowhere"); r.code == 0 || len(f.Objects[api.KindUser]) != 2 {
		t.Errorf("a user of a project that is not there: %+v", r)
	}
	check(t, fermi(f, t, "", "token", "create", "ci", "--expires", "24h"), result{out: "fermi_ci_secret\n", err: "Token ci of user admin. Keep the secret: it is not shown again.\n"})
	if got := fermi(f, t, "", "token", "list").out; !strings.Contains(got, "in 24h") {
		t.Errorf("tokens:\n%s", got)
	}
	check(t, fermi(f, t, "", "token", "revoke", "ci"), result{out: "token/ci revoked\n"})
	check(t, fermi(f, t, "", "version"), result{out: "fermi v1\nserver v9\n"})
	file := filepath.Join(t.TempDir(), "b.tar")
	check(t, fermi(f, t, "", "backup", file), result{err: "Saved 9 B to " + file + ".\n" + aboutKey})
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() != 9 {
		t.Errorf("%v, %v", info, err)
	}
	check(t, fermi(f, t, "", "backup", "-"), result{out: "tar bytes"})
}

func TestLogs(t *testing.T) {
	f := clitest.New(t)
	f.Add(clitest.SomeTask("gpt-1", "GPT", api.PhaseRunning))
	line := func(replica, stream, text string, partial bool) client.LogLine {
		return client.LogLine{Time: clitest.Now, Replica: replica, Stream: stream, Text: text, Partial: partial}
	}
	f.Log = []client.LogLine{line("worker-0", "stdout", "a", false), line("worker-1", "stderr", "long ", true), line("worker-1", "stderr", "line", false), line("worker-0", "stdout", "cut", true)}
	check(t, fermi(f, t, "", "logs", "gpt-1"), result{out: "[worker-0] a\n[worker-1] long line\n[worker-0] cut\n"})
	check(t, fermi(f, t, "", "logs", "gpt-1", "--replica", "worker-0", "--timestamps", "--tail", "3"), result{out: "2026-05-04T12:00:00.000Z a\n2026-05-04T12:00:00.000Z long line\n2026-05-04T12:00:00.000Z cut\n"})
}

func TestOutputs(t *testing.T) {
	f := clitest.New(t)
	f.Add(clitest.SomeTask("gpt-1", "GPT", api.PhaseCompleted))
	check(t, fermi(f, t, "", "train", "outputs", "gpt-1"), result{err: "The task left no files.\n"})
	f.Outputs = map[string]string{"worker-0/model.json": "{}", "worker-0/日志/a.txt": "hi"}
	check(t, fermi(f, t, "", "train", "outputs", "gpt-1"), result{out: "PATH                 SIZE  MODIFIED\nworker-0/model.json   2 B  1h ago\nworker-0/日志/a.txt   2 B  1h ago\n"})
	dir := filepath.Join(t.TempDir(), "new")
	if got := fermi(f, t, "", "train", "outputs", "gpt-1", "--get", dir); got.code != 0 || got.out != dir+"/worker-0/model.json\n"+dir+"/worker-0/日志/a.txt\n" {
		t.Errorf("%+v", got)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "worker-0/日志/a.txt")); err != nil || string(data) != "hi" {
		t.Errorf("%q, %v", data, err)
	}
	f.Outputs = map[string]string{"../evil": "x"}
	if got := fermi(f, t, "", "train", "outputs", "gpt-1", "--get", dir); got.code == 0 {
		t.Errorf("%+v", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "../evil")); err == nil {
		t.Error("a file outside the folder was written")
	}
}

func TestStopAndClone(t *testing.T) {
	f := clitest.New(t)
	f.Add(clitest.SomeTask("gpt-1", "GPT", api.PhaseRunning))
	check(t, fermi(f, t, "", "train", "stop", "gpt-1"), result{out: "task/gpt-1 is being stopped\n"})
	check(t, fermi(f, t, "", "train", "clone", "gpt-1", "--name", "x"), result{out: "task/clone-1 created\n"})
}

// TestStopEnvironment: who stops what another trains in is asked, or says --yes.
func TestStopEnvironment(t *testing.T) {
	for stdin, args := range map[string][]string{"": {"--yes"}, "y\n": nil} {
		f := clitest.New(t)
		env := clitest.SomeTask("env", "E", api.PhaseRunning)
		env.Status.InUseBy = "gpt-1"
		f.Add(env)
		for _, no := range []string{"", "n\n"} {
			if got := fermi(f, t, no, "train", "stop", "env"); got.code == 0 || !strings.Contains(got.err, "gpt-1") || got.out != "" {
				t.Errorf("%+v", got)
			}
		}
		if got := fermi(f, t, stdin, append([]string{"train", "stop", "env"}, args...)...); got.code != 0 || got.out != "task/env is being stopped\n" {
			t.Errorf("%+v", got)
		}
	}
}

func TestSample(t *testing.T) {
	f := clitest.New(t)
	t.Setenv("FERMI_OUTPUT", "")
	got := fermi(f, t, "", "sample", "train", "--steps", "20")
	if got.code != 0 || !strings.Contains(got.out, "\nstep=20 loss=") {
		t.Errorf("%+v", got)
	}
	check(t, fermi(f, t, "", "sample", "train", "--steps", "0"), result{err: "sample: steps must be between 1 and 1000000000, not 0\n", code: 2})
}

func TestReport(t *testing.T) {
	var b strings.Builder
	err := fault.New(fault.Invalid, "X", fault.T("Bad.", "不对。")).WithFields(fault.Field{Path: "a.b", Message: fault.T("no\x1b[31m", "否")}).WithHint(fault.T("Do.", "做。"))
	if code := call.Report(&b, err, "en"); code != 2 || b.String() != "error: Bad.\n  a.b: no\\x1b[31m\n  hint: Do.\n" {
		t.Errorf("%d %q", code, b.String())
	}
	b.Reset()
	once := fault.New(fault.Invalid, "X", fault.T("a.b: No.", "a.b: 否。")).WithFields(fault.Field{Path: "a.b", Message: fault.T("No.", "否。")})
	if call.Report(&b, once, "en"); b.String() != "error: a.b: No.\n" {
		t.Errorf("%q", b.String())
	}
	b.Reset()
	if code := call.Report(&b, os.ErrClosed, "zh"); code != 70 || !strings.Contains(b.String(), "原因：file already closed") {
		t.Errorf("%d %q", code, b.String())
	}
	if code := call.Report(&b, call.Exit{Code: 33}, "en"); code != 33 {
		t.Error(code)
	}
}

func TestTypedSecrets(t *testing.T) {
	f := clitest.New(t)
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("geheim"), 0o600); err != nil {
		t.Fatal(err)
	}
	check(t, fermi(f, t, "", "secret", "set", "store", "--type", "s3", "--plain", "endpoint=http://h:1", "accessKeyID="+file, "secretAccessKey="+file), result{out: "secret/store created\n"})
	check(t, fermi(f, t, "", "secret", "set", "store", "--plain", "region=r"), result{out: "secret/store changed\n"})
	x := f.Objects[api.KindSecret][0].(*api.Secret)
	if x.Spec.Type != api.SecretS3 || x.Spec.Data["region"] != "r" {
		t.Errorf("%+v", x)
	}
	for _, args := range [][]string{
		{"secret", "set", "store"}, {"secret", "set", "store", "--plain", "region"}, {"secret", "set", "store", "--plain", "region=a", "--plain", "region=b"},
		{"secret", "set", "store", "--plain", "secretAccessKey=geheim"}, {"secret", "set", "new", "--plain", "token=geheim"}, {"secret", "set", "hub", "--type", "registry", "--plain", "password=geheim"},
	} {
		if got := fermi(f, t, "", args...); got.code != 2 || strings.Contains(got.err, "geheim") {
			t.Errorf("%v: %+v", args, got)
		}
	}
	if got := fermi(f, t, "", "secret", "list").out; !strings.Contains(got, "TYPE") || !strings.Contains(got, "s3") {
		t.Errorf("list:\n%s", got)
	}
	check(t, fermi(f, t, "", "train", "run", "--name", "t1", "--no-code", "-d", "--credential", "store", "--credential", "hub", "--", "true"),
		result{out: "t1\n", err: "Task t1 submitted.\nFollow it with: fermi logs -f t1\nStop it with:   fermi train stop t1\n"})
	task := f.Objects[api.KindTrainingTask][0].(*api.TrainingTask)
	if len(task.Spec.Credentials) != 2 || task.Spec.Credentials[1].Secret != "hub" {
		t.Errorf("%+v", task.Spec.Credentials)
	}
}
