package link

import (
	"context"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
	"github.com/fermi-cluster/fermi/internal/link/message"
)

// worldCheckpoint is the one checkpoint that there is.
const worldCheckpoint = "0000000000000000001-0000000000000000020"

// The matrix is about one replica, the target, of the second attempt of task-a.
const (
	target   = engine.Name("task-a-worker-0-2")
	sibling  = engine.Name("task-a-judge-0-2")
	earlier  = engine.Name("task-a-worker-0-1")
	foreign  = engine.Name("task-b-worker-0-2")
	finished = engine.Name("task-a-worker-1-2")
)

// standing is what a caller may be for the table.
type standing string

const (
	isStranger standing = "stranger" // whatever it shows, it is not the token of the replica it names
	isTarget   standing = "target"
	isSibling  standing = "sibling"  // another replica of the same task, as itself
	isEarlier  standing = "earlier"  // the same replica of an attempt that is over, as itself
	isForeign  standing = "foreign"  // a replica of another task, as itself
	isFinished standing = "finished" // a replica that is done, as itself
)

// visitor is a column of the matrix: who calls, and what it shows.
type visitor struct {
	name  string
	as    engine.Name
	auth  []string // of the metadata
	is    standing
	names []string // of the metadata; as when nil
}

func (w *world) visitors() []visitor {
	bearer := func(n engine.Name) []string { return []string{"Bearer " + w.tokens.Mint(n)} }
	elsewhere := NewTokens([]byte("the key of another cluster"))
	return []visitor{
		{"nobody", target, nil, isStranger, []string{}},
		{"no token", target, nil, isStranger, nil},
		{"no name", target, bearer(target), isStranger, []string{}},
		{"an empty token", target, []string{"Bearer "}, isStranger, nil},
		{"garbage", target, []string{"Bearer " + strings.Repeat("x", 43)}, isStranger, nil},
		{"not a bearer", target, []string{"Basic " + w.tokens.Mint(target)}, isStranger, nil},
		{"two tokens", target, append(bearer(target), bearer(foreign)...), isStranger, nil},
		{"two names", target, bearer(target), isStranger, []string{string(target), string(sibling)}},
		{"a token of the API", target, []string{"Bearer fermi_root_" + strings.Repeat("A", 43)}, isStranger, nil},
		{"another cluster's token", target, []string{"Bearer " + elsewhere.Mint(target)}, isStranger, nil},
		{"an earlier attempt's token", target, bearer(earlier), isStranger, nil},
		{"a later attempt's token", target, bearer("task-a-worker-0-3"), isStranger, nil},
		{"another task's token", target, bearer(foreign), isStranger, nil},
		{"a sibling's token", target, bearer(sibling), isStranger, nil},
		{"a finished replica's token", target, bearer(finished), isStranger, nil},
		{"the replica", target, bearer(target), isTarget, nil},
		{"the sibling", sibling, bearer(sibling), isSibling, nil},
		{"the earlier attempt", earlier, bearer(earlier), isEarlier, nil},
		{"another task's replica", foreign, bearer(foreign), isForeign, nil},
		{"the finished replica", finished, bearer(finished), isFinished, nil},
	}
}

func (v visitor) context(ctx context.Context) context.Context {
	md := metadata.MD{}
	if v.auth != nil {
		md[metaToken] = v.auth
	}
	if md[MetaReplica] = v.names; v.names == nil {
		md[MetaReplica] = []string{string(v.as)}
	}
	return metadata.NewOutgoingContext(ctx, md)
}

// linkMatrix is a hub with two tasks: each has its archive, each role its secret.
type linkMatrix struct {
	*world
	*server
	api     linkpb.LinkClient
	digests map[string]string // of each task
	cases   int
}

