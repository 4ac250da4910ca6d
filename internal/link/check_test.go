package link

import (
	"bytes"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
	"github.com/fermi-cluster/fermi/internal/link/message"
)

func TestParseName(t *testing.T) {
	good := map[string]Parts{
		"task-0abc-worker-0-1":     {"task-0abc", "worker", 0, 1},
		"task-0abc-ps-main-12-345": {"task-0abc", "ps-main", 12, 345},
		"task-0abc-1-2-3-4":        {"task-0abc", "1-2", 3, 4},
	}
	for name, want := range good {
		got, err := ParseName(engine.Name(name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if again := engine.NameOf(got.TaskID, got.Role, got.Index, got.Attempt); again != engine.Name(name) {
			t.Errorf("%s became %s", name, again)
		}
	}
	for _, name := range []string{
		"", "task", "task-a-worker-0", "task-a-worker-x-1", "task-a-worker-0-01", "task-a-worker--1-1", "-a-worker-0-1",
		"task-a--0-1", "Task-a-worker-0-1", "task-a-../..-0-1", "task-a-worker-0-1\n", "task-a-worker-0-99999999999",
		"task-a-" + strings.Repeat("w", 200) + "-0-1",
	} {
		if p, err := ParseName(engine.Name(name)); err == nil {
			t.Errorf("%q was read as %+v", name, p)
		}
	}
	p := Parts{"task-a", "worker", 2, 7}
	if p.LogKey() != "task-a-worker-2-7" || p.OutputPrefix() != "outputs/task-a/worker-2/" {
		t.Error(p.LogKey(), p.OutputPrefix())
	}
}

func FuzzParseName(f *testing.F) {
	f.Add("task-a-worker-0-1")
	f.Add("task-a-1-2-3-4")
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParseName(engine.Name(s))
		if err != nil {
			return
		}
		if back := engine.NameOf(p.TaskID, p.Role, p.Index, p.Attempt); string(back) != s {
			t.Fatalf("%q became %q", s, back)
		}
		if err := blob.CheckKey(p.OutputPrefix() + "x"); err != nil {
			t.Fatalf("%q: %v", s, err)
		}
	})
}

