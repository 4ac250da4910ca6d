package server

import (
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// assemble builds the rooms, each on those below it, and gives their hooks and routes to the tables.
func assemble(cfg Config) (*Server, error) {
	rules := newRules()
	table := newKinds(rules)
	truth := newTruth(cfg.Store, cfg.Contact != nil)
	judge := newJudge(truth, rules)
	finder := newFinder(truth, judge, cfg.History, table)
	counts := newLimiters(cfg.Limits, cfg.Clock)
	meters := newMeters(cfg.Register)
	auditor := newAuditor(cfg.History, truth, table.hide, cfg.Log, cfg.Clock)
	door := newDoor(truth, rules, cfg.Limits, counts, cfg.Clock, cfg.Log)
	streams := newStreams(door, judge, cfg.Contact, meters.streams)
	writer := newWriter(finder, cfg.IDs, cfg.Clock, cfg.Limits.Body)
	lister := newLister(finder, streams)
	tasks := newTracker()

	sessions := newSessions(door, cfg.IDs, cfg.Random)
	archives := newArchives(truth, judge, cfg.Blob, cfg.Stored, streams, cfg.Limits.Archive)
	zones := newZones(finder, cfg.Live, cfg.Clock)
	nodes := newNodes(truth, judge, cfg.Live, cfg.Clock)
	queues := newQueues(finder, tasks, cfg.Live)
	events := newEvents(finder)
	desk := newDesk(finder, cfg.Clock)
	gate := newGate(truth, archives, newOrigins(finder, cfg.Checkpoints, cfg.Imports != nil), tasks, cfg.Clock, gateConfig{
		refuse: cfg.Refuse, soleOwner: cfg.SoleOwner, folders: cfg.Folders, stored: cfg.Stored,
	})
	previews := newPreviews(writer, gate, cfg.Live)

	left := &leftovers{logs: cfg.Logs, blob: cfg.Blob, saved: cfg.Checkpoints, stored: cfg.Stored}
	works := &works{gate: gate, desk: desk, left: left, events: events, live: cfg.Live}

	err := table.add(
		taskHooks(gate, previews, desk, left),
		placementHooks(),
		zones.hooks(),
		nodes.hooks(),
		queues.hooks(),
		newProjects(truth, cfg.Stored).hooks(),
		newUsers(truth).hooks(),
		newTokens(truth, door, cfg.Clock, cfg.Random).hooks(),
		newSecrets(truth, cfg.Box).hooks(),
	)
	for _, row := range further {
		if err == nil {
			err = table.add(works.hooks(row))
		}
	}
	if err == nil {
		err = table.complete()
	}
	if err != nil {
		return nil, err
	}
	if cfg.Register != nil {
		_ = cfg.Register.Register(newTrainingMeters(cfg.Store)) // as newMeters does
	}
	face := &face{
		door: door, auditor: auditor, meters: meters, log: cfg.Log, clock: cfg.Clock, hosts: lowerAll(cfg.Hosts), contact: cfg.Contact,
		now: truth.Now, stall: cfg.Limits.Stall, patience: cfg.Limits.Request, pages: newConsole(cfg.Console),
	}
	system := &system{
		truth: truth, streams: streams, auditor: auditor, clock: cfg.Clock, version: cfg.Version, ready: cfg.Ready, gatherer: cfg.Metrics,
		doc: func() ([]byte, error) { return face.doc() }, write: cfg.Backup, rotateKey: cfg.Rotate,
	}
	objects := newObjects(table, finder, lister, writer)
	face.build(cfg.Version, func(reg *schemas) []*route {
		routes := system.routes(reg)
		for _, row := range api.Kinds {
			routes = append(routes, objects.routes(row, reg)...)
		}
		for _, row := range further {
			routes = append(routes, works.routes(reg, rules, row.Kind)...)
		}
		return slices.Concat(routes,
			archives.routes(reg),
			newVerbs(desk, writer, events, cfg.Live).routes(reg),
			newStates(desk, gate, cfg.Imports, streams, auditor, cfg.Limits).routes(reg),
			newLogs(desk, cfg.Logs, tasks, cfg.Live, streams, auditor, cfg.Log, cfg.Limits.HandOver).routes(reg),
			newOutputs(desk, cfg.Blob, streams, auditor).routes(reg),
			previews.routes(reg),
			nodes.routes(reg), zones.routes(reg), queues.routes(reg), newDevices(truth, cfg.Live).routes(reg),
			sessions.routes(reg),
			newAuditReader(auditor, truth, streams).routes(reg, kindParam()),
			events.routes(reg), newUsage(finder, cfg.Clock).routes(reg), newFigures(truth, judge, cfg.Clock).routes(reg),
		)
	})
	return &Server{
		face: face, kinds: table, sessions: sessions, streams: streams, auditor: auditor, lister: lister, tasks: tasks, truth: truth,
		limits: cfg.Limits, counts: counts, log: cfg.Log, clock: cfg.Clock,
	}, nil
}