func newLinkMatrix(t *testing.T) *linkMatrix {
	m := &linkMatrix{world: newWorld(t), digests: map[string]string{}}
	for _, task := range []string{"task-a", "task-b"} {
		digest, _, err := blob.PutContent(t.Context(), m.store, "archives", strings.NewReader("code of "+task), 100)
		if err != nil {
			t.Fatal(err)
		}
		m.digests[task] = digest
	}
	m.config = func(cfg *HubConfig) {
		cfg.ArchiveOf = func(_ context.Context, task string) (string, error) { return m.digests[task], nil }
		cfg.SpecOf = func(_ context.Context, name engine.Name) ([]byte, error) { return []byte("spec of " + name), nil }
		cfg.ManifestOf = func(_ context.Context, task string, from message.Origin) ([]byte, error) {
			if task != from.TaskID || from.Name != worldCheckpoint {
				return nil, fault.New(fault.Forbidden, "NotItsCheckpoint", fault.T("Another task's.", "属于另一任务。"))
			}
			return []byte(task), nil
		}
		cfg.SecretsOf = func(_ context.Context, task, role string) (map[api.SecretRef]string, error) {
			return map[api.SecretRef]string{{Secret: "s", Key: "k"}: task + " " + role}, nil
		}
		cfg.SecretsUsed = func(_ context.Context, p Parts, _ string, refs []api.SecretRef) {
			if p.Attempt < 2 || len(refs) != 1 {
				t.Errorf("%+v gets %v", p, refs)
			}
		}
		cfg.Current = func(_ context.Context, p Parts) error {
			if p.Attempt < 2 {
				return fault.New(fault.Forbidden, "AttemptOver", fault.T("Over.", "已结束。"))
			}
			return nil
		}
	}
	m.server = m.serve("s", 7, nil)
	conn, err := grpc.NewClient("unix://"+filepath.Join(m.dir, "s"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	m.api = linkpb.NewLinkClient(conn)
	// The finished one has said everything.
	done := m.must(m.attach(m.visitor("the finished replica"), helloOf(finished), said(&linkpb.FromLauncher_Done{Done: &linkpb.Done{}})))
	eventually(t, "done", func() bool { return hasEnded(m.hub, finished) })
	done.end()
	return m
}

func (m *linkMatrix) visitor(name string) visitor {
	all := m.visitors()
	return all[slices.IndexFunc(all, func(v visitor) bool { return v.name == name })]
}

// said wraps one message of a launcher.
func said(field any) *linkpb.FromLauncher {
	out := &linkpb.FromLauncher{}
	switch f := field.(type) {
	case *linkpb.FromLauncher_Probed:
		out.Message = f
	case *linkpb.FromLauncher_Ranks:
		out.Message = f
	case *linkpb.FromLauncher_Started:
		out.Message = f
	case *linkpb.FromLauncher_Exited:
		out.Message = f
	case *linkpb.FromLauncher_Log:
		out.Message = f
	case *linkpb.FromLauncher_Usage:
		out.Message = f
	case *linkpb.FromLauncher_Done:
		out.Message = f
	case *linkpb.FromLauncher_Beat:
		out.Message = f
	}
	return out
}

// attached is one stream and what it hears, in order; heard is closed with the stream.
type attached struct {
	mu      sync.Mutex // of sending
	stream  linkpb.Link_AttachClient
	welcome *linkpb.Welcome
	heard   chan *linkpb.ToLauncher
	why     error // once heard is closed
	end     func()
}

// attach opens a stream, says these, and waits for the first answer.
func (m *linkMatrix) attach(v visitor, say ...*linkpb.FromLauncher) (*attached, error) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(v.context(context.Background()), 30*time.Second) // a wrong hub must fail, not hang
	m.t.Cleanup(cancel)
	stream, err := m.api.Attach(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	a := &attached{stream: stream, heard: make(chan *linkpb.ToLauncher, 100)}
	for _, message := range say {
		_ = a.say(message) // a refusal is read below
	}
	first, err := stream.Recv()
	if err != nil {
		cancel()
		return nil, err
	}
	a.welcome = first.GetWelcome()
	go func() {
		defer close(a.heard)
		for {
			message, err := stream.Recv()
			if err != nil {
				a.why = err
				return
			}
			if message.GetBeat() != nil {
				_ = a.say(words["beat"].message) // as launchers do, or the hub hangs up
			}
			a.heard <- message
		}
	}()
	a.end = func() {
		cancel()
		for range a.heard {
		}
		eventually(m.t, "detached", func() bool { return !m.hub.Attached(v.as) })
	}
	return a, nil
}

func (a *attached) say(message *linkpb.FromLauncher) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stream.Send(message)
}

// next is what it hears next; beats come at any time and count only where they are looked for.
func (a *attached) next(beats bool) *linkpb.ToLauncher {
	for message := range a.heard {
		if beats || message.GetBeat() == nil {
			return message
		}
	}
	return nil
}

func (m *linkMatrix) must(a *attached, err error) *attached {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
	return a
}

// put uploads one file and gives the code of the answer.
func (m *linkMatrix) put(v visitor, text string) error {
	stream, err := m.api.PutOutput(v.context(m.t.Context()))
	if err != nil {
		return err
	}
	head := &linkpb.OutputHeader{Path: "f", Size: int64(len(text))}
	_ = stream.Send(&linkpb.PutOutputRequest{Part: &linkpb.PutOutputRequest_Header{Header: head}})
	_ = stream.Send(&linkpb.PutOutputRequest{Part: &linkpb.PutOutputRequest_Data{Data: []byte(text)}})
	_, err = stream.CloseAndRecv()
	return err
}

// outputs is what every replica has stored.
func (m *linkMatrix) outputs() map[string]string {
	m.t.Helper()
	infos, err := m.store.List(m.t.Context(), "outputs/", "", 100)
	if err != nil {
		m.t.Fatal(err)
	}
	out := map[string]string{}
	for _, info := range infos {
		r, _, err := m.store.Open(m.t.Context(), info.Key)
		if err != nil {
			m.t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		r.Close()
		if err != nil {
			m.t.Fatal(err)
		}
		out[info.Key] = string(data)
	}
	return out
}

// got compares an answer with the table.
func (m *linkMatrix) got(what string, v visitor, err error, want codes.Code) bool {
	m.t.Helper()
	m.cases++
	if status.Code(err) != want {
		m.t.Errorf("%s by %s: %v, want %v", what, v.name, err, want)
	}
	return err == nil
}

// hasEnded says that the replica's launcher has handed everything over.
func hasEnded(h *Hub, name engine.Name) bool {
	state, _ := h.State(name)
	return state == engine.StateDone
}
