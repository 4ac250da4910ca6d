package sample

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"time"
)

// ring sums vectors over all ranks: each speaks to the next and hears the one before. The order of
// the sums depends on the world's size alone, so the same world gives the same bits.
type ring struct {
	place      Place
	next, prev net.Conn
	out, in    []byte
	waited     time.Duration // for the one before
}

// gatherFor is how long ranks wait for each other in the beginning.
const gatherFor = time.Minute

// card is how ranks introduce themselves; one JSON line.
type card struct {
	Rank       int    `json:"rank"`
	Generation int64  `json:"generation"`
	Address    string `json:"address,omitempty"` // where it listens; in an answer, where the next one does
}

const maxCard = 1024

func joinRing(ctx context.Context, p Place) (*ring, error) {
	if p.alone() {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, gatherFor)
	defer cancel()
	own, next, err := meet(ctx, p)
	if err != nil {
		return nil, err
	}
	defer own.Close()
	r := &ring{place: p}
	if r.next, err = (&net.Dialer{}).DialContext(ctx, "tcp", next); err == nil {
		err = say(r.next, card{Rank: p.Rank, Generation: p.Generation})
	}
	for err == nil && r.prev == nil {
		var c net.Conn
		if c, err = accept(ctx, own); err != nil {
			break
		}
		if hi, bad := hear(ctx, c); bad == nil && hi.Rank == (p.Rank+p.World-1)%p.World && hi.Generation == p.Generation {
			r.prev = c
		} else {
			c.Close() // of another generation, or nobody we know
		}
	}
	if err != nil {
		r.close()
		return nil, fmt.Errorf("join the ring: %w", err)
	}
	return r, nil
}

// meet brings every rank the address of the next, through rank 0.
func meet(ctx context.Context, p Place) (own net.Listener, next string, err error) {
	host, _, err := net.SplitHostPort(p.Master)
	if err != nil {
		return nil, "", err
	}
	bind := host
	if p.Rank != 0 {
		bind = "" // filled by the way to rank 0
		conn, err := dialPatiently(ctx, p.Master)
		if err != nil {
			return nil, "", err
		}
		defer conn.Close()
		if bind, _, err = net.SplitHostPort(conn.LocalAddr().String()); err != nil {
			return nil, "", err
		}
		if own, err = net.Listen("tcp", net.JoinHostPort(bind, "0")); err != nil {
			return nil, "", err
		}
		err = say(conn, card{p.Rank, p.Generation, own.Addr().String()})
		var answer card
		if err == nil {
			answer, err = hear(ctx, conn)
		}
		if err != nil {
			own.Close()
			return nil, "", fmt.Errorf("rank 0 does not answer: %w", err)
		}
		return own, answer.Address, nil
	}
	if own, err = net.Listen("tcp", net.JoinHostPort(bind, "0")); err != nil {
		return nil, "", err
	}
	if next, err = host0(ctx, p, own.Addr().String()); err != nil {
		own.Close()
	}
	return own, next, err
}

// host0 is rank 0's part: it hears all others, then tells each of the next.
func host0(ctx context.Context, p Place, own string) (next string, err error) {
	l, err := net.Listen("tcp", p.Master)
	if err != nil {
		return "", err
	}
	defer l.Close()
	addresses := make([]string, p.World)
	conns := make([]net.Conn, p.World)
	defer func() {
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
	}()
	addresses[0] = own
	for left := p.World - 1; left > 0; {
		c, err := accept(ctx, l)
		if err != nil {
			return "", fmt.Errorf("%d ranks did not come: %w", left, err)
		}
		hi, err := hear(ctx, c)
		if err != nil || hi.Generation != p.Generation || hi.Rank <= 0 || hi.Rank >= p.World || conns[hi.Rank] != nil {
			c.Close()
			continue
		}
		conns[hi.Rank], addresses[hi.Rank] = c, hi.Address
		left--
	}
	for rank := 1; rank < p.World; rank++ {
		if err := say(conns[rank], card{0, p.Generation, addresses[(rank+1)%p.World]}); err != nil {
			return "", err
		}
	}
	return addresses[1], nil
}

// dialPatiently tries until somebody listens: rank 0 may start after us.
func dialPatiently(ctx context.Context, address string) (net.Conn, error) {
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			return c, nil
		}
		wait(ctx, pause)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("rank 0 was not found at %s: %w", address, err)
		}
	}
}

func accept(ctx context.Context, l net.Listener) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	c, err := l.Accept()
	if ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	return c, err
}

func say(c net.Conn, hi card) error { return json.NewEncoder(c).Encode(hi) }

func hear(ctx context.Context, c net.Conn) (hi card, err error) {
	if end, ok := ctx.Deadline(); ok {
		_ = c.SetReadDeadline(end)
		defer c.SetReadDeadline(time.Time{}) //nolint:errcheck
	}
	// Byte by byte: what follows the line is not ours to swallow.
	var line []byte
	for one := make([]byte, 1); len(line) < maxCard; {
		if _, err := io.ReadFull(c, one); err != nil {
			return hi, err
		}
		if one[0] == '\n' {
			return hi, json.Unmarshal(line, &hi)
		}
		line = append(line, one[0])
	}
	return hi, errors.New("a card is too long")
}

// sum replaces v by the sum of all ranks' v: first every rank gets one part summed up, then the
// parts go round.
func (r *ring) sum(v []float64) error {
	if r == nil {
		return nil
	}
	n, me := r.place.World, r.place.Rank
	part := func(i int) []float64 {
		i = ((i % n) + n) % n
		return v[i*len(v)/n : (i+1)*len(v)/n]
	}
	for turn := range n - 1 {
		into := part(me - turn - 1)
		if err := r.exchange(part(me-turn), len(into)); err != nil {
			return err
		}
		for i := range into {
			into[i] += float(r.in, i)
		}
	}
	for turn := range n - 1 {
		into := part(me - turn)
		if err := r.exchange(part(me-turn+1), len(into)); err != nil {
			return err
		}
		for i := range into {
			into[i] = float(r.in, i)
		}
	}
	return nil
}

func float(b []byte, i int) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:])) }

// exchange sends values to the next and reads n from the one before, both at once, since everybody
// does the same.
func (r *ring) exchange(values []float64, n int) error {
	r.out = r.out[:0]
	for _, x := range values {
		r.out = binary.LittleEndian.AppendUint64(r.out, math.Float64bits(x))
	}
	sent := make(chan error, 1)
	go func() {
		_, err := r.next.Write(r.out)
		sent <- err
	}()
	if cap(r.in) < 8*n {
		r.in = make([]byte, 8*n)
	}
	r.in = r.in[:8*n]
	begin := time.Now()
	_, err := io.ReadFull(r.prev, r.in)
	r.waited += time.Since(begin)
	if err != nil {
		r.next.Close() // or the other half would wait for ever
	}
	return errors.Join(err, <-sent)
}

// took is how long this rank waited for others since it was last asked.
func (r *ring) took() (waited time.Duration) {
	if r != nil {
		waited, r.waited = r.waited, 0
	}
	return waited
}

func (r *ring) close() {
	if r == nil {
		return
	}
	for _, c := range []net.Conn{r.next, r.prev} {
		if c != nil {
			c.Close()
		}
	}
}
