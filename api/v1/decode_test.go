package v1

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// refused asserts that err is one of ours with exactly these paths, each with a sentence in both
// languages, and gives the texts by path.
func refused(t *testing.T, err error, reason string, paths ...string) map[string]fault.Text {
	t.Helper()
	var e *fault.Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v (%T), want a *fault.Error", err, err)
	}
	if e.Code != fault.Invalid || e.Reason != reason {
		t.Errorf("code %s, reason %s; want Invalid, %s (%v)", e.Code, e.Reason, reason, e)
	}
	var got []string
	texts := map[string]fault.Text{}
	for _, f := range e.Fields {
		got = append(got, f.Path)
		texts[f.Path] = f.Message
		sentence(t, f.Message)
	}
	if diff := cmp.Diff(paths, got); diff != "" {
		t.Errorf("paths (-want +got):\n%s\n%v", diff, e)
	}
	sentence(t, e.Message)
	return texts
}

func sentence(t *testing.T, text fault.Text) {
	t.Helper()
	for _, s := range []string{text.EN, text.ZH} {
		if s == "" || strings.Contains(s, "%!") || strings.Contains(s, "%[") {
			t.Errorf("text %q is empty or badly formatted: %+v", s, text)
		}
	}
}

const goodTask = `
apiVersion: fermi/v1
kind: TrainingTask
metadata:
  displayName: GPT大模型分布式训练
  labels: {team: nlp, example.com/stage: "1"}
spec:
  roles:
  - name: worker
    replicas: 2
    resources: {cpu: 1.5, memory: 16Gi, accelerators: {type: Ascend 910, count: 8}}
    command: [python, train.py]
    env: [{name: A, value: "1"}]
  hyperParameters: {lr: 0.001, epochs: 3, amp: true, name: 中文}
  restartPolicy: {maxRestarts: 3, window: 30m}
  priorityClass: preemptible
`

func TestDecodeYAML(t *testing.T) {
	for _, kind := range []Kind{"", KindTrainingTask} {
		o, err := Decode(kind, []byte(goodTask))
		if err != nil {
			t.Fatal(err)
		}
		task := o.(*TrainingTask)
		want := []Role{{
			Name: "worker", Replicas: 2, Command: []string{"python", "train.py"},
			Resources: Resources{CPU: 1500, Memory: 16 << 30, Accelerators: Accelerators{Type: "Ascend 910", Count: 8}},
			Env:       []EnvVar{{Name: "A", Value: "1"}},
		}}
		if diff := cmp.Diff(want, task.Spec.Roles); diff != "" {
			t.Error(diff)
		}
		params := map[string]any{"lr": 0.001, "epochs": 3.0, "amp": true, "name": "中文"}
		if diff := cmp.Diff(params, task.Spec.HyperParameters); diff != "" {
			t.Error(diff)
		}
		if task.Meta.DisplayName != "GPT大模型分布式训练" {
			t.Error(task.Meta.DisplayName)
		}
	}
}

