package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/storage/wal"

	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	memberName   = "fermi"
	clusterToken = "fermi"
	// peerURL names the only member; nothing listens there and nobody dials it. A literal
	// address, because etcd resolves names at start.
	peerURL = "http://127.0.0.1:1"

	defaultQuota = 8 << 30
	// walSegment is preallocated twice at any time; etcd's own 64 MB would be most of the disk
	// use of a small installation.
	walSegment = 16 << 20
	// maxSocketPath is what fits into sockaddr_un with its terminator.
	maxSocketPath = 107
	socketName    = "etcd.sock"
)

// segmentOnce guards the one process-wide setting of etcd that we change.
var segmentOnce sync.Once

// Config says where the data is. Dir is etcd's own folder; the caller holds the lock of the data
// folder around it (see OpenDataDir).
type Config struct {
	Dir        string
	Log        *slog.Logger
	QuotaBytes int64 // 8 GiB when 0
	// UnsafeNoFsync loses acknowledged writes in a power cut: tests only.
	UnsafeNoFsync bool
}

// Server is a running etcd of one member.
type Server struct {
	etcd     *embed.Etcd
	client   *clientv3.Client
	endpoint string
	dir      *os.File // only set where the socket is reached through it
	death    *death
	errc     chan error
	closing  chan struct{}
	once     sync.Once
	watching sync.WaitGroup
}

// Start checks the folder, starts etcd and returns when it takes writes. On error nothing of it
// runs, except that a goroutine of etcd that met a fatal error stays blocked: the process is
// expected to end.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, folderFault(cfg.Dir, err)
	}
	if err := os.Chmod(cfg.Dir, 0o700); err != nil {
		return nil, folderFault(cfg.Dir, err)
	}
	if err := Check(cfg.Dir); err != nil {
		return nil, err
	}
	segmentOnce.Do(func() { wal.SegmentSizeBytes = walSegment })
	s := &Server{death: newDeath(), errc: make(chan error, 1), closing: make(chan struct{})}
	if err := s.start(ctx, cfg); err != nil {
		if s.dir != nil {
			s.dir.Close()
		}
		return nil, err
	}
	s.client = v3client.New(s.etcd.Server)
	s.client.Maintenance = maintenance{s.client.Maintenance, s.etcd.Server}
	s.watching.Go(s.watchDeath)
	return s, nil
}

// start runs etcd's own start in a goroutine: where it meets a fatal error it calls the logger's
// hook, which never returns, so that only a second goroutine can tell the story.
func (s *Server) start(ctx context.Context, cfg Config) error {
	ec, err := s.config(cfg)
	if err != nil {
		return err
	}
	type result struct {
		etcd *embed.Etcd
		err  error
	}
	started := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r = result{nil, fmt.Errorf("etcd panicked: %v", p)}
			}
			started <- r
		}()
		r.etcd, r.err = embed.StartEtcd(ec)
	}()
	select {
	case r := <-started:
		if r.err != nil {
			return startFault(cfg.Dir, r.err)
		}
		s.etcd = r.etcd
	case <-s.death.happened:
		return startFault(cfg.Dir, s.death.err())
	}
	select {
	case <-s.etcd.Server.ReadyNotify():
		return nil
	case <-s.death.happened:
		return startFault(cfg.Dir, s.death.err())
	case err := <-s.etcd.Err():
		s.etcd.Close()
		return startFault(cfg.Dir, err)
	case <-ctx.Done():
		s.etcd.Close()
		return fault.From(ctx.Err())
	}
}

