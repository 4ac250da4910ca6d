package rankset

import (
	"bufio"
	"encoding/json"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

// rankSide is a rank's end of a connection to ranks.
type rankSide struct {
	t     *testing.T
	conn  net.Conn
	lines *bufio.Scanner
	ended chan error
}

func connect(t *testing.T, r *Set) *rankSide {
	ours, theirs := net.Pipe()
	s := &rankSide{t: t, conn: ours, lines: bufio.NewScanner(ours), ended: make(chan error, 1)}
	c := &rankConn{conn: theirs, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go func() { s.ended <- c.talk(r) }()
	t.Cleanup(func() { ours.Close() })
	return s
}

func (s *rankSide) say(line string) {
	s.t.Helper()
	if _, err := s.conn.Write([]byte(line + "\n")); err != nil {
		s.t.Fatal(err)
	}
}

func (s *rankSide) hear() string {
	s.t.Helper()
	_ = s.conn.SetReadDeadline(time.Now().Add(time.Minute))
	if !s.lines.Scan() {
		s.t.Fatal("nothing heard: ", s.lines.Err())
	}
	return s.lines.Text()
}

// TestRankWords: what ranks hold together is told, and the watermark comes back.
func TestRankWords(t *testing.T) {
	told := make(chan link.Ranks, 100)
	r := newSet(2, func(s link.Ranks) { told <- s })
	next := func(enough func(link.Ranks) bool) {
		t.Helper()
		for deadline := time.After(time.Minute); ; {
			select {
			case s := <-told:
				if enough(s) {
					return
				}
			case <-deadline:
				t.Fatal("never told")
			}
		}
	}
	r.Begin(link.Generation{Number: 4, Membership: link.Membership{FirstRank: 2, World: 6}, States: link.States{Restore: 9}})
	r.Started(4000)
	a, b := connect(t, r), connect(t, r)
	a.say(`{"hello":{"pid":1,"rank":2,"generation":4,"version":"x"}}`)
	b.say(`{"hello":{"pid":2,"rank":3,"generation":4,"version":"x"}}`)
	for _, s := range []*rankSide{a, b} {
		if got := s.hear(); got != `{"welcome":{"generation":4,"restore":9,"offers":true}}` {
			t.Error(got)
		}
		if got := s.hear(); got != `{"watermark":{"step":9}}` {
			t.Error(got)
		}
		s.say(`{"held":{"steps":[8,9,10]}}`) // 10 is of a run that was not
	}
	next(func(s link.Ranks) bool { return slices.Equal(s.Held, []int64{8, 9}) })
	a.say(`{"progress":{"step":10,"t":0.1,"metrics":{}}}`)
	b.say(`{"progress":{"step":10,"t":0.1,"metrics":{}}}`)
	next(func(s link.Ranks) bool { return s.Step == 10 && !s.SteppedAt.IsZero() })
	a.say(`{"saved":{"step":11,"bytes":5,"seconds":0.1}}`)
	b.say(`{"progress":{"step":11,"t":0.2,"metrics":{"loss":1}}}`)
	b.say(`{"saved":{"step":11,"bytes":5,"seconds":0.1}}`)
	next(func(s link.Ranks) bool { return slices.Equal(s.Held, []int64{8, 9, 11}) })
	a.say(`{"held":{"steps":[9]}}`) // an offer to give up 11
	a.say(`{"saved":{"step":12,"bytes":5,"seconds":0.1}}`)
	b.say(`{"saved":{"step":12,"bytes":5,"seconds":0.1}}`)
	next(func(s link.Ranks) bool { return slices.Equal(s.Held, []int64{8, 9, 12}) })
	r.Watermark(link.Watermark{Generation: 3, Step: 99}) // of an earlier generation
	r.Watermark(link.Watermark{Generation: 4, Step: 11})
	if got := a.hear(); got != `{"watermark":{"step":11}}` {
		t.Error(got)
	}
	r.Conns.Stop(1500*time.Millisecond, "stopped")
	for got := ""; !strings.Contains(got, "stop"); {
		got = b.hear()
		if strings.Contains(got, "stop") && got != `{"stop":{"grace":1.5,"reason":"stopped"}}` {
			t.Error(got)
		}
	}
	r.Failed(&link.RankExit{Rank: 2})
	if r.Watermark(link.Watermark{Generation: 4, Step: 12}); r.hold.mark != 11 {
		t.Error("the watermark rose after a failure")
	}
	r.Begin(link.Generation{Number: 5, Membership: link.Membership{FirstRank: 2, World: 6}, States: link.States{Restore: 9}})
	for _, s := range []*rankSide{a, b} {
		if err := <-s.ended; err != nil {
			t.Error("a rank of an ended generation:", err)
		}
	}
	r.Started(4001)
	next(func(s link.Ranks) bool { return s.Generation == 5 && slices.Equal(s.Held, []int64{8, 9}) })
	for name, line := range map[string]string{
		"another generation": `{"hello":{"pid":1,"rank":2,"generation":4,"version":"x"}}`,
		"another's rank":     `{"hello":{"pid":1,"rank":4,"generation":5,"version":"x"}}`,
		"no hello":           `{"bye":{"code":0}}`,
		"nonsense":           `hello`,
	} {
		s := connect(t, r)
		s.say(line)
		if err := <-s.ended; err == nil {
			t.Errorf("%s was let in", name)
		}
	}
}

// FuzzWord: whatever comes is refused, or is one word within bounds that can be taken.
func FuzzWord(f *testing.F) {
	f.Add([]byte(`{"hello":{"pid":1,"rank":0,"generation":1,"version":"1"}}`))
	f.Add([]byte(`{"held":{"steps":[3,1,2]}}`))
	f.Add([]byte(`{"progress":{"step":1,"t":0.5,"metrics":{"a":1e300}}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		w, err := word.Parse(line)
		if err != nil {
			return
		}
		r := newSet(1, func(link.Ranks) {})
		r.Begin(link.Generation{Number: 1, Membership: link.Membership{World: 2}, States: link.States{Restore: 1 << 62}})
		r.take(0, w)
		if held := r.hold.common(); len(held) > link.MaxHeld || !slices.IsSorted(held) {
			t.Fatal(held)
		}
		if _, err := json.Marshal(w); err != nil {
			t.Fatal(err)
		}
	})
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// newSet is a Set that says nothing.
func newSet(ranks int, tell func(link.Ranks)) *Set { return New(Config{Ranks: ranks, Tell: tell}) }

// take is the word of local rank i after its hello.
func (r *Set) take(i int, w word.Word) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hear(i, w)
}

// freezes is the leader's word that what is held is to stay.
func (r *Set) freezes(generation int64, asked, save bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.freeze(generation, asked, save)
}
