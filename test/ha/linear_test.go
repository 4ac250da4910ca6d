package ha

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/test/harness"
)

// verb is what a client does to one small object.
type verb int

const (
	doRead verb = iota
	doCreate
	doUpdate
	doDelete
)

// input is a call. Every value is written once, so a value stands for the revision it was written at.
type input struct {
	key     string
	verb    verb
	value   string // create, update
	expects string // update: the value whose revision it carries
}

// output is an answer. unknown: none came, the call may have been carried out or not, now or later.
type output struct {
	unknown bool
	ok      bool
	value   string // read; "" is absent
}

// model is one object: absent (""), or with the value last written. A call without an answer returns
// at the end of time, so that one which was never carried out can be put behind everything.
var model = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		by := map[string][]porcupine.Operation{}
		for _, op := range history {
			k := op.Input.(input).key
			by[k] = append(by[k], op)
		}
		var out [][]porcupine.Operation
		for _, list := range by {
			out = append(out, list)
		}
		return out
	},
	Init: func() any { return "" },
	Step: func(state, in, out any) (bool, any) {
		s, i, o := state.(string), in.(input), out.(output)
		fits, next := false, s
		switch i.verb {
		case doRead:
			return o.unknown || o.value == s, s
		case doCreate:
			fits, next = s == "", i.value
		case doUpdate:
			fits, next = s == i.expects && s != "", i.value
		case doDelete:
			fits, next = s != "", ""
		}
		if !fits {
			next = s
		}
		return o.unknown || o.ok == fits, next
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
}

// recorder collects the operations of all clients.
type recorder struct {
	begin time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
	// revisions of values: both ways one to one.
	revision map[string]int64
	odd      []string
	unknown  int
	reads    int // of the other promise: never behind what the client saw
}

func (r *recorder) now() int64 { return int64(time.Since(r.begin)) }

func (r *recorder) add(client int, in input, call int64, out output) {
	back := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if out.unknown {
		if in.verb == doRead {
			return
		}
		r.unknown++
		back = int64(1<<62) + int64(len(r.ops))
	}
	r.ops = append(r.ops, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: back})
}

// saw holds that a value has one revision, whoever tells it.
func (r *recorder) saw(value string, revision int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if was, ok := r.revision[value]; ok && was != revision {
		r.odd = append(r.odd, fmt.Sprintf("%s is at revision %d and at %d", value, was, revision))
	}
	r.revision[value] = revision
}

// answer is what a server said; status 0: nothing.
type answer struct {
	status   int
	reason   string
	value    string
	revision int64
}

// nothingDone says that the call surely had no effect.
func (a answer) nothingDone() bool {
	return a.status == http.StatusTooManyRequests || a.reason == "CutOff" || a.reason == "Starting"
}

// objectClient does calls on queues whose display name is the value.
type objectClient struct {
	w    *world
	http *http.Client
}

func newObjectClient(w *world) *objectClient {
	return &objectClient{w, &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 2}}}
}

