package process

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermi-cluster/fermi/internal/blob/logbook"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/launch/spool"
)

func readSpool(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for raw := range strings.Lines(string(data)) {
		l, err := logbook.ParseLine([]byte(strings.TrimSuffix(raw, "\n")))
		if err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		text := string(l.Text)
		if l.Partial {
			text += "…"
		}
		lines = append(lines, text)
	}
	return lines
}

// TestPump feeds the same bytes cut in every way; the lines must be the same.
func TestPump(t *testing.T) {
	long := strings.Repeat("z", logbook.MaxText)
	body := "a\n\nbc\n" + long + "\n" + long + "y\n" + long + long + "tail"
	want := []string{"a", "", "bc", long, long + "…", "y", long + "…", long + "…", "tail"}
	for _, cut := range []int{1, 3, 1000, logbook.MaxText, logbook.MaxText + 1, len(body)} {
		path := filepath.Join(t.TempDir(), "log")
		s, err := spool.Open(path, clock.Real, quiet)
		if err != nil {
			t.Fatal(err)
		}
		p := &pump{stream: 'O', spool: s, tail: &tail{}}
		for rest := []byte(body); len(rest) > 0; {
			n := min(cut, len(rest))
			p.feed(rest[:n])
			rest = rest[n:]
		}
		p.end()
		s.Close()
		s.F.Close()
		if d := cmp.Diff(want, readSpool(t, path)); d != "" {
			t.Errorf("cut at %d: %s", cut, d)
		}
	}
}

// TestPumpShowsAnUnfinishedLine and then its end.
func TestPumpShowsAnUnfinishedLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	s, err := spool.Open(path, clock.Real, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer s.F.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &pump{stream: 'E', r: r, spool: s, tail: &tail{}, ended: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(p.run)
	fmt.Fprint(w, "50%")
	eventually(t, "the part", func() bool { n, _ := s.Size(); return n > 0 })
	fmt.Fprint(w, " 100%\n")
	w.Close()
	wg.Wait()
	if d := cmp.Diff([]string{"50%…", " 100%"}, readSpool(t, path)); d != "" {
		t.Error(d)
	}
}

// TestPumpProgressBar: of a line that is drawn over, the newest state counts; a state that replaces what was written
// begins with a carriage return.
func TestPumpProgressBar(t *testing.T) {
	long := strings.Repeat("z", logbook.MaxText)
	for name, c := range map[string]struct{ body, want []string }{
		"one state":          {[]string{"\r 10%\r 20%\r100%\n", "next\n"}, []string{"100%", "next"}},
		"written between":    {[]string{"\r 10%\r 20%", "flush", "\r 30%\r 40%", "flush", "\r100%\n", "next\n"}, []string{" 20%…", "\r 40%…", "\r100%", "next"}},
		"return at the end":  {[]string{"10%\r20%\r", "flush", "30%\r", "flush", "\n", "next\n"}, []string{"20%…", "\r30%…", "", "next"}},
		"goes on":            {[]string{"\r 10%", "flush", " of 7", "flush", "\r 20%\n"}, []string{" 10%…", " of 7…", "\r 20%"}},
		"line ends of DOS":   {[]string{"a\r\nb\r", "\nc\r\n"}, []string{"a", "b", "c"}},
		"long state":         {[]string{"\r1", "flush", "\r" + long + "\n", "next\n"}, []string{"1…", "\r" + long[1:] + "…", "z", "next"}},
		"never ended":        {[]string{"\r1\r2"}, []string{"2"}},
		"never ended, shown": {[]string{"\r1", "flush", "\r2"}, []string{"1…", "\r2"}},
		"empty states":       {[]string{"\r\r\n", "\r", "\n"}, []string{"", ""}},
	} {
		for _, cut := range []int{1, 2, 1 << 20} {
			path := filepath.Join(t.TempDir(), "log")
			s, err := spool.Open(path, clock.Real, quiet)
			if err != nil {
				t.Fatal(err)
			}
			steps := &lastState{}
			p := &pump{stream: 'E', spool: s, tail: &tail{}, steps: steps}
			for _, b := range c.body {
				if b == "flush" {
					p.flush()
					continue
				}
				for part := range slices.Chunk([]byte(b), cut) {
					p.feed(part)
				}
			}
			p.end()
			s.Close()
			s.F.Close()
			if d := cmp.Diff(c.want, readSpool(t, path)); d != "" {
				t.Errorf("%s, cut at %d: %s", name, cut, d)
			}
			if name == "never ended" && steps.last != "2" {
				t.Errorf("%s, cut at %d: who follows steps heard %q last", name, cut, steps.last)
			}
		}
	}
}

// lastState is the last that was drawn, ended or drawn over.
type lastState struct{ last string }

func (l *lastState) Feed(part, data []byte) []byte {
	part = append(part, data...)
	if end := strings.LastIndexAny(string(part), "\r\n"); end >= 0 {
		before := string(part[:end])
		l.last, part = before[strings.LastIndexAny(before, "\r\n")+1:], part[end+1:]
	}
	return part
}

// TestPumpShowsABarThatNeverPauses: what comes meanwhile does not put off what is to be shown.
func TestPumpShowsABarThatNeverPauses(t *testing.T) {
	s, err := spool.Open(filepath.Join(t.TempDir(), "log"), clock.Real, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer s.F.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &pump{stream: 'E', r: r, spool: s, tail: &tail{}, ended: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(p.run)
	i := 0
	eventually(t, "the bar", func() bool {
		i++
		fmt.Fprintf(w, "\r%d%%", i)
		n, _ := s.Size()
		return n > 0
	})
	w.Close()
	wg.Wait()
}

// TestPumpDoesNotWaitForAnEscapedWriter: someone else holds the pipe, and writes.
func TestPumpDoesNotWaitForAnEscapedWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	s, err := spool.Open(path, clock.Real, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer s.F.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	p := &pump{stream: 'O', r: r, spool: s, tail: &tail{}, ended: make(chan struct{})}
	proc := &Set{pumps: []*pump{p}}
	proc.done.Go(p.run)
	fmt.Fprint(w, "last words\nno end")
	proc.Drained()
	if d := cmp.Diff([]string{"last words", "no end"}, readSpool(t, path)); d != "" {
		t.Error(d)
	}
}

var quiet = slog.New(slog.DiscardHandler)

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}
