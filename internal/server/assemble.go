package server

import (
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// assemble builds the rooms, each on those below it, and gives their hooks and routes to the tables.
func assemble(cfg Config) (*Server, error) {
	rules := newRules()
	table := newKinds(rules)
	known := newTruth(cfg.Store, cfg.Contact != nil)
	judge := newJudge(known, rules)
	finder := newFinder(known, judge, cfg.History, table)
	counts := newLimiters(cfg.Limits, cfg.Clock)
	meters := newMeters(cfg.Register)
	auditor := newAuditor(cfg.History, known, table.hide, cfg.Log, cfg.Clock)
	entrance := newDoor(known, rules, cfg.Limits, counts, cfg.Clock, cfg.Log)
	streams := newStreams(entrance, judge, cfg.Limits, counts.streams, cfg.Clock, cfg.Contact, meters.streams)
	writer := newWriter(finder, cfg.IDs, cfg.Clock, cfg.Limits.Body)
	lister := newLister(finder, streams)
	tasks := newTracker()

	sessions := newSessions(entrance, cfg.IDs, cfg.Random)
	archives := newArchives(known, judge, cfg.Blob, cfg.Stored, streams, cfg.Limits.Archive)
	zones := newZones(finder, cfg.Live, cfg.Clock)
	nodes := newNodes(known, judge, cfg.Live, cfg.Clock)
	queues := newQueues(finder, tasks, cfg.Live)
	events := newEvents(finder)
	desk := newDesk(finder, cfg.Clock)
	gate := newGate(known, archives, newOrigins(finder, cfg.Checkpoints, cfg.Imports != nil), tasks, cfg.Clock, gateConfig{
		refuse: cfg.Refuse, soleOwner: cfg.SoleOwner, folders: cfg.Folders, stored: cfg.Stored,
	})
	previews := newPreviews(finder, writer, gate, cfg.Live, cfg.IDs, cfg.Limits.Body)

	err := table.add(
		taskHooks(gate, previews, desk, &leftovers{logs: cfg.Logs, blob: cfg.Blob, saved: cfg.Checkpoints, stored: cfg.Stored}),
		placementHooks(),
		zones.hooks(),
		nodes.hooks(),
		queues.hooks(),
		newProjects(known, cfg.Stored).hooks(),
		newUsers(known).hooks(),
		newTokens(known, entrance, cfg.Clock, cfg.Random).hooks(),
		newSecrets(known, cfg.Box).hooks(),
	)
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
		door: entrance, auditor: auditor, meters: meters, log: cfg.Log, clock: cfg.Clock, hosts: lowerAll(cfg.Hosts), contact: cfg.Contact,
		now: known.Now, stall: cfg.Limits.Stall, patience: cfg.Limits.Request, pages: newConsole(cfg.Console),
	}
	system := &system{
		truth: known, streams: streams, auditor: auditor, clock: cfg.Clock, version: cfg.Version, ready: cfg.Ready, gatherer: cfg.Metrics,
		doc: func() ([]byte, error) { return face.doc() }, write: cfg.Backup, rotateKey: cfg.Rotate,
	}
	plain := newObjects(table, finder, lister, writer)
	face.build(cfg.Version, func(reg *schemas) []*route {
		routes := system.routes(reg)
		for _, row := range api.Kinds {
			routes = append(routes, plain.routes(row, reg)...)
		}
		return slices.Concat(routes,
			archives.routes(reg),
			newVerbs(desk, writer, events, cfg.Live).routes(reg),
			newStates(desk, gate, cfg.Imports, streams, auditor, cfg.Limits).routes(reg),
			newLogs(desk, cfg.Logs, tasks, cfg.Live, streams, auditor, cfg.Log, cfg.Limits.HandOver).routes(reg),
			newOutputs(desk, cfg.Blob, streams, auditor).routes(reg),
			previews.routes(reg),
			nodes.routes(reg), zones.routes(reg), queues.routes(reg), newDevices(known, cfg.Live).routes(reg),
			sessions.routes(reg),
			newAuditReader(auditor, known, streams).routes(reg, kindParam()),
			events.routes(reg), newUsage(finder, cfg.Clock).routes(reg), newFigures(known, judge, cfg.Clock).routes(reg),
		)
	})
	return &Server{
		face: face, kinds: table, rules: rules, sessions: sessions, streams: streams, auditor: auditor, lister: lister, tasks: tasks, truth: known,
		limits: cfg.Limits, counts: counts, log: cfg.Log, clock: cfg.Clock,
	}, nil
}
