package keeper

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/cores"
	"github.com/fermi-cluster/fermi/internal/launch/accept"
	"github.com/fermi-cluster/fermi/internal/launch/bell"
	"github.com/fermi-cluster/fermi/internal/launch/shm"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/seal"
)

// A peer's memory. What the ranks of one launcher saved is also in the memory of another on another node,
// so that the loss of a node loses no state. The leader says which step (link.Orders.Watermark: keep) and
// whose memory; launchers hand each other slots straight over TCP, with TLS by a key that only they have. A
// launcher keeps what it was handed in a folder that no rank can reach, and gives it back to whoever is
// that rank next. The words: one byte for what is asked, the rank and the step; one byte for the answer.
const (
	askPut, askGet byte = 'P', 'G'
	askLength           = 1 + 4 + 8

	peerOK, peerNotWanted, peerNoRoom, peerNotHere, peerHasIt byte = 0, 1, 2, 3, 4

	peerSilence = 30 * time.Second // of one side, after which the other hangs up
	peerGuests  = 16               // connections at a time
	lowlyCores  = 4
)

// peerUse keeps this use of a key apart from others.
const peerUse = "fermi peer memory v1"

// shelf is what others handed us.
type shelf struct {
	folder  *os.File
	limit   int64 // bytes that may be in it
	used    int64 // bytes that are, or are on their way
	arrived int   // names what is on its way
	copies  map[shm.State]int64
}

// peers is one launcher's part in it. Nil: there is none.
type peers struct {
	log      *slog.Logger
	listener net.Listener
	ranks    int                 // of this launcher
	told     func(c []link.Copy) // what is held for others; not called with mu held
	wake     chan struct{}       // for send

	mu     sync.Mutex
	key    string
	tls    *tls.Config
	g      link.Generation // that was begun last
	memory shm.Slots       // of our own ranks
	shelf
	wish int64              // the step to hand to g.Peer; 0: none
	cut  context.CancelFunc // ends the sending that is under way
}

func openPeers(ranks int, log *slog.Logger, told func([]link.Copy)) (*peers, error) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		return nil, fmt.Errorf("listen for peers: %w", err)
	}
	cores.Have(max(cores.Own(), lowlyCores)) // a lowered thread may sit on one for long
	return &peers{log: log, listener: l, ranks: ranks, told: told, wake: make(chan struct{}, 1), shelf: shelf{copies: map[shm.State]int64{}}}, nil
}

func (p *peers) port() int { return p.listener.Addr().(*net.TCPAddr).Port }

// settle is told once where the memory is: that of our own ranks, and the folder, ours alone, for what others hand us. limit 0:
// half of what is free there.
func (p *peers) settle(memory shm.Slots, path string, limit int64) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	if limit <= 0 {
		var fs unix.Statfs_t
		if err := unix.Fstatfs(int(folder.Fd()), &fs); err != nil {
			return err
		}
		limit = int64(fs.Bavail) * fs.Bsize / 2
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.memory, p.folder, p.limit = memory, folder, limit
	return nil
}

// meet takes the key of an order, which comes before its generation begins.
func (p *peers) meet(g link.Generation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if g.PeerKey == "" || g.PeerKey == p.key {
		return
	}
	cfg, err := seal.PairTLS([]byte(g.PeerKey), peerUse)
	if err != nil {
		p.log.Error("no key for peers", "error", err)
		return
	}
	p.key, p.tls = g.PeerKey, cfg
}

// begin is a new generation: what is newer than where it begins is of a run that was not.
func (p *peers) begin(g link.Generation) {
	p.mu.Lock()
	if p.cut != nil {
		p.cut()
	}
	p.g, p.wish = g, 0
	p.drop(func(s shm.State) bool { return s.Step > g.Restore || p.own(s.Rank) })
	list := p.held()
	p.mu.Unlock()
	p.told(list)
}

// own says that the rank is ours, mu held.
func (p *peers) own(rank int) bool { return rank >= p.g.FirstRank && rank < p.g.FirstRank+p.ranks }

// keep is what the leader wishes to be safe, of the running generation: the newest step is handed over, what
// is older and not among them need not be kept for anybody.
func (p *peers) keep(generation int64, steps []int64) {
	p.mu.Lock()
	if generation != p.g.Number || len(steps) == 0 {
		p.mu.Unlock()
		return
	}
	newest := steps[len(steps)-1]
	p.drop(func(s shm.State) bool { return s.Step < newest && !slices.Contains(steps, s.Step) })
	if newest > p.wish && newest > p.g.Restore {
		if p.wish = newest; p.cut != nil {
			p.cut()
		}
		bell.Ring(p.wake)
	}
	list := p.held()
	p.mu.Unlock()
	p.told(list)
}

// drop forgets states, mu held.
func (p *peers) drop(is func(shm.State) bool) {
	for s, size := range p.copies {
		if is(s) {
			delete(p.copies, s)
			p.used -= size
			_ = os.Remove(p.at(s))
		}
	}
}

// at is where a state is kept, mu held or folder known.
func (p *peers) at(s shm.State) string { return p.within(fmt.Sprintf("%d-%d", s.Rank, s.Step)) }

func (p *peers) within(name string) string {
	return "/proc/self/fd/" + strconv.Itoa(int(p.folder.Fd())) + "/" + name
}

