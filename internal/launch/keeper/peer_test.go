package keeper

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"hash/crc32"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/launch/shm"
	"github.com/fermi-cluster/fermi/internal/launch/steward"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/seal"
)

// slotBytes is a whole state as a rank writes it.
func slotBytes(rank, world int, generation, step int64, data []byte) []byte {
	var sums []byte
	for part := range slices.Chunk(data, 8<<20) {
		sums = binary.LittleEndian.AppendUint32(sums, crc32.ChecksumIEEE(part))
	}
	tree := []byte(`{"d":[]}`)
	h := []byte("FERMIL0\x01")
	for _, n := range []uint32{2, uint32(rank), uint32(world), 0} {
		h = binary.LittleEndian.AppendUint32(h, n)
	}
	for _, n := range []uint64{uint64(generation), uint64(step), uint64(len(data)), uint64(len(tree)), uint64(len(sums))} {
		h = binary.LittleEndian.AppendUint64(h, n)
	}
	h = binary.LittleEndian.AppendUint32(h, crc32.ChecksumIEEE(tree))
	h = binary.LittleEndian.AppendUint32(h, crc32.ChecksumIEEE(sums))
	h = binary.LittleEndian.AppendUint32(h, crc32.ChecksumIEEE(h))
	return slices.Concat(h, make([]byte, 4096-len(h)), data, tree, sums)
}

// side is one launcher's part in a test.
type side struct {
	t *testing.T
	*peers
	dir  string
	mu   sync.Mutex
	told []link.Copy
}

func newSide(t *testing.T, limit int64) *side {
	t.Helper()
	s := &side{t: t, dir: t.TempDir()}
	p, err := openPeers(1, slog.New(slog.DiscardHandler), func(c []link.Copy) {
		s.mu.Lock()
		s.told = c
		s.mu.Unlock()
	})
	if err != nil {
		t.Fatal(err)
	}
	s.peers = p
	if err := p.settle(slotsIn(s.dir), filepath.Join(s.dir, dirPeers), limit); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { p.serve(ctx) })
	wg.Go(func() { p.send(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait(); p.folder.Close() })
	return s
}

func (s *side) address() string { return "127.0.0.1:" + strconv.Itoa(s.port()) }

func (s *side) starts(g link.Generation) { s.meet(g); s.begin(g) }

// holds are the states that it told to keep for others.
func (s *side) holds() []link.Copy {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told
}