func (c *objectClient) call(ctx context.Context, at int, method, path string, fresh bool, body any) answer {
	var r io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return answer{}
		}
		r = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.w.nodes[at].Addr+"/api/v1/queues"+path, r)
	if err != nil {
		return answer{}
	}
	req.Header.Set("Authorization", "Bearer "+c.w.token)
	req.Header.Set("Content-Type", "application/json")
	if fresh {
		req.Header.Set("Fermi-Read", "fresh")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}
	}
	defer resp.Body.Close()
	var got struct {
		Reason string    `json:"reason"`
		Data   api.Queue `json:"data"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&got); err != nil {
		return answer{}
	}
	a := answer{status: resp.StatusCode, reason: got.Reason, value: got.Data.Meta.DisplayName, revision: got.Data.Meta.Revision}
	if n, err := strconv.ParseInt(resp.Header.Get("Fermi-Revision"), 10, 64); err == nil {
		a.revision = n
	}
	return a
}

func queueOf(name, value string, revision int64) *api.Queue {
	return &api.Queue{Meta: api.Meta{Name: name, DisplayName: value, Revision: revision}}
}

// linear is one client of the first promise: fresh reads and writes are linearizable.
func (r *recorder) linear(ctx context.Context, w *world, id int, seed uint64, key func() string) {
	rnd := rand.New(rand.NewPCG(seed, uint64(id)))
	c := newObjectClient(w)
	defer c.http.CloseIdleConnections()
	seen := map[string]answer{} // the newest this client read of each key
	for n := 0; ctx.Err() == nil; n++ {
		k := key()
		in := input{key: k, verb: []verb{doRead, doRead, doCreate, doUpdate, doUpdate, doDelete}[rnd.IntN(6)]}
		known := seen[k]
		if in.verb == doUpdate && known.value == "" {
			in.verb = doRead
		}
		if in.verb == doCreate || in.verb == doUpdate {
			in.value = fmt.Sprintf("c%d-%d", id, n)
		}
		at := rnd.IntN(len(w.nodes))
		begin := r.now()
		var a answer
		switch in.verb {
		case doRead:
			a = c.call(ctx, at, http.MethodGet, "/"+k, true, nil)
		case doCreate:
			a = c.call(ctx, at, http.MethodPost, "", true, queueOf(k, in.value, 0))
		case doUpdate:
			in.expects = known.value
			a = c.call(ctx, at, http.MethodPut, "/"+k, true, queueOf(k, in.value, known.revision))
		case doDelete:
			a = c.call(ctx, at, http.MethodDelete, "/"+k, true, nil)
		}
		switch good := a.status == http.StatusOK; {
		case a.nothingDone():
		case good && in.verb == doRead:
			r.saw(a.value, a.revision)
			seen[k] = a
			r.add(id, in, begin, output{ok: true, value: a.value})
		case good:
			if in.verb != doDelete {
				r.saw(in.value, a.revision)
				seen[k] = answer{value: in.value, revision: a.revision}
			}
			r.add(id, in, begin, output{ok: true})
		case a.status == http.StatusNotFound && in.verb == doRead:
			delete(seen, k)
			r.add(id, in, begin, output{ok: true})
		case a.status == http.StatusConflict && in.verb == doDelete:
			// Changed while it was being deleted: nothing was done, and nothing is said about the state.
		case a.status == http.StatusNotFound, a.status == http.StatusConflict:
			delete(seen, k)
			r.add(id, in, begin, output{ok: false})
		case a.status != 0 && a.status < 500:
			r.mu.Lock()
			r.odd = append(r.odd, fmt.Sprintf("%+v was answered %+v", in, a))
			r.mu.Unlock()
		default:
			r.add(id, in, begin, output{unknown: true})
		}
		pause(ctx, 25*time.Millisecond)
	}
}

// session is one client of the second promise: a read that carries the newest revision this client
// saw is never behind it, on whatever server.
func (r *recorder) session(ctx context.Context, w *world, id int, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, uint64(id)))
	c := newObjectClient(w)
	defer c.http.CloseIdleConnections()
	key := fmt.Sprintf("own-%d", id)
	var newest answer
	for n := 0; ctx.Err() == nil; n++ {
		at := rnd.IntN(len(w.nodes))
		switch {
		case newest.revision == 0:
			if a := c.call(ctx, at, http.MethodPost, "", false, queueOf(key, "v0", 0)); a.status == http.StatusOK {
				newest = answer{value: "v0", revision: a.revision}
			} else if a.status == http.StatusConflict { // an earlier try got through
				if a = c.call(ctx, at, http.MethodGet, "/"+key, true, nil); a.status == http.StatusOK {
					newest = a
				}
			}
		case n%3 == 0:
			value := fmt.Sprintf("v%d", n)
			a := c.call(ctx, at, http.MethodPut, "/"+key, false, queueOf(key, value, newest.revision))
			if a.status == http.StatusOK {
				newest = answer{value: value, revision: a.revision}
			} else if a.status == http.StatusConflict { // a try without an answer got through
				if a = c.call(ctx, at, http.MethodGet, "/"+key, true, nil); a.status == http.StatusOK {
					newest = a
				}
			}
		default:
			a := c.call(ctx, at, http.MethodGet, fmt.Sprintf("/%s?minRevision=%d", key, newest.revision), false, nil)
			if a.status == 0 || a.status >= 500 || a.status == http.StatusTooManyRequests {
				break
			}
			r.mu.Lock()
			r.reads++
			if a.status != http.StatusOK || a.revision < newest.revision || a.revision == newest.revision && a.value != newest.value {
				r.odd = append(r.odd, fmt.Sprintf("server %d answered %+v to a client that had seen %+v", at, a, newest))
			}
			r.mu.Unlock()
			if a.status == http.StatusOK {
				newest = a
			}
		}
		pause(ctx, 30*time.Millisecond)
	}
}

func (r *recorder) check(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, odd := range r.odd {
		t.Error(odd)
	}
	kinds := map[verb]int{}
	for _, op := range r.ops {
		kinds[op.Input.(input).verb]++
	}
	if kinds[doRead] == 0 || kinds[doCreate] == 0 || kinds[doUpdate] == 0 || kinds[doDelete] == 0 || r.reads == 0 {
		t.Errorf("%v operations, %d session reads: the test proves nothing", kinds, r.reads)
	}
	result := porcupine.CheckOperationsTimeout(model, r.ops, harness.Patience)
	t.Logf("linearizability: %d operations (%d reads, %d creates, %d updates, %d deletes), %d without an answer: %s",
		len(r.ops), kinds[doRead], kinds[doCreate], kinds[doUpdate], kinds[doDelete], r.unknown, result)
	if result != porcupine.Ok {
		t.Errorf("the history is not linearizable: %s", result)
	}
	t.Logf("sessions: %d reads with a revision, none behind what its client had seen", r.reads)
}

// TestCheckerCanFail: histories that must be refused are, and those that must not are not.
func TestCheckerCanFail(t *testing.T) {
	const k = "a"
	op := func(client int, call, back int64, in input, out output) porcupine.Operation {
		in.key = k
		return porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: back}
	}
	create := op(0, 0, 10, input{verb: doCreate, value: "x"}, output{ok: true})
	never := int64(1) << 62
	for name, c := range map[string]struct {
		good bool
		ops  []porcupine.Operation
	}{
		"read what was written": {true, []porcupine.Operation{create, op(1, 11, 12, input{verb: doRead}, output{ok: true, value: "x"})}},
		"stale read":            {false, []porcupine.Operation{create, op(1, 11, 12, input{verb: doRead}, output{ok: true})}},
		"read during":           {true, []porcupine.Operation{create, op(1, 5, 6, input{verb: doRead}, output{ok: true})}},
		"back again": {false, []porcupine.Operation{
			create, op(1, 5, 6, input{verb: doRead}, output{ok: true, value: "x"}), op(1, 7, 8, input{verb: doRead}, output{ok: true}),
		}},
		"two winners": {false, []porcupine.Operation{
			create, op(1, 11, 20, input{verb: doUpdate, expects: "x", value: "y"}, output{ok: true}),
			op(2, 11, 20, input{verb: doUpdate, expects: "x", value: "z"}, output{ok: true}),
		}},
		"lost write": {false, []porcupine.Operation{
			create, op(1, 11, 12, input{verb: doUpdate, expects: "x", value: "y"}, output{ok: true}),
			op(2, 13, 14, input{verb: doRead}, output{ok: true, value: "x"}),
		}},
		"no answer, done":     {true, []porcupine.Operation{create, op(1, 11, never, input{verb: doDelete}, output{unknown: true}), op(2, 30, 31, input{verb: doRead}, output{ok: true})}},
		"no answer, not done": {true, []porcupine.Operation{create, op(1, 11, never, input{verb: doDelete}, output{unknown: true}), op(2, 30, 31, input{verb: doRead}, output{ok: true, value: "x"})}},
		"no answer, both": {false, []porcupine.Operation{
			create, op(1, 11, never, input{verb: doDelete}, output{unknown: true}),
			op(2, 30, 31, input{verb: doRead}, output{ok: true}), op(2, 40, 41, input{verb: doRead}, output{ok: true, value: "x"}),
		}},
		"refused for nothing": {false, []porcupine.Operation{create, op(1, 11, 12, input{verb: doUpdate, expects: "x", value: "y"}, output{})}},
	} {
		if got := porcupine.CheckOperations(model, c.ops); got != c.good {
			t.Errorf("%s: %v", name, got)
		}
	}
}
