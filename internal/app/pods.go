package app

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/app/growth"
	"github.com/fermi-cluster/fermi/internal/app/handover"
	"github.com/fermi-cluster/fermi/internal/app/signing"
	"github.com/fermi-cluster/fermi/internal/blob/s3"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/conf"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/launch/depot"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/link/callhome"
	"github.com/fermi-cluster/fermi/internal/link/exchange"
	"github.com/fermi-cluster/fermi/internal/link/signature"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/sched"
)

// pods is what a server has to do with clusters.
type pods struct {
	cfg      Config
	clusters map[string]*kubeengine.Cluster // whose pods are replicas, by zone
	store    *store.Store
	hub      *link.Hub
	others   *company
	mint     func(engine.Name) string
	queues   handover.Desk   // to which some of them have gangs handed over
	calls    *callhome.Calls // of their processes to the API
}

func newPods(cfg Config, s *store.Store, hub *link.Hub, others *company, mint func(engine.Name) string) *pods {
	p := &pods{cfg: cfg, clusters: openClusters(cfg.Doors.Pods, cfg.Checkpoints), store: s, hub: hub, others: others, mint: mint, calls: callhome.New()}
	p.queues = handover.Desk{Store: s, Work: others.workByID, Clock: clock.Real, Log: cfg.Log.With("part", "handover")}
	p.queues.Open(p.clusters, cfg.Doors.Pods.Gangs)
	return p
}

// openClusters makes those that settings name, by zone; nothing is asked of them yet.
func openClusters(p conf.Pods, shared record.SharedTier) map[string]*kubeengine.Cluster {
	out := map[string]*kubeengine.Cluster{}
	for _, text := range p.Clusters {
		zone, file, namespace, _ := conf.ParseCluster(text)
		if file == conf.InCluster {
			file = kubeengine.InCluster
		}
		out[zone] = &kubeengine.Cluster{Zone: zone, Kubeconfig: file, Namespace: namespace, StorageClass: p.StorageClass, Shared: farTier(shared), Cache: cacheOf(p.Cache)}
	}
	return out
}

// clusterZones are the zones of clusters that no file declares.
func clusterZones(declared []api.Zone, p conf.Pods) (out []api.Zone) {
	for _, text := range p.Clusters {
		name, _, _, _ := conf.ParseCluster(text)
		if slices.ContainsFunc(declared, func(z api.Zone) bool { return z.Meta.Name == name }) {
			continue
		}
		z := api.Zone{Meta: api.Meta{Name: name}, Spec: api.ZoneSpec{Region: name, Engine: api.EngineKubernetes}}
		z.Default()
		out = append(out, z)
	}
	return out
}

// clusterEngine names the engine of a zone that is a cluster.
func clusterEngine(zone string) string { return api.EngineKubernetes + "/" + zone }

// engines makes those of a leadership, by name.
func (p *pods) engines(ctx context.Context, epoch store.Epoch, into map[string]engine.Adapter) error {
	if len(p.clusters) == 0 {
		return nil
	}
	instance, err := p.instance(ctx)
	if err != nil {
		return err
	}
	rows, err := p.rows()
	if err != nil {
		return err
	}
	for _, zone := range slices.Sorted(maps.Keys(p.clusters)) {
		e, err := kubeengine.New(kubeengine.Config{
			Cluster: p.clusters[zone], Dir: filepath.Join(engineDir(p.cfg), "clusters"), Instance: instance, Epoch: epoch.Revision,
			Image: p.cfg.Doors.Pods.Image, Account: p.cfg.Doors.Pods.Account, Resources: rows, RDMA: p.cfg.Doors.Pods.RDMA,
			Endpoints: p.targets, Heard: p.hub.State, Tell: p.hub.Stop, Last: func() []api.Node { return p.nodesOf(ctx, zone) },
			Version: p.cfg.Version, Log: p.cfg.Log.With("part", "engine"), Clock: clock.Real,
		})
		if err != nil {
			return err
		}
		into[clusterEngine(zone)] = e
	}
	return nil
}

// cacheOf is the folder of nodes that a setting names.
func cacheOf(text string) kubeengine.Cache {
	dir, size, _ := conf.ParseCache(text)
	most, _ := api.ParseBytes(size) // 0 where there is none
	return kubeengine.Cache{Dir: dir, Most: int64(most), Paths: func(digest string) (place, lock string) {
		v := depot.Version{Digest: digest}
		return depot.PlaceOf(v), depot.LockOf(v)
	}}
}