// saves puts a state of rank 0 into its memory.
func (s *side) saves(k int, generation, step int64, data []byte) {
	s.t.Helper()
	if err := os.WriteFile(slotPath(s.dir, 0, k), slotBytes(0, 2, generation, step, data), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// kept are the files in its memory for others.
func (s *side) kept() (names []string) {
	list, _ := os.ReadDir(filepath.Join(s.dir, dirPeers))
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// pair are two launchers of one rank each, in the first generation.
func pair(t *testing.T) (a, b *side) {
	a, b = newSide(t, 1<<30), newSide(t, 1<<30)
	a.starts(link.Generation{Number: 1, Membership: link.Membership{World: 2}, States: link.States{Peer: b.address(), PeerKey: "secret"}})
	b.starts(link.Generation{Number: 1, Membership: link.Membership{World: 2, FirstRank: 1}, States: link.States{PeerKey: "secret"}})
	return a, b
}

func one(step int64) []link.Copy { return []link.Copy{{First: 0, Ranks: 1, Steps: []int64{step}}} }

// TestPeerCopy: the newest kept step is in the peer's memory, older ones go when they need not stay, what
// is newer than where a generation begins goes with it; and the state comes back as it was.
func TestPeerCopy(t *testing.T) {
	a, b := pair(t)
	data := bytes.Repeat([]byte("state of rank 0 "), 1<<19) // 8 MiB: several frames
	a.saves(0, 1, 3, data)
	a.keep(1, []int64{3})
	eventually(t, "the copy", func() bool { return cmp.Equal(b.holds(), one(3)) })
	a.saves(1, 1, 5, data)
	a.keep(1, []int64{3, 5})
	b.keep(1, []int64{3, 5})
	eventually(t, "both", func() bool { return cmp.Equal(b.holds(), slices.Concat(one(3), one(5))) })
	b.keep(1, []int64{5})
	eventually(t, "the newer alone", func() bool { return cmp.Equal(b.holds(), one(5)) && cmp.Equal(b.kept(), []string{"0-5"}) })

	c := newSide(t, 1<<30) // takes a's place
	next := link.Generation{Number: 2, Membership: link.Membership{World: 2}, States: link.States{Restore: 5, PeerKey: "secret", Sources: []link.Source{{First: 0, Ranks: 1, Address: b.address()}}}}
	c.meet(next)
	l := &restorer{peers: c.peers, slots: func() shm.Slots { return slotsIn(c.dir) }, wanted: func(int64) bool { return true }, clock: clock.Real, log: c.log}
	if err := l.Obtain(t.Context(), next); err != nil || !l.peer {
		t.Fatal(err, l.peer)
	}
	if err := l.Obtain(t.Context(), next); err != nil || l.peer {
		t.Error("it was here, and came from a peer all the same", err)
	}
	slot, err := slotsIn(c.dir).Own(0, shm.State{Rank: 0, Step: 5}, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer slot.Close()
	var got, want bytes.Buffer
	mine, err := slotsIn(a.dir).Own(0, shm.State{Rank: 0, Step: 5}, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	if slot.Send(&got) != nil || mine.Send(&want) != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Error("another state came back")
	}
	b.begin(link.Generation{Number: 2, Membership: link.Membership{World: 2, FirstRank: 1}, States: link.States{Restore: 4}})
	if len(b.holds()) != 0 || len(b.kept()) != 0 || b.used != 0 {
		t.Errorf("%+v, %q and %d bytes of a run that was not", b.holds(), b.kept(), b.used)
	}
	next.Number = 3
	l.peers.meet(next)
	if err := os.Remove(slotPath(c.dir, 0, 0)); err != nil {
		t.Fatal(err)
	}
	if err := l.Obtain(t.Context(), next); err == nil {
		t.Error("a state came from nowhere")
	}
}

// TestPeerRefuses: a key that is another, a state of another generation, one's own rank, more than there is
// room for: nothing of them stays.
func TestPeerRefuses(t *testing.T) {
	_, b := pair(t)
	put := func(key string, s shm.State, raw []byte, cut int) error {
		t.Helper()
		c := newSide(t, 0)
		c.meet(link.Generation{States: link.States{PeerKey: key}})
		conn, err := c.ask(t.Context(), b.address(), askPut, s)
		if err != nil {
			return err
		}
		defer conn.Close()
		path := filepath.Join(t.TempDir(), "slot")
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		slot, err := ckpt.OpenSlot(path)
		if err != nil {
			t.Fatal(err)
		}
		defer slot.Close()
		var sent bytes.Buffer
		if err := slot.Send(&sent); err != nil {
			return err
		}
		if _, err := conn.Write(sent.Bytes()[:sent.Len()-cut]); err != nil {
			return err
		}
		if cut > 0 {
			return io.ErrUnexpectedEOF // it was killed
		}
		return heard(conn)
	}
	good := slotBytes(0, 2, 1, 3, make([]byte, 5<<20))
	for name, err := range map[string]error{
		"another key":        put("another", shm.State{Rank: 0, Step: 3}, good, 0),
		"another generation": put("secret", shm.State{Rank: 0, Step: 3}, slotBytes(0, 2, 2, 3, nil), 0),
		"another world":      put("secret", shm.State{Rank: 0, Step: 3}, slotBytes(0, 3, 1, 3, nil), 0),
		"another step":       put("secret", shm.State{Rank: 0, Step: 4}, good, 0),
		"its own rank":       put("secret", shm.State{Rank: 1, Step: 3}, slotBytes(1, 2, 1, 3, nil), 0),
		"a part":             put("secret", shm.State{Rank: 0, Step: 3}, good, 1<<20),
	} {
		if err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	clean := func() bool {
		b.peers.mu.Lock()
		defer b.peers.mu.Unlock()
		return len(b.kept()) == 0 && b.used == 0
	}
	eventually(t, "nothing is left", clean)
	b.peers.mu.Lock()
	b.limit = 1 << 20
	b.peers.mu.Unlock()
	if err := put("secret", shm.State{Rank: 0, Step: 3}, good, 0); err == nil {
		t.Error("more than there is room for was taken")
	}
	eventually(t, "nothing is left of it", clean)
	if err := put("secret", shm.State{Rank: 0, Step: 3}, slotBytes(0, 2, 1, 3, []byte("small")), 0); err != nil {
		t.Error(err)
	}
	if got := b.holds(); !cmp.Equal(got, one(3)) {
		t.Errorf("%+v", got)
	}
}

// TestPeerDamaged: a state that is damaged in memory is not handed on; the next one is.
func TestPeerDamaged(t *testing.T) {
	a, b := pair(t)
	raw := slotBytes(0, 2, 1, 3, make([]byte, 6<<20))
	raw[4096+5<<20] ^= 4
	if err := os.WriteFile(slotPath(a.dir, 0, 0), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	a.keep(1, []int64{3})
	a.saves(1, 1, 5, []byte("whole"))
	a.keep(1, []int64{5})
	eventually(t, "the next one", func() bool { return cmp.Equal(b.holds(), one(5)) })
	eventually(t, "nothing else is left", func() bool { return cmp.Equal(b.kept(), []string{"0-5"}) })
}

// TestPeerSlow: a peer that takes nothing holds up nobody, and is left for another.
func TestPeerSlow(t *testing.T) {
	a, b := pair(t)
	cfg, err := seal.PairTLS([]byte("secret"), peerUse)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	stuck := make(chan net.Conn, 16)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			secure := tls.Server(conn, cfg)
			if _, err := io.ReadFull(secure, make([]byte, askLength)); err == nil {
				_ = said(secure, peerOK) // and reads no more
				stuck <- conn
			}
		}
	}()
	g := link.Generation{Number: 1, Membership: link.Membership{World: 2}, States: link.States{Peer: l.Addr().String(), PeerKey: "secret"}}
	a.starts(g)
	a.saves(0, 1, 3, make([]byte, 64<<20)) // more than a connection takes unread
	a.keep(1, []int64{3})
	select {
	case conn := <-stuck:
		defer conn.Close()
	case <-time.After(60 * time.Second):
		t.Fatal("nobody came")
	}
	a.saves(1, 1, 5, []byte("next"))
	a.keep(1, []int64{5}) // returns, though the other is still waited for
	g.Peer = b.address()
	a.begin(g)
	a.keep(1, []int64{5})
	eventually(t, "the copy is elsewhere", func() bool { return cmp.Equal(b.holds(), one(5)) })
}

// dirPeers is where a test keeps what others handed a side.
const dirPeers = "peers"

// slotsIn are the slots in a folder of ours.
func slotsIn(dir string) shm.Slots { return shm.Slots{Folder: steward.New(nil).Memory(dir)} }

func slotPath(memory string, local, k int) string { return filepath.Join(memory, shm.Name(local, k)) }
