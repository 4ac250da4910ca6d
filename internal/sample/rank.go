package sample

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
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
}

// marks say which slots are free.
type marks struct {
	watermark int64   // newest step that every rank holds
	keep      int64   // a step that the launcher reads; 0: none
	pinned    []int64 // a copy of them is needed, or on its way
}

// heard is what a launcher may say; what this version does not know is skipped.
type heard struct {
	Welcome *struct {
		Restore *int64  `json:"restore"`
		Pin     []int64 `json:"pin"`
	} `json:"welcome"`
	Pin *struct {
		Steps []int64 `json:"steps"`
	} `json:"pin"`
	Watermark *struct {
		Step int64 `json:"step"`
		Keep int64 `json:"keep"`
	} `json:"watermark"`
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
	l.marks.pinned = first.Welcome.Pin
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
		}
		if w.Pin != nil {
			l.marks.pinned = w.Pin.Steps
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
