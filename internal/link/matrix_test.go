package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
	"github.com/fermi-cluster/fermi/internal/link/message"
)

// pulled reads a stream of answers to its end.
func pulled[M any](stream interface{ Recv() (M, error) }, err error) ([]M, error) {
	var out []M
	for err == nil {
		var one M
		if one, err = stream.Recv(); err == nil {
			out = append(out, one)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return out, err
}

// calls is the table of calls: what each standing gets, and the try that also looks at what was
// reached.
var calls = map[protoreflect.Name]struct {
	allow map[standing]codes.Code // OK where absent; strangers are never let in
	try   func(m *linkMatrix, v visitor) error
}{
	"Attach": {
		map[standing]codes.Code{isFinished: codes.PermissionDenied},
		func(m *linkMatrix, v visitor) error {
			a, err := m.attach(v, helloOf(v.as))
			if err == nil {
				a.end()
			}
			return err
		},
	},
	"FetchSpec": { // everybody gets at most what it is itself
		map[standing]codes.Code{isEarlier: codes.PermissionDenied, isFinished: codes.PermissionDenied},
		func(m *linkMatrix, v visitor) error {
			chunks, err := pulled(m.api.FetchSpec(v.context(m.t.Context()), &linkpb.FetchSpecRequest{}))
			if err == nil && (len(chunks) != 1 || string(chunks[0].GetData()) != "spec of "+string(v.as)) || err != nil && len(chunks) > 0 {
				m.t.Errorf("%s was given %v", v.name, chunks)
			}
			return err
		},
	},
	"FetchArchive": { // of the target's code
		map[standing]codes.Code{isEarlier: codes.PermissionDenied, isForeign: codes.PermissionDenied, isFinished: codes.PermissionDenied},
		func(m *linkMatrix, v visitor) error {
			parts, err := pulled(m.api.FetchArchive(v.context(m.t.Context()), &linkpb.FetchArchiveRequest{Digest: m.digests["task-a"]}))
			if err == nil && (len(parts) != 1 || string(parts[0].GetData()) != "code of task-a") || err != nil && len(parts) > 0 {
				m.t.Errorf("%s was given %v", v.name, parts)
			}
			return err
		},
	},
	"FetchSecrets": { // everybody gets at most what its own role names
		map[standing]codes.Code{isEarlier: codes.PermissionDenied, isFinished: codes.PermissionDenied},
		func(m *linkMatrix, v visitor) error {
			values, err := pulled(m.api.FetchSecrets(v.context(m.t.Context()), &linkpb.FetchSecretsRequest{}))
			own, _ := ParseName(v.as)
			if err == nil && (len(values) != 1 || values[0].GetValue() != own.TaskID+" "+own.Role) || err != nil && len(values) > 0 {
				m.t.Errorf("%s was given %v", v.name, values)
			}
			return err
		},
	},
	"FetchManifest": { // everybody gets at most what its own task has
		map[standing]codes.Code{isEarlier: codes.PermissionDenied, isFinished: codes.PermissionDenied},
		func(m *linkMatrix, v visitor) error {
			own, _ := ParseName(v.as)
			from := &linkpb.Origin{TaskId: own.TaskID, Name: worldCheckpoint}
			chunks, err := pulled(m.api.FetchManifest(v.context(m.t.Context()), &linkpb.FetchManifestRequest{Origin: from}))
			if err == nil && (len(chunks) != 1 || string(chunks[0].GetData()) != own.TaskID) || err != nil && len(chunks) > 0 {
				m.t.Errorf("%s was given %v", v.name, chunks)
			}
			return err
		},
	},
	"PutOutput": { // everybody writes at most into its own folder
		map[standing]codes.Code{isFinished: codes.PermissionDenied},
		func(m *linkMatrix, v visitor) error {
			want := m.outputs()
			err := m.put(v, "by "+v.name)
			if own, _ := ParseName(v.as); err == nil && v.is != isEarlier { // what an earlier attempt brings is dropped
				want[own.OutputPrefix()+"f"] = "by " + v.name
			}
			if got := m.outputs(); !maps.Equal(got, want) {
				m.t.Errorf("after a try by %s the outputs are %v, not %v", v.name, got, want)
			}
			return err
		},
	},
}

// words is the table of what a launcher may say after its hello, and how the hub shows that it was
// taken; nil where nothing is to be seen.
var words = map[protoreflect.Name]struct {
	message *linkpb.FromLauncher
	state   engine.State
	usage   bool
	ranks   bool
	probed  bool
	ack     bool
	refused codes.Code
}{
	"hello":   {message: helloOf(target), refused: codes.InvalidArgument}, // comes once
	"started": {message: said(&linkpb.FromLauncher_Started{Started: &linkpb.Started{Pid: 1}}), state: engine.StateRunning},
	"exited":  {message: said(&linkpb.FromLauncher_Exited{Exited: &linkpb.Exited{Reason: engine.ReasonSucceeded}}), state: engine.StateExited},
	"log":     {message: said(&linkpb.FromLauncher_Log{Log: &linkpb.LogData{Data: []byte("x\n")}}), ack: true},
	"usage":   {message: said(&linkpb.FromLauncher_Usage{Usage: &linkpb.Usage{RssBytes: 5}}), usage: true},
	"done":    {message: said(&linkpb.FromLauncher_Done{Done: &linkpb.Done{}}), state: engine.StateDone},
	"probed":  {message: said(&linkpb.FromLauncher_Probed{Probed: &linkpb.Probed{Id: "x"}}), probed: true},
	"ranks":   {message: said(&linkpb.FromLauncher_Ranks{Ranks: &linkpb.Ranks{Generation: 1}}), ranks: true},
	"beat":    {message: said(&linkpb.FromLauncher_Beat{Beat: &linkpb.Beat{}})},
}

// orders is the table of what a hub may say: how it is brought to say it to the target alone.
var orderWords = map[protoreflect.Name]func(m *linkMatrix, a *attached) error{
	"welcome": nil, // the first answer, looked at when they attach
	"go":      func(m *linkMatrix, _ *attached) error { return m.hub.Go(target, 2, first) },
	"watermark": func(m *linkMatrix, _ *attached) error {
		return m.hub.Watermark(target, message.Watermark{Generation: 1, Step: 1})
	},
	"probe": func(m *linkMatrix, _ *attached) error {
		return m.hub.probe(target, message.Probe{ID: "x", Generation: 1, Kind: "kill"})
	},
	"stop":    func(m *linkMatrix, _ *attached) error { return m.hub.Stop(target, time.Second) },
	"log_ack": func(_ *linkMatrix, a *attached) error { return a.say(words["log"].message) },
	"beat":    nil, // said to all who are attached
	"call": func(m *linkMatrix, _ *attached) error {
		ctx, hangUp := context.WithCancel(m.t.Context())
		m.t.Cleanup(hangUp)
		go func() { _, _, _ = m.hub.Talk(ctx, target) }() // nobody answers
		return nil
	},
}

// TestMatrix tries every call and every message of the protocol's description as everybody. What
// the description has and the tables don't, fails.
func TestMatrix(t *testing.T) {
	m := newLinkMatrix(t)
	service := linkpb.File_link_proto.Services().ByName("Link")
	methods := service.Methods()
	if methods.Len() != len(calls) {
		t.Errorf("%d calls in the description, %d in the table", methods.Len(), len(calls))
	}
	for i := range methods.Len() {
		method := methods.Get(i)
		row, ok := calls[method.Name()]
		if !ok || !method.IsStreamingClient() && !method.IsStreamingServer() {
			t.Errorf("%s has no row in the table, or is no stream, which alone are authenticated", method.Name())
			continue
		}
		for _, v := range m.visitors() {
			want := row.allow[v.is]
			if v.is == isStranger {
				want = codes.Unauthenticated
			}
			m.got(string(method.Name()), v, row.try(m, v), want)
		}
	}
	said := m.tryWords(t)
	heard := m.tryOrders(t)
	t.Logf("link matrix: %d calls, %d messages of launchers, %d of servers, %d kinds of callers, %d cases", methods.Len(), said, heard, len(m.visitors()), m.cases)
}

func fields(message protoreflect.Name) []protoreflect.Name {
	list := linkpb.File_link_proto.Messages().ByName(message).Oneofs().ByName("message").Fields()
	var out []protoreflect.Name
	for i := range list.Len() {
		out = append(out, list.Get(i).Name())
	}
	return out
}

// tryWords says every message of a launcher as everybody: first without a hello, then after its
// own. It must change what is known of the caller, and of nobody else.
func (m *linkMatrix) tryWords(t *testing.T) int {
	list := fields("FromLauncher")
	for _, field := range list {
		if _, ok := words[field]; !ok {
			t.Errorf("%s has no row in the table of what a launcher may say", field)
			continue
		}
		for _, v := range m.visitors() {
			m.tryWord(field, v)
		}
	}
	if len(list) != len(words) {
		t.Errorf("%d messages in the description, %d in the table", len(list), len(words))
	}
	return len(list)
}

func (m *linkMatrix) tryWord(field protoreflect.Name, v visitor) {
	m.t.Helper()
	row := words[field]
	first, after := codes.InvalidArgument, row.refused
	switch {
	case v.is == isStranger:
		first, after = codes.Unauthenticated, codes.Unauthenticated
	case v.is == isFinished:
		first, after = codes.PermissionDenied, codes.PermissionDenied
	case field == "hello" && v.is == isTarget:
		first = codes.OK // its own
	}
	before := m.knowledge()
	a, err := m.attach(v, row.message)
	if m.got(string(field)+" as first word", v, err, first) {
		a.end()
	}
	a, err = m.attach(v, helloOf(v.as), row.message)
	switch {
	case err != nil:
	case v.is == isStranger || v.is == isFinished: // let in: that is the failure
		a.end()
	case after != codes.OK:
		for range a.heard {
		}
		err = a.why
		a.end()
	default:
		m.taken(field, v, a)
		a.end()
	}
	m.got(string(field), v, err, after)
	// Nobody else is touched, and a stranger touches nobody. Then the hub forgets, for the next one.
	known := m.knowledge()
	for name, was := range before {
		if is := known[name]; is != was && (v.as != name || v.is == isStranger || v.is == isFinished) {
			m.t.Errorf("%s by %s changed %s from %s to %s", field, v.name, name, was, is)
		}
	}
	if len(known) != len(before) && (v.is == isStranger || v.is == isFinished) {
		m.t.Errorf("%s by %s made somebody known: %v", field, v.name, known)
	}
	if v.is != isStranger && v.is != isFinished {
		m.forget(v.as)
	}
}

// taken waits until the hub shows that it took the message in.
func (m *linkMatrix) taken(field protoreflect.Name, v visitor, a *attached) {
	m.t.Helper()
	row := words[field]
	eventually(m.t, fmt.Sprintf("%s by %s taken in", field, v.name), func() bool {
		state, _ := m.hub.State(v.as)
		usage, used := m.hub.Usage(v.as)
		ranks, _ := m.hub.Ranks(v.as)
		return (row.state == "" || state == row.state) && (!row.usage || used && usage.RSS == 5) && (!row.ranks || ranks.Generation == 1) &&
			(!row.probed || strings.HasSuffix(m.knowledge()[v.as], " x"))
	})
	if row.ack {
		if ack := a.next(false); ack.GetLogAck().GetReceived() != 2 {
			m.t.Errorf("%s by %s: %v", field, v.name, ack)
		}
	}
}

// knowledge is what the hub knows of everybody.
func (m *linkMatrix) knowledge() map[engine.Name]string {
	m.hub.roll.mu.Lock()
	defer m.hub.roll.mu.Unlock()
	out := map[engine.Name]string{}
	for name, k := range m.hub.roll.words.by {
		out[name] = fmt.Sprint(k.state, k.usage.RSS, k.ranks.GetGeneration(), " ", k.probed.GetId())
	}
	return out
}

func (m *linkMatrix) forget(name engine.Name) {
	m.hub.roll.mu.Lock()
	defer m.hub.roll.mu.Unlock()
	delete(m.hub.roll.words.by, name)
}

// tryOrders attaches everybody who may, brings the hub to say each of its messages to the target,
// and looks who heard it: after it every other one is told to stop, and that must be the first
// thing it hears. Strangers hear nothing, not even a welcome: tryWords saw them refused.
func (m *linkMatrix) tryOrders(t *testing.T) int {
	list := fields("ToLauncher")
	for _, field := range list {
		say, ok := orderWords[field]
		if !ok {
			t.Errorf("%s has no row in the table of what a hub may say", field)
			continue
		}
		streams := map[string]*attached{}
		for _, v := range m.visitors() {
			a, err := m.attach(v, helloOf(v.as))
			switch {
			case err != nil:
				m.cases++ // no stream, so nothing is heard
			case v.is == isStranger || v.is == isFinished:
				t.Errorf("%s was welcomed", v.name)
				a.end()
			default:
				streams[v.name] = a
			}
		}
		if say != nil {
			if err := say(m, streams["the replica"]); err != nil {
				t.Fatal(err)
			}
		}
		for _, v := range m.visitors() {
			if a := streams[v.name]; a != nil {
				m.cases++
				m.hears(field, v, a)
			}
		}
		for _, v := range m.visitors() {
			if a := streams[v.name]; a != nil {
				a.end()
				m.forget(v.as)
			}
		}
	}
	if len(list) != len(orderWords) {
		t.Errorf("%d messages in the description, %d in the table", len(list), len(orderWords))
	}
	return len(list)
}

func (m *linkMatrix) hears(field protoreflect.Name, v visitor, a *attached) {
	m.t.Helper()
	if field == "welcome" {
		if a.welcome.GetEpoch() != 7 {
			m.t.Errorf("%s was welcomed with %v", v.name, a.welcome)
		}
		return
	}
	if v.is != isTarget && field != "beat" {
		if err := m.hub.Stop(v.as, 5*time.Second); err != nil {
			m.t.Fatal(err)
		}
	}
	got := a.next(field == "beat")
	kind := protoreflect.Name("nothing")
	if got != nil {
		kind = got.ProtoReflect().WhichOneof(got.ProtoReflect().Descriptor().Oneofs().ByName("message")).Name()
	}
	want := field
	if v.is != isTarget && field != "beat" {
		want = "stop"
	}
	if kind != want || want == "stop" && v.is != isTarget && got.GetStop().GetGraceNanos() != int64(5*time.Second) {
		m.t.Errorf("when %s was said to the target, %s heard %s (%v), not %s", field, v.name, kind, got, want)
	}
}