func TestDecodeNullIsAbsent(t *testing.T) {
	o, err := Decode(KindTrainingTask, []byte("{\"metadata\":{\"labels\":null},\n\t\"spec\":{\"roles\":null,\"code\":null}}"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&TrainingTask{}, o); diff != "" {
		t.Error(diff)
	}
}

func TestDecodeRefusals(t *testing.T) {
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	tests := []struct {
		name, doc string
		kind      Kind
		reason    string
		paths     []string
		says      string // part of the first English text
	}{
		{"empty", " # nothing\n", "", "BadManifest", []string{""}, "empty"},
		{"text", "hello", "Zone", "BadValue", []string{""}, "the text \"hello\""},
		{"no kind", "spec: {}", "", "BadValue", []string{"kind"}, "TrainingTask"},
		{"unknown kind", "kind: TrainingTsak", "", "BadValue", []string{"kind"}, "Did you mean TrainingTask?"},
		{"other kind", "kind: Zone", "Queue", "BadValue", []string{"kind"}, "A Queue is expected"},
		{"kind no text", "kind: 7", "", "BadValue", []string{"kind"}, "TrainingTask"},
		{"version", "apiVersion: v9\nspec: {}", "Queue", "BadValue", []string{"apiVersion"}, "fermi/v1"},
		{"two documents", "kind: Zone\n---\nkind: Zone", "", "BadManifest", []string{""}, "2 documents"},
		{"end marker hides nothing", "kind: Zone\n...\nkind: Zone", "", "BadManifest", []string{""}, "2 documents"},
		{"unknown field", "spec: {rolse: []}", "TrainingTask", "UnknownField", []string{"spec.rolse"}, "Did you mean roles?"},
		{"case matters", "Spec: {}", "Zone", "UnknownField", []string{"Spec"}, "Did you mean spec?"},
		{"far from everything", "spec: {xyzzy: 1}", "Queue", "UnknownField", []string{"spec.xyzzy"}, "known are guarantee"},
		{"odd key", "metadata: {'a b': 1}", "Queue", "UnknownField", []string{`metadata["a b"]`}, "no field"},
		{"all at once", "metadata: {name: 1}\nspec: {paused: 'yes', maxPending: 1.5, nme: 2}", "Queue", "BadManifest",
			[]string{"metadata.name", "spec.maxPending", "spec.nme", "spec.paused"}, "quotes"},
		{"list", "spec: {roles: {name: a}}", "TrainingTask", "BadValue", []string{"spec.roles"}, "a list, not an object"},
		{"null in list", "spec: {roles: [null]}", "TrainingTask", "BadValue", []string{"spec.roles[0]"}, "null"},
		{"null in map", "metadata: {labels: {a: null}}", "TrainingTask", "BadValue", []string{"metadata.labels.a"}, "null"},
		{"object", "spec: 3", "TrainingTask", "BadValue", []string{"spec"}, "the number 3"},
		{"bool", "spec: {paused: 1}", "Queue", "BadValue", []string{"spec.paused"}, "true or false"},
		{"overflow", "spec: {number: 4294967296}", "Node", "BadValue", []string{"spec.number"}, "whole number"},
		{"negative", "spec: {number: -1}", "Node", "BadValue", []string{"spec.number"}, "whole number"},
		{"infinite", "spec: {consoleLatencyMs: .inf}", "Zone", "BadValue", []string{"spec.consoleLatencyMs"}, "finite"},
		{"too large", `{"spec":{"consoleLatencyMs":1e999}}`, "Zone", "BadValue", []string{"spec.consoleLatencyMs"}, "number"},
		{"memory unit", "spec: {roles: [{resources: {memory: 16GB}}]}", "TrainingTask", "BadValue",
			[]string{"spec.roles[0].resources.memory"}, "write 16Gi (powers of 1024) or 16G"},
		{"memory m", "spec: {roles: [{resources: {memory: 500m}}]}", "TrainingTask", "BadValue",
			[]string{"spec.roles[0].resources.memory"}, "write 500M or 500Mi"},
		{"memory list", "spec: {roles: [{resources: {memory: [1]}}]}", "TrainingTask", "BadValue",
			[]string{"spec.roles[0].resources.memory"}, "16Gi"},
		{"cpu unit", "spec: {roles: [{resources: {cpu: 8 cores}}]}", "TrainingTask", "BadValue",
			[]string{"spec.roles[0].resources.cpu"}, "500m"},
		{"cpu bool", "spec: {roles: [{resources: {cpu: true}}]}", "TrainingTask", "BadValue",
			[]string{"spec.roles[0].resources.cpu"}, "500m"},
		{"duration without unit", "spec: {timeouts: {run: 90}}", "TrainingTask", "BadValue", []string{"spec.timeouts.run"}, "90s"},
		{"duration unit", "spec: {timeouts: {run: 90 minutes}}", "TrainingTask", "BadValue", []string{"spec.timeouts.run"}, "15m"},
		{"explicit zeros", "spec: {roles: [{replicas: 0, resources: {cpu: 0, memory: '0'}}], timeouts: {stopGrace: 0s}}", "TrainingTask", "BadValue",
			[]string{"spec.roles[0].replicas", "spec.roles[0].resources.cpu", "spec.roles[0].resources.memory", "spec.timeouts.stopGrace"}, "default"},
		{"time", "spec: {expiresAt: tomorrow}", "Token", "BadValue", []string{"spec.expiresAt"}, "2026-01-02"},
		{"slots", "spec: {roles: [{slots: AAAA}]}", "Placement", "BadValue", []string{"spec.roles[0].slots"}, "3 bytes"},
		{"slots no base64", "spec: {roles: [{slots: '?'}]}", "Placement", "BadValue", []string{"spec.roles[0].slots"}, "base64"},
		{"digits", "spec: {hyperParameters: {seed: 12345678901234567890}}", "TrainingTask", "BadValue", []string{"spec.hyperParameters.seed"}, "quotes"},
		{"huge parameter", `{"spec":{"hyperParameters":{"a":1e999}}}`, "TrainingTask", "BadValue", []string{"spec.hyperParameters.a"}, "number"},
		{"duplicate yaml", "spec: {}\nspec: {}", "Zone", "DuplicateKey", []string{""}, "once"},
		{"duplicate json", `{"spec":{"region":"a","region":"b"}}`, "Zone", "DuplicateKey", []string{"spec.region"}, "once"},
		{"number key", "metadata: {labels: {1: a}}", "Zone", "BadValue", []string{"metadata.labels"}, "quotes"},
		{"deep json", `{"spec":` + deep + `}`, "Zone", "BadValue", []string{"spec" + strings.Repeat("[0]", 31)}, "deeper"},
		{"deep yaml", `spec: ` + deep, "Zone", "BadValue", []string{"spec" + strings.Repeat("[0]", 31)}, "deeper"},
		{"broken json", "{\"spec\":\n {\"region\": \"a\" \"b\"}}", "Zone", "BadSyntax", []string{""}, "line 2"},
		{"broken yaml", "spec:\n  a: [", "Zone", "BadSyntax", []string{""}, "line"},
		{"binary", "metadata: {name: !!binary /w==}", "Zone", "BadValue", []string{"metadata.name"}, "UTF-8"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Decode(tc.kind, []byte(tc.doc))
			texts := refused(t, err, tc.reason, tc.paths...)
			if got := texts[tc.paths[0]].EN; !strings.Contains(got, tc.says) {
				t.Errorf("text %q does not say %q", got, tc.says)
			}
		})
	}
}

