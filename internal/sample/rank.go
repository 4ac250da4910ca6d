package sample

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// launcher is a rank's end of $FERMI_SOCKET, see internal/launch for the other. Nil: there is none,
// and everything is a no-op.
type launcher struct {
	conn    net.Conn
	restore int64
	done    sync.WaitGroup
	mu      sync.Mutex
	marks   marks
	lost    error

	mayOffer bool    // the launcher answers a rank that gives up steps
	skips    int     // saves in a row that found no slot
	offered  []int64 // steps given up, until the answer comes
	released bool    // it came
	apart    int64   // one save in so many is made, 0: all
	low      int64   // as long as this is the watermark
}

// marks say which slots are free.
type marks struct {
	watermark int64   // newest step that every rank holds
	keep      int64   // a step that the launcher reads; 0: none
	pinned    []int64 // a copy of them is needed, or on its way
	every     int64   // steps between two saves; 0: after each
}

// heard is what a launcher may say; what this version does not know is skipped.
type heard struct {
	Welcome *struct {
		Restore *int64  `json:"restore"`
		Pin     []int64 `json:"pin"`
		Offers  bool    `json:"offers"`
	} `json:"welcome"`
	Pin *struct {
		Steps []int64 `json:"steps"`
	} `json:"pin"`
	Watermark *struct {
		Step int64 `json:"step"`
		Keep int64 `json:"keep"`
		Held bool  `json:"held"`
	} `json:"watermark"`
	Interval *struct {
		Steps int64 `json:"steps"`
	} `json:"interval"`
}

const maxLine = 64 << 10

// greet says hello and what is held, and hears where to go on from.
func greet(ctx context.Context, p Place, held []int64) (*launcher, error) {
	if p.Socket == "" {
		return nil, nil
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", p.Socket)
	if err != nil {
		return nil, fmt.Errorf("the launcher is not there: %w", err)
	}
	l := &launcher{conn: conn}
	lines := bufio.NewScanner(conn)
	lines.Buffer(make([]byte, 4<<10), maxLine)
	l.say("hello", map[string]any{"pid": os.Getpid(), "rank": p.Rank, "generation": p.Generation, "version": "sample/1"})
	l.say("held", map[string]any{"steps": held})
	_ = conn.SetReadDeadline(time.Now().Add(gatherFor))
	var first heard
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &first) != nil || first.Welcome == nil {
		conn.Close()
		return nil, errors.Join(errors.New("the launcher does not welcome this rank"), lines.Err())
	}
	_ = conn.SetReadDeadline(time.Time{})
	l.marks.pinned, l.mayOffer = first.Welcome.Pin, first.Welcome.Offers
	if first.Welcome.Restore != nil {
		l.restore = *first.Welcome.Restore
	}
	l.done.Go(func() { l.listen(lines) })
	return l, nil
}

// listen hears watermarks until the launcher hangs up; training goes on without it.
func (l *launcher) listen(lines *bufio.Scanner) {
	for lines.Scan() {
		var w heard
		if json.Unmarshal(lines.Bytes(), &w) != nil {
			return
		}
		l.mu.Lock()
		if w.Watermark != nil {
			l.marks.watermark, l.marks.keep = max(l.marks.watermark, w.Watermark.Step), w.Watermark.Keep
			l.released = l.released || w.Watermark.Held
		}
		if w.Pin != nil {
			l.marks.pinned = w.Pin.Steps
		}
		if w.Interval != nil {
			l.marks.every = w.Interval.Steps
		}
		l.mu.Unlock()
	}
}

func (l *launcher) mark() marks {
	if l == nil {
		return marks{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.marks
}

// skipsMost is after how many saves in a row that found no slot steps are offered.
const skipsMost = 4

// After that one save in so many is made, the same ones by all ranks, until the watermark rises; twice as many each time it
// did not. The answers come at different moments, and the slots would be filled with different steps again.
const apartLeast, apartMost = 16, 1 << 14

// pauses says that the save after this step is left out.
func (l *launcher) pauses(step, mark int64) bool {
	if mark != l.low {
		l.apart = 0
	}
	return l.apart > 0 && step%l.apart != 0
}

// offer gives up the steps beyond the watermark if ranks seem to hold none in common, see docs/reference/rank-protocol.md. What
// was offered is emptied when the answer has come; what became the watermark meanwhile stays.
func (l *launcher) offer(kept *slots, saved bool) error {
	l.mu.Lock()
	mark, released := l.marks.watermark, l.released
	l.released = false
	l.mu.Unlock()
	if released {
		for _, s := range kept.list {
			if s.step > mark && slices.Contains(l.offered, s.step) {
				if err := s.wipe(); err != nil {
					return err
				}
			}
		}
		l.offered = nil
		if mark == l.low {
			l.apart = min(max(2*l.apart, apartLeast), apartMost)
		}
	}
	if l.skips++; saved {
		l.skips = 0
	}
	if l.skips < skipsMost || len(l.offered) > 0 || !l.mayOffer {
		return nil
	}
	stay := []int64{}
	for _, step := range kept.held() {
		if step <= mark {
			stay = append(stay, step)
		} else {
			l.offered = append(l.offered, step)
		}
	}
	if len(l.offered) > 0 {
		l.low = mark
		l.say("held", map[string]any{"steps": stay})
	}
	return nil
}

// say tells one thing. After the first failure nothing is told any more.
func (l *launcher) say(name string, body map[string]any) {
	if l == nil || l.lost != nil {
		return
	}
	line, err := json.Marshal(map[string]any{name: body})
	if err == nil {
		_, err = l.conn.Write(append(line, '\n'))
	}
	l.lost = err
}

// lostPeer answers a broken ring: the failure is another rank's, and this one is about to be ended by
// its launcher, which knows. Only if that does not happen it ends by itself.
func (l *launcher) lostPeer(ctx context.Context, p Place, cause error) error {
	if l != nil {
		l.say("left", map[string]any{"generation": p.Generation})
		wait(ctx, leftFor)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("another rank was lost: %w", cause)
}

// leftFor is how long a rank that lost another waits for its launcher to end it. Nobody does where a connection
// broke and no rank died.
const leftFor = 3 * time.Second

func (l *launcher) close() {
	if l == nil {
		return
	}
	l.say("bye", map[string]any{"code": 0})
	l.conn.Close()
	l.done.Wait()
}