func (s *Server) config(cfg Config) (*embed.Config, error) {
	socket, err := s.socket(cfg.Dir)
	if err != nil {
		return nil, err
	}
	s.endpoint = "unix://" + socket
	peer, err := url.Parse(peerURL)
	if err != nil {
		return nil, err
	}
	ec := embed.NewConfig()
	ec.Name, ec.Dir = memberName, cfg.Dir
	ec.ListenPeerUrls = nil
	ec.AdvertisePeerUrls = []url.URL{*peer}
	ec.InitialCluster = memberName + "=" + peerURL
	ec.InitialClusterToken = clusterToken
	client := url.URL{Scheme: "unix", Path: socket}
	ec.ListenClientUrls, ec.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	// One member elects itself; it waits for a random part of the election time first.
	ec.TickMs, ec.ElectionMs, ec.PreVote = 20, 100, false
	ec.AutoCompactionMode, ec.AutoCompactionRetention = embed.CompactorModePeriodic, "0"
	ec.QuotaBackendBytes = cfg.QuotaBytes
	if cfg.QuotaBytes == 0 {
		ec.QuotaBackendBytes = defaultQuota
	}
	// No follower will ever catch up: keep few entries in memory.
	ec.SnapshotCount, ec.SnapshotCatchUpEntries = 1000, 100
	ec.MaxWalFiles, ec.MaxSnapFiles = 2, 2
	ec.UnsafeNoFsync = cfg.UnsafeNoFsync
	ec.ZapLoggerBuilder = embed.NewZapLoggerBuilder(newZap(cfg.Log, s.death))
	return ec, nil
}

// socket is where to listen. A folder whose name is too long for a socket address is reached
// through its descriptor, which works for every process of the same user.
func (s *Server) socket(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", folderFault(dir, err)
	}
	if path := filepath.Join(abs, socketName); len(path) <= maxSocketPath {
		return path, nil
	}
	if s.dir, err = os.Open(abs); err != nil {
		return "", folderFault(dir, err)
	}
	return fmt.Sprintf("/proc/%d/fd/%d/%s", os.Getpid(), s.dir.Fd(), socketName), nil
}

// maintenance is etcd's in-process one, except for Defragment, which there expects a health
// server that only the socket's side has, and crashes.
type maintenance struct {
	clientv3.Maintenance
	server *etcdserver.EtcdServer
}

// Defragment ignores the endpoint: there is one member. It can't be interrupted.
func (m maintenance) Defragment(ctx context.Context, _ string) (*clientv3.DefragmentResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := m.server.Backend().Defrag(); err != nil {
		return nil, err
	}
	return &clientv3.DefragmentResponse{}, nil
}

// watchDeath turns every way etcd can die into one error.
func (s *Server) watchDeath() {
	var err error
	select {
	case <-s.death.happened:
		err = runFault(s.etcd.Config().Dir, s.death.err())
	case e, ok := <-s.etcd.Err():
		if !ok {
			return
		}
		err = runFault(s.etcd.Config().Dir, e)
	case <-s.etcd.Server.StopNotify():
		select {
		case <-s.closing:
			return
		default:
			err = runFault(s.etcd.Config().Dir, errors.New("etcd stopped by itself"))
		}
	case <-s.closing:
		return
	}
	s.errc <- err
}

// Client speaks to this etcd without a socket. It is closed with the server.
func (s *Server) Client() *clientv3.Client { return s.client }

// Endpoint is the unix socket target for other processes of the same user.
func (s *Server) Endpoint() string { return s.endpoint }

// Err delivers at most one error: etcd died and nothing can be written any more. The caller says
// so and ends the process; what was acknowledged is on disk.
func (s *Server) Err() <-chan error { return s.errc }

// Close ends etcd; what was acknowledged is on disk before and after. After etcd died there is
// nothing left that could be closed in order, and Close returns at once.
func (s *Server) Close() {
	s.once.Do(func() {
		close(s.closing)
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.client.Close()
			s.etcd.Close()
		}()
		select {
		case <-done:
		case <-s.death.happened:
			// It may have died during the close; a healthy rest gets a moment to finish.
			select {
			case <-done:
			case <-time.After(100 * time.Millisecond):
			}
		}
		s.watching.Wait()
		if s.dir != nil {
			s.dir.Close()
		}
	})
}