func TestDecodeBounds(t *testing.T) {
	_, err := Decode(KindZone, bytes.Repeat([]byte(" "), MaxManifest+1))
	if !fault.Is(err, fault.TooLarge) {
		t.Error(err)
	}
	_, err = Decode(KindZone, []byte("spec: {region: \xff}"))
	if fault.ReasonOf(err) != "BadSyntax" {
		t.Error(err)
	}
	// One long text and many aliases to it: bytes, not nodes, are what explodes.
	bomb := "x: &a " + strings.Repeat("y", 1<<20) + "\nz: [" + strings.Repeat("*a,", 1000) + "]"
	_, err = Decode(KindZone, []byte(bomb))
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "aliases") {
		t.Error(err)
	}
	many := "spec: {" + strings.Repeat("a: &x [1],", 1) + "}\n"
	for i := range 300 {
		many += "k" + strings.Repeat("x", i) + ": 1\n"
	}
	_, err = Decode(KindZone, []byte(many))
	if e := fault.From(err); len(e.Fields) != maxFaults || !strings.Contains(e.Message.EN, "At least 100") {
		t.Errorf("%d fields, %s", len(e.Fields), e.Message.EN)
	}
}

func TestDecodeAll(t *testing.T) {
	objects, err := DecodeAll([]byte("# first\n---\nkind: Zone\nspec: {region: a}\n--- # second\nkind: Queue\n---\n\n# end\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Object{&Zone{Spec: ZoneSpec{Region: "a"}}, &Queue{}}
	if diff := cmp.Diff(want, objects); diff != "" {
		t.Error(diff)
	}
	_, err = DecodeAll([]byte("kind: Zone\nspec: {regoin: a}\n---\nkind: Queue\nspec: {paused: 3}\n"))
	refused(t, err, "BadManifest", "documents[0].spec.regoin", "documents[1].spec.paused")
	_, err = DecodeAll(nil)
	refused(t, err, "BadManifest", "")
	objects, err = DecodeAll([]byte("{\"kind\":\"Zone\",\n\"spec\":{\"region\":\"---\"}}\n"))
	if err != nil || len(objects) != 1 {
		t.Error(objects, err)
	}
}

// refusedWhole asserts that a refusal says everything in both languages.
func refusedWhole(t *testing.T, err error) {
	t.Helper()
	var e *fault.Error
	if !errors.As(err, &e) || e.Reason == "" {
		t.Fatalf("error %v (%T)", err, err)
	}
	bilingual(t, e.Message)
	for _, f := range e.Fields {
		bilingual(t, f.Message)
	}
}

// bilingual is sentence for texts that quote a fuzzer's words.
func bilingual(t *testing.T, text fault.Text) {
	t.Helper()
	if text.EN == "" || text.ZH == "" {
		t.Errorf("a language is missing: %+v", text)
	}
}
