package server

import (
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/archive"
	"github.com/fermi-cluster/fermi/internal/server/audit"
	"github.com/fermi-cluster/fermi/internal/server/cluster"
	"github.com/fermi-cluster/fermi/internal/server/console"
	"github.com/fermi-cluster/fermi/internal/server/door"
	"github.com/fermi-cluster/fermi/internal/server/limit"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/report"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/serve"
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
	streams := stream.New(entrance, judge, cfg.Limits, counts.Streams, cfg.Clock, cfg.Contact, meters.streams)
	writer := objects.NewWriter(finder, cfg.IDs, cfg.Clock, cfg.Limits.Body)
	lister := objects.NewLister(finder, streams)
	tasks := tracker.New()

	sessions := door.NewSessions(entrance, cfg.IDs, cfg.Random)
	archives := archive.New(known, judge, cfg.Blob, cfg.Stored, streams, cfg.Limits.Archive)
	zones := cluster.NewZones(finder, cfg.Live, cfg.Clock)
	nodes := cluster.NewNodes(known, judge, cfg.Live, cfg.Clock)
	queues := cluster.NewQueues(finder, tasks, cfg.Live)
	events := report.NewEvents(finder)
	desk := train.NewDesk(finder, cfg.Clock)
	gate := train.NewGate(known, archives, train.NewOrigins(finder, cfg.Checkpoints, cfg.Imports != nil), tasks, cfg.Clock, train.GateConfig{
		Refuse: cfg.Refuse, SoleOwner: cfg.SoleOwner, Folders: cfg.Folders, Stored: cfg.Stored,
	})
	previews := train.NewPreviews(finder, writer, gate, cfg.Live, cfg.IDs, cfg.Limits.Body)

	left := &train.Leftovers{Logs: cfg.Logs, Blob: cfg.Blob, Saved: cfg.Checkpoints, Stored: cfg.Stored, Points: cfg.History}
	others := &work.Works{Rows: further, Gate: gate, Finder: finder, Left: left, Events: events, Live: cfg.Live, Clock: cfg.Clock}
	services := &serve.Services{
		Finder: finder, Gate: gate, Left: left, Archives: archives, Blob: cfg.Blob, Logs: cfg.Logs, Streams: streams, Events: events, Live: cfg.Live, IDs: cfg.IDs, Clock: cfg.Clock,
	}

	lines, _ := cfg.Live.(terminal.Lines)
	terminals := &terminal.Terminals{Finder: finder, Streams: streams, Auditor: auditor, Lines: lines}

	err := table.Add(append(slices.Concat(others.Hooks(), services.Hooks()),
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
		now: known.Now, stall: cfg.Limits.Stall, patience: cfg.Limits.Request, pages: console.New(cfg.Console),
	}
	system := &system{
		truth: known, streams: streams, auditor: auditor, clock: cfg.Clock, version: cfg.Version, ready: cfg.Ready, gatherer: cfg.Metrics,
		doc: func() ([]byte, error) { return face.doc() }, write: cfg.Backup, rotateKey: cfg.Rotate,
	}
	plain := objects.New(table, finder, lister, writer)
	face.build(cfg.Version, func(reg *rest.Schemas) []*rest.Route {
		routes := system.routes(reg)
		for _, row := range api.Kinds {
			routes = append(routes, plain.Routes(row, reg)...)
		}
		return slices.Concat(routes,
			archives.Routes(reg), others.Routes(reg, rules), services.Routes(reg, rules), terminals.Routes(rules),
			train.NewVerbs(desk, writer, events, cfg.Live).Routes(reg),
			train.NewStates(desk, gate, cfg.Imports, streams, auditor, cfg.Limits).Routes(reg),
			train.NewLogs(desk, cfg.Logs, tasks, cfg.Live, streams, auditor, cfg.Log, cfg.Limits.HandOver).Routes(reg),
			train.NewOutputs(desk, cfg.Blob, streams, auditor).Routes(reg),
			train.NewCurves(cfg.History, desk).Routes(reg),
			previews.Routes(reg),
			nodes.Routes(reg), zones.Routes(reg), queues.Routes(reg), cluster.NewDevices(known, cfg.Live).Routes(reg),
			sessions.Routes(reg),
			audit.NewReader(auditor, known, streams).Routes(reg, report.KindParam()),
			events.Routes(reg), report.NewUsage(finder, cfg.Clock).Routes(reg), report.NewFigures(known, judge, cfg.Clock).Routes(reg),
		)
	})
	return &Server{
		face: face, kinds: table, rules: rules, sessions: sessions, streams: streams, auditor: auditor, lister: lister, tasks: tasks, truth: known,
		limits: cfg.Limits, counts: counts, log: cfg.Log, clock: cfg.Clock,
	}, nil
}