func TestTokens(t *testing.T) {
	a, b := NewTokens([]byte("key one")), NewTokens([]byte("key two"))
	token := a.Mint("task-a-worker-0-1")
	for _, c := range []struct {
		tokens *Tokens
		name   engine.Name
		token  string
		want   bool
	}{
		{a, "task-a-worker-0-1", token, true},
		{a, "task-a-worker-0-2", token, false},
		{b, "task-a-worker-0-1", token, false},
		{a, "task-a-worker-0-1", token + "x", false},
		{a, "task-a-worker-0-1", "", false},
	} {
		if got := c.tokens.Check(c.name, c.token); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestCheckFromLauncher(t *testing.T) {
	log := func(off int64, n int, end string, last bool) *linkpb.FromLauncher {
		data := append(bytes.Repeat([]byte("a"), n), end...)
		return &linkpb.FromLauncher{Message: &linkpb.FromLauncher_Log{Log: &linkpb.LogData{Offset: off, Data: data, Last: last}}}
	}
	exit := func(e *linkpb.Exited) *linkpb.FromLauncher {
		return &linkpb.FromLauncher{Message: &linkpb.FromLauncher_Exited{Exited: e}}
	}
	for name, c := range map[string]struct {
		m  *linkpb.FromLauncher
		ok bool
	}{
		"nothing":     {&linkpb.FromLauncher{}, false},
		"hello again": {&linkpb.FromLauncher{Message: &linkpb.FromLauncher_Hello{}}, false},
		"log":         {log(0, 10, "\n", false), true},
		"full log":    {log(5, maxLogData-1, "\n", true), true},
		"long log":    {log(5, maxLogData, "\n", true), false},
		"torn log":    {log(0, 10, "", false), false},
		"empty log":   {log(0, 0, "", false), false},
		"last word":   {log(0, 0, "", true), true},
		"negative":    {log(-1, 0, "", true), false},
		"overflow":    {log(math.MaxInt64, 1, "\n", true), false},
		"exit":        {exit(&linkpb.Exited{Code: 137, Reason: engine.ReasonSignaled, Signal: "SIGKILL"}), true},
		"exit reason": {exit(&linkpb.Exited{Reason: "Because"}), false},
		"exit code":   {exit(&linkpb.Exited{Code: 256, Reason: engine.ReasonNonZero}), false},
		"exit text":   {exit(&linkpb.Exited{Reason: engine.ReasonNonZero, Message: strings.Repeat("a", message.MaxText+1)}), false},
		"usage":       {&linkpb.FromLauncher{Message: &linkpb.FromLauncher_Usage{Usage: &linkpb.Usage{RssBytes: -1}}}, false},
		"done":        {&linkpb.FromLauncher{Message: &linkpb.FromLauncher_Done{Done: &linkpb.Done{OutputFiles: -1}}}, false},
		"beat":        {&linkpb.FromLauncher{Message: &linkpb.FromLauncher_Beat{}}, true},
	} {
		if err := checkFromLauncher(c.m); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzMessages: whatever bytes come, a message is refused or has sane fields; nothing panics.
func FuzzMessages(f *testing.F) {
	for _, m := range []proto.Message{
		&linkpb.FromLauncher{Message: &linkpb.FromLauncher_Log{Log: &linkpb.LogData{Offset: 3, Data: []byte("x\n"), Last: true}}},
		&linkpb.FromLauncher{Message: &linkpb.FromLauncher_Exited{Exited: &linkpb.Exited{Code: 1, Reason: "Stopped"}}},
		&linkpb.FromFollower{Message: &linkpb.FromFollower_Facts{Facts: &linkpb.Facts{Replica: "task-a-worker-0-1", Attached: true, Session: 1, State: "Running"}}},
		&linkpb.ToFollower{Message: &linkpb.ToFollower_Order{Order: &linkpb.Order{Replica: "task-a-worker-0-1", Go: first.Order(1, 1)}}},
		&linkpb.FromLauncher{Message: &linkpb.FromLauncher_Ranks{Ranks: saidRanks.Message()}},
		&linkpb.FromLauncher{Message: &linkpb.FromLauncher_Probed{Probed: &linkpb.Probed{Id: "x", Text: "seen"}}},
		&linkpb.ToLauncher{Message: &linkpb.ToLauncher_Probe{Probe: &linkpb.Probe{Id: "x", Generation: 1, Rank: 2, Kind: "stop"}}},
		&linkpb.ToLauncher{Message: &linkpb.ToLauncher_Watermark{Watermark: &linkpb.Watermark{Generation: 1, Step: 2}}},
		&linkpb.ToLauncher{Message: &linkpb.ToLauncher_Stop{Stop: &linkpb.StopOrder{GraceNanos: 5}}},
	} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	parts, _ := ParseName("task-a-worker-0-1")
	f.Fuzz(func(t *testing.T, data []byte) {
		var up linkpb.FromLauncher
		if proto.Unmarshal(data, &up) == nil {
			_ = checkHello(up.GetHello(), "task-a-worker-0-1", parts)
			if checkFromLauncher(&up) == nil {
				if d := up.GetLog(); d != nil && (d.GetOffset() < 0 || d.GetOffset()+int64(len(d.GetData())) < d.GetOffset()) {
					t.Fatal("offset got through", d.GetOffset())
				}
			}
		}
		var down linkpb.ToLauncher
		if proto.Unmarshal(data, &down) == nil {
			_ = checkToLauncher(&down)
		}
		var facts linkpb.FromFollower
		if proto.Unmarshal(data, &facts) == nil && facts.GetFacts() != nil {
			h := NewHub(HubConfig{Clock: clock.Real})
			h.Lead(1)
			f := &follower{names: map[engine.Name]struct{}{}, out: map[engine.Name]outbox{}, wake: make(chan struct{}, 1)}
			h.roll.followers[f] = struct{}{}
			if err := (&peerServer{hub: h}).takeFacts(f, facts.GetFacts()); err == nil && len(h.roll.peers) != len(f.names) {
				t.Fatal("attached through nobody")
			}
		}
		var order linkpb.ToFollower
		if proto.Unmarshal(data, &order) == nil && order.GetOrder() != nil {
			_ = (&forwarding{NewHub(HubConfig{Clock: clock.Real})}).passOn(&uplink{epoch: 1}, order.GetOrder())
		}
		var put linkpb.PutOutputRequest
		if proto.Unmarshal(data, &put) == nil {
			_ = checkHeader(put.GetHeader(), 10)
		}
	})
}

func TestCheckOutputPath(t *testing.T) {
	for p, ok := range map[string]bool{
		"a": true, "a/b.txt": true, "模型/权重.bin": true, "a b": true, "..a": true, "a/..b": true,
		"": false, "/a": false, "../a": false, "a/../b": false, "a/..": false, "..": false, ".": false, "./a": false,
		"a//b": false, "a/": false, "a\x00": false, "a\nb": false, "a\\b": false, "\xff": false, strings.Repeat("a", 801): false,
	} {
		if err := CheckOutputPath(p); (err == nil) != ok {
			t.Errorf("%q: %v", p, err)
		}
	}
}

// FuzzOutputPath: an accepted path stays in the folder and is an acceptable key.
func FuzzOutputPath(f *testing.F) {
	f.Add("a/b")
	f.Add("../a")
	f.Fuzz(func(t *testing.T, p string) {
		if CheckOutputPath(p) != nil {
			return
		}
		if !filepath.IsLocal(p) {
			t.Fatalf("%q leads out", p)
		}
		if rel, err := filepath.Rel("/outputs/t/w", filepath.Join("/outputs/t/w", p)); err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
			t.Fatalf("%q leads out: %q %v", p, rel, err)
		}
	})
}