// rows are those of the table of extended resources that settings add.
func (p *pods) rows() (out []kubeengine.Resource, err error) {
	for _, text := range p.cfg.Doors.Pods.Devices {
		row, err := kubeengine.ParseResource(text)
		if err != nil {
			return nil, err
		}
		out = append(out, row)
	}
	return out, nil
}

// growth asks their autoscalers for nodes.
func (p *pods) growth(why func(string) (sched.Explanation, bool), events history.Events) (*growth.Growth, error) {
	rows, err := p.rows()
	if err != nil {
		return nil, err
	}
	g := &growth.Growth{Store: p.store, Why: why, Events: events, Clock: clock.Real, Log: p.cfg.Log.With("part", "growth")}
	g.Zones, g.Others = growth.Of(p.clusters, p.cfg.Doors.Pods.Grow, p.cfg.Doors.Pods.Image, rows)
	return g, nil
}

// instance is this Fermi among others: the id of the project that it was born with. Another server, or this one, may be about to make it.
func (p *pods) instance(ctx context.Context) (string, error) {
	for {
		o, err := p.store.Get(ctx, api.Key{Kind: api.KindProject, Name: defaultName}, 0)
		if err == nil {
			return o.GetMeta().ID, nil
		}
		if !fault.Is(err, fault.NotFound) {
			return "", err
		}
		select {
		case <-ctx.Done():
			return "", fault.From(ctx.Err())
		case <-clock.Real.After(50 * time.Millisecond):
		}
	}
}

// targets are where launchers that are not on this machine reach servers.
func (p *pods) targets() string {
	raw, err := os.ReadFile(remoteFile(p.cfg))
	if err != nil {
		return "" // no server has said where it is yet; the record is renewed when one has
	}
	return string(raw)
}

func (p *pods) nodesOf(ctx context.Context, zone string) (out []api.Node) {
	snap, err := p.store.List(ctx, api.KindNode, "", 0)
	if err != nil {
		return nil
	}
	snap.Ascend("", func(o api.Object) bool {
		if n := o.(*api.Node); n.Spec.Zone == zone {
			out = append(out, *n)
		}
		return true
	})
	return out
}

// trouble is why the cluster of a zone can't be used now.
func (p *pods) trouble(zone string) *fault.Error {
	if c := p.clusters[zone]; c != nil {
		return c.Trouble()
	}
	return nil
}

// farTier is the store for checkpoints as launchers reach it that may not have its credentials; zero: they can't.
func farTier(t record.SharedTier) record.SharedTier {
	rest, bucket := strings.CutPrefix(t.Place, "s3://")
	if !bucket {
		return record.SharedTier{}
	}
	return record.SharedTier{Place: t.Place, Endpoint: s3.EndpointOf(bucketOf(t, rest)), Region: t.Region, Rate: t.Rate, Signed: true}
}

// signing proves what they ask of it.
func (p *part) signing() (*signature.Desk, error) {
	book := signing.Book{Work: p.others.workByID, Current: p.others.current, GivenUp: p.given.Refuse, Clock: clock.Real}
	if rest, bucket := strings.CutPrefix(p.cfg.Checkpoints.Place, "s3://"); bucket {
		n, err := s3.NewNotary(bucketOf(p.cfg.Checkpoints, rest))
		if err != nil {
			return nil, err
		}
		book.Notary = n
	}
	return &signature.Desk{Sign: book.Sign}, nil
}

// desk is where pods show who they are.
func (p *pods) desk() *exchange.Desk {
	return &exchange.Desk{
		Vouch: func(ctx context.Context, zone string, name engine.Name, proof string) error {
			c := p.clusters[zone]
			if c == nil {
				return fault.New(fault.Forbidden, "NoSuchCluster", fault.T("This server has no cluster for zone %q.", "本服务没有可用区 %q 的集群。", zone))
			}
			return c.Vouch(ctx, string(name), proof)
		},
		Current: p.others.current, Mint: p.mint, Log: p.cfg.Log.With("part", "link"),
	}
}

// dropHome deletes the home of a name wherever it was kept; machines has it deleted on those that joined.
func (p *pods) dropHome(machines func(name string)) func(ctx context.Context, name, zone string) error {
	return func(ctx context.Context, name, zone string) error {
		machines(name) // one that is away hears of it when it is back
		if c := p.clusters[zone]; c != nil {
			if err := c.DropHome(ctx, name); err != nil {
				return err
			}
		}
		return homes(p.cfg).Drop(ctx, name)
	}
}
