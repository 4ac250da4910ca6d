package cli

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/clitest"
	"github.com/fermi-cluster/fermi/internal/cli/show"
)

// TestLogsShowSequences: a task's words can't act on the reader's terminal, unless every byte is asked for.
func TestLogsShowSequences(t *testing.T) {
	f := clitest.New(t)
	f.Add(clitest.SomeTask("gpt-1", "GPT", api.PhaseRunning))
	f.Log = []client.LogLine{
		{Replica: "worker-0", Stream: "stdout", Text: "\x1b]52;c;cm0=\a\x1b[2Jok\u202e\r"},
		{Replica: "worker-0", Stream: "stderr", Text: "\x1b[31mred"},
	}
	check(t, fermi(f, t, "", "logs", "gpt-1"), result{out: "[worker-0] \\x1b]52;c;cm0=\\x07\\x1b[2Jok\\u202e\n[worker-0] \\x1b[31mred\n"})
	check(t, fermi(f, t, "", "logs", "gpt-1", "--raw"), result{out: "[worker-0] \x1b]52;c;cm0=\a\x1b[2Jok\u202e\r\n[worker-0] \x1b[31mred\n"})
}

// TestDataIsSafeAndTheSame: JSON and YAML of an object show what a terminal would obey, and still mean it.
func TestDataIsSafeAndTheSame(t *testing.T) {
	f := clitest.New(t)
	evil := clitest.SomeTask("gpt-1", "GPT", api.PhaseRunning)
	evil.Meta.DisplayName = "a\x1b[2J\u009b\u202eb"
	f.Add(evil)
	for _, format := range []string{"json", "yaml", "wide"} {
		got := fermi(f, t, "", "get", "task", "gpt-1", "-o", format)
		if got.code != 0 || strings.ContainsFunc(got.out, show.IsStrange) {
			t.Errorf("%s: %q", format, got.out)
		}
		var back struct{ Metadata struct{ DisplayName string } }
		if format == "wide" {
			continue
		}
		if err := yaml.Unmarshal([]byte(got.out), &back); err != nil || back.Metadata.DisplayName != evil.Meta.DisplayName {
			t.Errorf("%s: %v: %q", format, err, got.out)
		}
	}
	if got := fermi(f, t, "", "describe", "task", "gpt-1"); got.code != 0 || strings.ContainsFunc(got.out, show.IsStrange) {
		t.Errorf("%+v", got)
	}
}
