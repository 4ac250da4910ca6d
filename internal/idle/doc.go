// Package idle judges whether anybody works in an environment, and when it is stopped because nobody does.
//
// Place: layer 2, judgement. Signals come from launchers (api/v1/activity), the controller of environments asks and acts.
//
//	active ──── After less the warning ────▶ warned ──── the warning ────▶ stopped
//	   ▲                                        │
//	   └──────────── any signal ◀───────────────┘
//
// Promise: pure. It says stop only by a table that was looked at just now, in which no signal that counts is active or was within
// After, and only after a warning that is as old as warnings must be; it names what was active last.
// Enemies: two clocks, a server that was away for hours, a table that is old.
package idle
