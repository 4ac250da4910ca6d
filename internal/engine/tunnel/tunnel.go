package tunnel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/fermi-cluster/fermi/internal/clock"
)

// Interface is the one that encrypts.
const Interface = "wgfermi"

const (
	fileKey   = "tunnel.key"
	fileLog   = "tunnel.log"
	lookEvery = 5 * time.Second
)

// Config is what a Tunnel needs.
type Config struct {
	Dir     string     // of the agent; the key lies in it
	Exe     string     // the fermi binary
	Port    int        // UDP, on all machines' addresses
	Address netip.Addr // where others reach this machine
	Log     *slog.Logger
}

// Peer is a machine that is reached encrypted, or not at all.
type Peer struct {
	Key       string         // its public one; "": it has none, and is not reached
	At        netip.AddrPort // where its WireGuard listens
	Addresses []netip.Addr
}

// Wish is what is to be encrypted.
type Wish struct {
	Peers []Peer
	// Servers are where the link is served: over TLS already, and what tunnels are made by.
	Servers []netip.AddrPort
}

// Tunnel is this machine's. Safe for concurrent use; one Keep at a time.
type Tunnel struct {
	cfg  Config
	key  wgtypes.Key
	wake chan struct{}
	told map[wgtypes.Key]netip.AddrPort // where peers are, as WireGuard was told; Keep's

	mu      sync.Mutex
	wish    Wish
	asked   bool                // a wish was heard
	carried map[netip.Addr]bool // as last made
	problem error               // of the last making; nil: all is as wished
}

// Open reads this machine's key, or makes it. It starts nothing.
func Open(cfg Config) (*Tunnel, error) {
	key, err := ownKey(filepath.Join(cfg.Dir, fileKey))
	if err != nil {
		return nil, err
	}
	return &Tunnel{cfg: cfg, key: key, wake: make(chan struct{}, 1), told: map[wgtypes.Key]netip.AddrPort{}}, nil
}

func ownKey(path string) (wgtypes.Key, error) {
	raw, err := os.ReadFile(path)
	if err == nil {
		return wgtypes.ParseKey(string(raw))
	}
	if !errors.Is(err, os.ErrNotExist) {
		return wgtypes.Key{}, err
	}
	key, err := wgtypes.GeneratePrivateKey()
	if err != nil {
		return key, err
	}
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return key, err
	}
	_, err = f.WriteString(key.String())
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return key, err
	}
	return key, os.Rename(path+".new", path)
}

// Key is the public one.
func (t *Tunnel) Key() string { return t.key.PublicKey().String() }

// Want says what is to be encrypted from now on.
func (t *Tunnel) Want(w Wish) {
	t.mu.Lock()
	same := t.asked && reflect.DeepEqual(w, t.wish)
	t.wish, t.asked = w, true
	t.mu.Unlock()
	if same {
		return
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Carries says that what goes to an address is encrypted now.
func (t *Tunnel) Carries(to netip.Addr) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.carried[to]
}

// Problem is why not all is as wished; nil: it is.
func (t *Tunnel) Problem() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.problem
}

// Keep makes what is wished, again and again, until ctx ends. What was made stays: work that goes on needs it. changed is called when Problem does.
func (t *Tunnel) Keep(ctx context.Context, changed func()) error {
	for {
		t.mu.Lock()
		wish, asked := t.wish, t.asked
		t.mu.Unlock()
		if asked { // what an agent before us made stays until a server was heard
			carried, err := t.make(ctx, wish)
			t.mu.Lock()
			was := t.problem
			t.carried, t.problem = carried, err
			t.mu.Unlock()
			if fmt.Sprint(was) != fmt.Sprint(err) && ctx.Err() == nil {
				if err != nil {
					t.cfg.Log.Warn("the way to other zones is not encrypted, and closed; trying again", "error", err)
				}
				changed()
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.wake:
		case <-clock.Real.After(lookEvery):
		}
	}
}

// make has the kernel do what is wished. What can't be encrypted is closed first.
func (t *Tunnel) make(ctx context.Context, w Wish) (map[netip.Addr]bool, error) {
	if len(w.Peers) == 0 {
		return nil, errors.Join(route(nil, nil, 0, netip.Addr{}), rules(w, t.cfg.Port), gate(w, t.cfg.Port), removeDevice())
	}
	closed := map[netip.Addr]bool{}
	open := map[netip.Addr]bool{}
	for _, p := range w.Peers {
		for _, a := range p.Addresses {
			closed[a] = true
			if p.Key != "" {
				open[a] = true
			}
		}
	}
	if err := errors.Join(bar(closed), rules(w, t.cfg.Port), gate(w, t.cfg.Port)); err != nil {
		return nil, err
	}
	index, err := t.device(ctx)
	if err == nil {
		err = t.configure(w.Peers)
	}
	if err != nil {
		return nil, errors.Join(err, route(closed, nil, 0, netip.Addr{}))
	}
	if err := route(closed, open, index, t.cfg.Address); err != nil {
		return nil, err
	}
	return open, nil
}
