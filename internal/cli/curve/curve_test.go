package curve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// fermi runs the command against an answer of the server.
func fermi(t *testing.T, answer string, output string, args ...string) (out string, path string, query url.Values) {
	t.Helper()
	var b bytes.Buffer
	s := &Shell{
		Read: func(_ context.Context, p string, q url.Values) (json.RawMessage, error) {
			path, query = p, q
			return json.RawMessage(answer), nil
		},
		Project: "p", Out: &b, Output: output, T: func(en, _ string, args ...any) string { return fmt.Sprintf(en, args...) },
		Data:  func(v any) error { return json.NewEncoder(&b).Encode(v) },
		Clean: func(s string) string { return strings.ReplaceAll(s, "\x1b", "?") },
	}
	cmd := Command(func(en, _ string) string { return en }, func(do func(context.Context, *Shell, []string) error) func(*cobra.Command, []string) error {
		return func(cmd *cobra.Command, args []string) error { return do(context.Background(), s, args) }
	})
	cmd.SetArgs(args)
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	return b.String(), path, query
}

const points = `{"items":[{"name":"loss","role":"worker","rank":0,"generation":2,"steps":[1,2,3,4],"times":[1000,2000,3000,4000],"values":[4,2,null,1],"notFinite":[{"at":2,"is":"NaN"}],"total":4}],"left":3}`

func TestList(t *testing.T) {
	answer := `{"items":[{"name":"loss\u001b","ranks":[0,1],"replicas":["worker-0"],"generations":[1,3]},{"name":"system/cpu","replicas":["worker-0"],"generations":[1]}],"dropped":7}`
	out, path, query := fermi(t, answer, "", "gpt 1")
	for _, want := range []string{"loss? ", "2 [rank|ranks], generations 1 to 3", "system/cpu", "1 [replica|replicas]", "7 points are missing"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if path != "/training-tasks/gpt%201/metrics" || query.Get("project") != "p" {
		t.Error(path, query)
	}
	if out, _, _ := fermi(t, answer, "name", "gpt"); out != "loss?\nsystem/cpu\n" {
		t.Errorf("%q", out)
	}
}

func TestCSV(t *testing.T) {
	out, path, query := fermi(t, points, "csv", "gpt", "loss", "--rank", "all", "--by", "time", "--points", "50")
	want := "name,role,replica,rank,generation,step,time,value\nloss,worker,,0,2,1,1970-01-01T00:00:01Z,4\nloss,worker,,0,2,2,1970-01-01T00:00:02Z,2\nloss,worker,,0,2,3,1970-01-01T00:00:03Z,NaN\nloss,worker,,0,2,4,1970-01-01T00:00:04Z,1\n"
	if out != want {
		t.Errorf("%s", out)
	}
	if path != "/training-tasks/gpt/metrics/points" || query.Encode() != "by=time&name=loss&points=50&project=p&rank=all" {
		t.Error(path, query.Encode())
	}
}

func TestDrawn(t *testing.T) {
	out, _, _ := fermi(t, points, "", "gpt", "loss")
	lines := strings.Split(out, "\n")
	if !strings.HasPrefix(lines[0], "loss  rank 0  4 [point|points]  last 1") || !strings.Contains(lines[1], "4 ┤•") || !strings.HasSuffix(lines[plotRows], "•") || !strings.Contains(lines[plotRows], "×") {
		t.Errorf("\n%s", out)
	}
	for _, want := range []string{"the last at step 3: NaN", "… and 3 more"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	for _, args := range [][]string{{"--log"}, {"--by", "time"}} {
		if out, _, _ := fermi(t, points, "", append([]string{"gpt", "loss"}, args...)...); strings.Count(out, "┤") != plotRows {
			t.Errorf("%v\n%s", args, out)
		}
	}
	if _, left := plot(Curve{Steps: []int64{1, 2}, Times: []int64{1, 2}, Values: []*float64{new(float64), new(float64)}}, 40, false, true); left != 2 {
		t.Errorf("%d values below zero", left)
	}
}