// held is what is kept for others, as stretches of ranks, mu held.
func (p *peers) held() (list []link.Copy) {
	states := slices.SortedFunc(maps.Keys(p.copies), func(a, b shm.State) int {
		if a.Step != b.Step {
			return int(min(max(a.Step-b.Step, -1), 1))
		}
		return a.Rank - b.Rank
	})
	for _, s := range states {
		if n := len(list) - 1; n >= 0 && list[n].Steps[0] == s.Step && list[n].First+list[n].Ranks == s.Rank {
			list[n].Ranks++
			continue
		}
		list = append(list, link.Copy{First: s.Rank, Ranks: 1, Steps: []int64{s.Step}})
	}
	return list[:min(len(list), link.MaxCopies-1)]
}

// serve answers other launchers until ctx ends, and returns when all connections are closed.
func (p *peers) serve(ctx context.Context) {
	defer context.AfterFunc(ctx, func() { p.listener.Close() })()
	accept.All(ctx, p.listener, peerGuests, p.log, func(conn net.Conn) {
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		if err := p.answer(ctx, conn); err != nil && ctx.Err() == nil {
			p.log.Warn("a peer was not served", "error", err)
		}
	})
}

// answer serves one connection: one state, one way.
func (p *peers) answer(ctx context.Context, conn net.Conn) error {
	p.mu.Lock()
	cfg := p.tls
	p.mu.Unlock()
	if cfg == nil {
		return errors.New("it came before its key")
	}
	secure := tls.Server(&steady{conn}, cfg)
	if err := secure.HandshakeContext(ctx); err != nil {
		return err
	}
	var ask [askLength]byte
	if _, err := io.ReadFull(secure, ask[:]); err != nil {
		return err
	}
	s := shm.State{Rank: int(binary.BigEndian.Uint32(ask[1:])), Step: int64(binary.BigEndian.Uint64(ask[5:]))}
	switch ask[0] {
	case askPut:
		return p.take(secure, s)
	case askGet:
		return p.give(secure, s)
	}
	return errors.New("it asked for nothing that is known")
}

// take keeps a state for another launcher. It works when nobody else does: training goes first.
func (p *peers) take(conn io.ReadWriter, s shm.State) error {
	lowly()
	p.mu.Lock()
	wanted, has := p.folder != nil && p.g.Number > 0 && !p.own(s.Rank) && s.Rank < p.g.World, p.copies[s] != 0
	p.arrived++
	path, g := "", p.g
	if p.folder != nil {
		path = p.within("new-" + strconv.Itoa(p.arrived))
	}
	p.mu.Unlock()
	switch {
	case has:
		return said(conn, peerHasIt)
	case !wanted:
		return said(conn, peerNotWanted)
	}
	if err := said(conn, peerOK); err != nil {
		return err
	}
	var size int64
	h, err := ckpt.Receive(conn, path, func(h ckpt.Header) error {
		if int(h.Rank) != s.Rank || int64(h.Step) != s.Step || int64(h.Generation) != g.Number || int(h.World) != g.World {
			return errors.New("the state is another than was said")
		}
		if err := p.reserve(h.Size()); err != nil {
			return err
		}
		size = h.Size()
		return nil
	})
	if err == nil {
		err = p.admit(s, h, path)
	}
	if err != nil {
		_ = os.Remove(path)
		p.reserved(-size)
		answer := peerNotWanted
		if errors.Is(err, errNoRoom) {
			answer = peerNoRoom
		}
		return errors.Join(err, said(conn, answer))
	}
	p.mu.Lock()
	list := p.held()
	p.mu.Unlock()
	p.told(list)
	return said(conn, peerOK)
}

var errNoRoom = errors.New("there is no room for a peer's state")

// reserve counts bytes before they come.
func (p *peers) reserve(n int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used+n > p.limit {
		return fmt.Errorf("%w: %d bytes, %d of %d are used", errNoRoom, n, p.used, p.limit)
	}
	p.used += n
	return nil
}

func (p *peers) reserved(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used += n
}

// admit makes what arrived whole one of the copies, unless another generation began meanwhile.
func (p *peers) admit(s shm.State, h ckpt.Header, path string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if int64(h.Generation) != p.g.Number || p.copies[s] != 0 {
		return errors.New("it came too late")
	}
	if err := os.Rename(path, p.at(s)); err != nil {
		return err
	}
	p.copies[s] = h.Size()
	return nil
}

// give hands out a state: one that was kept for others, or one of our own ranks.
func (p *peers) give(conn io.ReadWriter, s shm.State) error {
	slot, err := p.find(s)
	if err != nil {
		return errors.Join(err, said(conn, peerNotHere))
	}
	defer slot.Close()
	if err := said(conn, peerOK); err != nil {
		return err
	}
	return slot.Send(conn)
}

// find is where the state is, here.
func (p *peers) find(s shm.State) (*ckpt.Slot, error) {
	p.mu.Lock()
	kept, memory, g, path := p.copies[s] != 0, p.memory, p.g, ""
	if kept {
		path = p.at(s)
	}
	p.mu.Unlock()
	if kept {
		return ckpt.OpenSlot(path)
	}
	return memory.Own(s.Rank-g.FirstRank, s, g.World)
}

// said writes one byte.
func said(w io.Writer, b byte) error {
	_, err := w.Write([]byte{b})
	return err
}

// lowly makes the goroutine's thread yield to everybody; both end together.
func lowly() {
	runtime.LockOSThread()
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 19)
}

// steady gives up on a side that says nothing.
type steady struct{ net.Conn }

func (s *steady) Read(b []byte) (int, error) {
	_ = s.SetReadDeadline(time.Now().Add(peerSilence))
	return s.Conn.Read(b)
}

func (s *steady) Write(b []byte) (int, error) {
	_ = s.SetWriteDeadline(time.Now().Add(peerSilence))
	return s.Conn.Write(b)
}
