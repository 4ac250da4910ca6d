package watch

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/card"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/run"
)

// Cards are those of this machine; sensor.Sensor is one.
type Cards interface {
	// Cards are all that somebody knows of; nil: nobody answers.
	Cards(ctx context.Context) []api.Device
	// Read says what is known of them now, by index; it is bounded.
	Read(ctx context.Context, devices []api.Device) map[int]*card.DeviceReading
	// Follow tells the kernel's lines about them until ctx ends.
	Follow(ctx context.Context, take func(card.KernelLine)) error
}

// Config is what Run needs.
type Config struct {
	Node    string
	Cluster dynamic.Interface
	Cards   Cards
	Listen  net.Listener // for /metrics and /healthz
	Booted  time.Time    // when this machine was started
	Every   time.Duration
	Log     *slog.Logger
	Clock   clock.Clock
}

const callFor = 20 * time.Second

// watcher is one at work.
type watcher struct {
	cfg  Config
	wake chan struct{}

	mu       sync.Mutex
	book     *book
	readings map[int]*card.DeviceReading // the newest
}

// Run looks after the cards until ctx ends. What was said of the node stays.
func Run(ctx context.Context, cfg Config) error {
	w := &watcher{cfg: cfg, wake: make(chan struct{}, 1), book: newBook(cfg.Booted)}
	registry := prometheus.NewRegistry()
	if err := registry.Register(w); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	var g run.Group
	g.Add("metrics", func(ctx context.Context) error {
		stop := context.AfterFunc(ctx, func() { _ = server.Close() })
		defer stop()
		if err := server.Serve(cfg.Listen); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	g.Add("log", func(ctx context.Context) error {
		return cfg.Cards.Follow(ctx, func(l card.KernelLine) {
			w.mu.Lock()
			w.book.hear(l)
			w.mu.Unlock()
			select {
			case w.wake <- struct{}{}:
			default:
			}
		})
	})
	g.Add("cards", w.look)
	return g.Run(ctx)
}

// look judges again and again, and says what has changed.
func (w *watcher) look(ctx context.Context) error {
	var said *word // as the node says; nil: not known
	for {
		if said == nil || said.unwell { // it may have been mended
			if n, err := w.node(ctx); err == nil {
				w.mu.Lock()
				if said == nil {
					w.book.begin(n)
				} else {
					w.book.heed(n)
				}
				w.mu.Unlock()
				said = wordOf(n)
			} else if ctx.Err() == nil {
				w.cfg.Log.Warn("this node can't be read; trying again", "node", w.cfg.Node, "error", err)
			}
		}
		now := w.judge(ctx)
		if ctx.Err() == nil && said != nil && *said != now {
			if err := w.say(ctx, now, said.reason == "" || said.unwell != now.unwell); err == nil {
				w.cfg.Log.Info("the node's cards", "node", w.cfg.Node, "unwell", now.unwell, "reason", now.reason, "message", now.message)
				said = &now
			} else if ctx.Err() == nil {
				w.cfg.Log.Warn("what the cards are like can't be said; trying again", "node", w.cfg.Node, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.wake:
		case <-w.cfg.Clock.After(w.cfg.Every):
		}
	}
}

// judge reads the cards.
func (w *watcher) judge(ctx context.Context) word {
	met := w.cfg.Cards.Cards(ctx)
	w.mu.Lock()
	w.book.meet(met)
	cards := w.book.cards
	w.mu.Unlock()
	readings := w.cfg.Cards.Read(ctx, cards)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.readings = readings
	return w.book.judge(readings, w.cfg.Clock.Now().UTC())
}

var nodes = corev1.SchemeGroupVersion.WithResource("nodes")

func (w *watcher) node(ctx context.Context) (*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	raw, err := w.cfg.Cluster.Resource(nodes).Get(ctx, w.cfg.Node, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	n := &corev1.Node{}
	return n, runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, n)
}

// wordOf is what a node says now.
func wordOf(n *corev1.Node) *word {
	for _, c := range n.Status.Conditions {
		if c.Type == condition {
			return &word{c.Status == corev1.ConditionTrue, c.Reason, c.Message}
		}
	}
	return &word{}
}

// say writes the condition, and nothing else of the node.
func (w *watcher) say(ctx context.Context, now word, turned bool) error {
	status := corev1.ConditionFalse
	if now.unwell {
		status = corev1.ConditionTrue
	}
	at := metav1.NewTime(w.cfg.Clock.Now().UTC())
	c := map[string]any{"type": condition, "status": status, "reason": now.reason, "message": now.message, "lastHeartbeatTime": at}
	if turned {
		c["lastTransitionTime"] = at
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{c}}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	_, err = w.cfg.Cluster.Resource(nodes).Patch(ctx, w.cfg.Node, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: "fermi-agent"}, "status")
	return err
}
