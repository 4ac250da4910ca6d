// Package train is the controller of training tasks: it turns a placed task into running replicas
// and what happened to them into the task's status.
//
// Place: layer 4; only the leader runs it. Judgement is decide (decide.go and what it calls), a pure function of a snapshot and
// the time; observe.go takes the snapshot, apply.go carries the plan out, controller.go is the loop, memory.go what a leader
// remembers between turns.
// Promise: what the user wished is reached or a reason is given; a crash between any two lines is
// mended by the next turn. Enemies: a second start of the same replica, a phase set elsewhere, a
// status write for every heartbeat.
//
//	          placed            all attached → go        all started
//	Pending ────────▶ Initializing ───────────────────────────▶ Running ──▶ Completed
//	   ▲                   │                                       │
//	   │ placement gone    │ a replica failed                      │ a rank or a replica failed
//	   └───────────────────┴────────▶ Recovering ◀─────────────────┘
//	                                      │ budget used up          stop wanted → Stopped
//	                                      └──────────▶ Failed
//
// Two ways back from Recovering. A rank failed and its launcher lives: the next generation of the
// same attempt; launchers, folders and what their ranks hold in memory stay, and all ranks go on
// from the newest step that every one of them holds. A launcher is lost or has ended: the next
// attempt, with new launchers, from the beginning.
//
// Roles with restart: role are units of their own (gang.Unit, answer.go): what is said here of a task's attempt,
// generation and ranks holds for each unit, and one unit's way back leaves the others alone. Phase,
// budget and end are the task's.
//
// The judgement by subject: a task's life (decide.go, ending.go), one unit's generations and failures (answer.go), who takes part
// (elastic.go, spares.go, late.go), what must hold before ranks start (preflight.go), where they begin (restore.go), tasks inside
// others (inside.go). Below it: blame says whose fault a failure is, figure what is measured, bill what is charged; beside it
// control/gang says who the members are, and control/save sees to their checkpoints.
//
// Invariants:
//  1. Attempt only grows; a replica's name contains it, so no name is ever used twice.
//  2. Generation only grows. With it the hash of its members, its lead and the step to restore are
//     written, fenced, before any launcher is told to go; all are told the same, by whatever leader.
//  3. A new attempt starts only when every replica of the old ones has ended.
//  4. A final phase is written in the same transaction that deletes the placement, after every
//     replica has handed over its log and outputs and its usage is in history.
//  5. A replica's folder goes only after 4.
//  6. A task that moves has both places until its processes have ended, and the new one from then
//     on: one transaction makes it the place of the next attempt.
//  7. An elastic task's placement says which replicas there shall be. A newcomer takes part only from a
//     generation on that was opened when all were ready; a slot goes only after its processes have ended.
//     Of a task with spares (spares.go) likewise: a spare belongs to no generation until it replaces a lost replica, and its end opens none.
//  8. A task inside others (inside.go) ends before they do: their place is free only after its processes.
package train
