package server

import (
	"context"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	apiimage "github.com/fermi-cluster/fermi/api/v1/image"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	keep "github.com/fermi-cluster/fermi/internal/asset"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/archive"
	"github.com/fermi-cluster/fermi/internal/server/asset"
	"github.com/fermi-cluster/fermi/internal/server/audit"
	"github.com/fermi-cluster/fermi/internal/server/booking"
	"github.com/fermi-cluster/fermi/internal/server/cluster"
	"github.com/fermi-cluster/fermi/internal/server/console"
	"github.com/fermi-cluster/fermi/internal/server/door"
	environments "github.com/fermi-cluster/fermi/internal/server/environment"
	"github.com/fermi-cluster/fermi/internal/server/image"
	"github.com/fermi-cluster/fermi/internal/server/limit"
	"github.com/fermi-cluster/fermi/internal/server/logs"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/port"
	"github.com/fermi-cluster/fermi/internal/server/report"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/serve"
	"github.com/fermi-cluster/fermi/internal/server/sshdoor"
	"github.com/fermi-cluster/fermi/internal/server/stream"
	"github.com/fermi-cluster/fermi/internal/server/tenant"
	"github.com/fermi-cluster/fermi/internal/server/terminal"
	"github.com/fermi-cluster/fermi/internal/server/tracker"
	"github.com/fermi-cluster/fermi/internal/server/train"
	"github.com/fermi-cluster/fermi/internal/server/truth"
	"github.com/fermi-cluster/fermi/internal/server/work"
)

// further are the kinds of work beside training tasks.
var further []WorkRow

// Register adds a kind of work, before a server is made.
func Register(r WorkRow) { further = append(further, r) }

// repoOf is who keeps datasets and models: the one that the leader collects in, where there is one.
func repoOf(cfg Config) *keep.Repo {
	if has, ok := cfg.Live.(interface{ Assets() *keep.Repo }); ok {
		return has.Assets()
	}
	return keep.New(cfg.Blob, cfg.Clock, 0)
}

// assemble builds the rooms, each on those below it, and gives their hooks and routes to the tables.
func assemble(cfg Config) (*Server, error) {
	rules := access.NewRules()
	table := objects.NewKinds(rules)
	known := truth.New(cfg.Store, cfg.Contact != nil)
	judge := access.NewJudge(known, rules)
	finder := objects.NewFinder(known, judge, cfg.History, table)
	counts := limit.New(cfg.Limits, cfg.Clock)
	meters := newMeters(cfg.Register)
	auditor := audit.New(cfg.History, known, table.Hide, cfg.Log, cfg.Clock)
	entrance := door.New(known, rules, cfg.Limits, counts, cfg.Clock, cfg.Log)
	entrance.Replicas, _ = cfg.Live.(door.Replicas)
	streams := stream.New(entrance, judge, cfg.Limits, counts.Streams, cfg.Clock, cfg.Contact, meters.streams)
	writer := objects.NewWriter(finder, cfg.IDs, cfg.Clock, cfg.Limits.Body)
	lister := objects.NewLister(finder, streams)
	tasks := tracker.New()

	sessions := door.NewSessions(entrance, cfg.IDs, cfg.Random)
	var states *train.States // made below, of parts that need assets
	assets := asset.New(asset.Deps{Finder: finder, Saved: func(ctx context.Context, c *rest.Call, project, at string, wish asset.CheckpointWish) (*asset.SavedFiles, error) {
		found, err := states.FilesOf(ctx, c, project, at, wish.Task, wish.Step)
		if err != nil {
			return nil, err
		}
		return &asset.SavedFiles{Task: found.Task, Step: found.Step, Files: found.Files, Open: found.Open, Close: found.Close}, nil
	}, Repo: repoOf(cfg), Blob: cfg.Blob, Log: cfg.Log, Stored: cfg.Stored, Streams: streams, Auditor: auditor, IDs: cfg.IDs, Clock: cfg.Clock,
		Folders: cfg.Folders, SoleOwner: cfg.SoleOwner})
	archives := archive.New(known, judge, cfg.Blob, cfg.Stored, streams, cfg.Limits.Archive)
	zones := cluster.NewZones(finder, cfg.Live, cfg.Clock)
	nodes := cluster.NewNodes(known, judge, cfg.Live, cfg.Clock)
	joins := &cluster.Joins{Truth: known, Judge: judge, Door: entrance, Live: cfg.Live, Clock: cfg.Clock, IDs: cfg.IDs, Random: cfg.Random}
	queues := cluster.NewQueues(finder, tasks, cfg.Live)
	events := report.NewEvents(finder)
	desk := train.NewDesk(finder, cfg.Clock)
	catalogue := image.New(known, cfg.Live)
	gate := train.NewGate(known, archives, train.NewOrigins(finder, cfg.Checkpoints, cfg.Imports != nil), tasks, cfg.Clock, train.GateConfig{
		Refuse: cfg.Refuse, SoleOwner: cfg.SoleOwner, Folders: cfg.Folders, Stored: cfg.Stored, Versions: assets.Called, Images: catalogue.Settle,
	})
	states = train.NewStates(desk, gate, cfg.Imports, streams, auditor, cfg.Limits)
	previews := train.NewPreviews(finder, writer, gate, cfg.Live, cfg.IDs, cfg.Limits.Body)

	left := &train.Leftovers{Logs: cfg.Logs, Blob: cfg.Blob, Saved: cfg.Checkpoints, Stored: cfg.Stored, Points: cfg.History}
	others := &work.Works{Rows: further, Gate: gate, Finder: finder, Left: left, Events: events, Live: cfg.Live, Clock: cfg.Clock}
	envs := environments.New(finder, cfg.Live, cfg.Clock)
	others.Admission = map[api.Kind]func(context.Context, *access.Caller, api.Work, api.Work) error{devenv.Kind: envs.Admit, apiimage.JobKind: catalogue.AdmitJob}
	services := &serve.Services{
		Finder: finder, Gate: gate, Left: left, Archives: archives, Blob: cfg.Blob, Events: events, Live: cfg.Live, IDs: cfg.IDs, Clock: cfg.Clock,
	}

	printed := &logs.Logs{
		Finder: finder, Book: cfg.Logs, Tasks: tasks, Live: cfg.Live, Streams: streams, Auditor: auditor, Log: cfg.Log, Clock: cfg.Clock, HandOver: cfg.Limits.HandOver,
		Parts: map[api.Kind]func(context.Context, api.Object) ([]logs.Part, error){serving.Kind: services.Prints},
	}
	lines, _ := cfg.Live.(terminal.Lines)
	running, _ := cfg.Live.(report.Running)
	terminals := &terminal.Terminals{Finder: finder, Streams: streams, Auditor: auditor, Lines: lines, SoleOwner: cfg.SoleOwner}
	shells := &sshdoor.Door{Rooms: terminals, Rules: rules, Auditor: auditor, Limits: cfg.Limits, Counts: counts, Clock: cfg.Clock, Log: cfg.Log}
	ports := &port.Ports{Rooms: terminals, Door: entrance, Box: cfg.Box, Limits: cfg.Limits, Counts: counts, Clock: cfg.Clock}
	ports.Init()
	keys := &tenant.Keys{Truth: known, Door: entrance, Clock: cfg.Clock}

	err := table.Add(append(slices.Concat(others.Hooks(), services.Hooks(), assets.Hooks(), catalogue.Hooks(finder), (&booking.Bookings{Truth: known, Clock: cfg.Clock}).Hooks()),
		train.TaskHooks(gate, previews, desk, left),
		cluster.PlacementHooks(),
		zones.Hooks(),
		nodes.Hooks(),
		queues.Hooks(),
		tenant.NewProjects(known, cfg.Stored).Hooks(),
		tenant.NewUsers(known).Hooks(),
		tenant.NewTokens(known, entrance, cfg.Clock, cfg.Random).Hooks(),
		tenant.NewSecrets(known, cfg.Box).Hooks(),
	)...)
	if err == nil {
		err = table.Complete()
	}
	if err != nil {
		return nil, err
	}
	if cfg.Register != nil {
		_ = cfg.Register.Register(report.NewTrainingMeters(cfg.Store)) // as newMeters does
	}
	face := &face{
		door: entrance, auditor: auditor, meters: meters, log: cfg.Log, clock: cfg.Clock, hosts: door.LowerAll(cfg.Hosts), contact: cfg.Contact,
		now: known.Now, stall: cfg.Limits.Stall, patience: cfg.Limits.Request, pages: console.New(cfg.Console), tenants: tenants{ports: ports},
	}
	system := &system{
		truth: known, streams: streams, auditor: auditor, clock: cfg.Clock, version: cfg.Version, ready: cfg.Ready, gatherer: cfg.Metrics,
		doc: func() ([]byte, error) { return face.doc() }, write: cfg.Backup, rotateKey: cfg.Rotate, assets: assets,
	}
	plain := objects.New(table, finder, lister, writer)
	face.build(cfg.Version, func(reg *rest.Schemas) []*rest.Route {
		routes := system.routes(reg)
		for _, row := range api.Kinds {
			routes = append(routes, plain.Routes(row, reg)...)
		}
		return slices.Concat(routes,
			archives.Routes(reg), others.Routes(reg, rules), envs.Routes(reg, rules), services.Routes(reg, rules), assets.Routes(reg, rules), catalogue.Routes(reg, rules), terminals.Routes(rules), printed.Routes(reg, rules), ports.Routes(reg, rules),
			train.NewVerbs(desk, writer, events, cfg.Live).Routes(reg),
			states.Routes(reg),
			train.NewOutputs(desk, cfg.Blob, streams, auditor).Routes(reg),
			train.NewCurves(cfg.History, desk).Routes(reg),
			previews.Routes(reg),
			nodes.Routes(reg), joins.Routes(reg), zones.Routes(reg), queues.Routes(reg), cluster.NewDevices(known, cfg.Live).Routes(reg),
			sessions.Routes(reg), keys.Routes(reg),
			audit.NewReader(auditor, known, streams).Routes(reg, report.KindParam()),
			events.Routes(reg), report.NewUsage(finder, cfg.Clock, running).Routes(reg), report.NewFigures(known, judge, cfg.Clock).Routes(reg),
		)
	})
	return &Server{
		face: face, kinds: table, rules: rules, sessions: sessions, streams: streams, auditor: auditor, lister: lister, tasks: tasks, truth: known,
		limits: cfg.Limits, counts: counts, log: cfg.Log, clock: cfg.Clock, shells: shells, system: system,
	}, nil
}
