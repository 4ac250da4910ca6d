// Package health judges devices: by what the tools of their makers say of them, by the kernel's log, and by drills.
//
// Place: layer 2, pure; control/card feeds it and writes down what it decides. Promise: the same evidence gives the same
// verdict; a verdict that changes nothing is equal to what was there; every verdict names its cause in both languages.
// Enemies: a counter that is judged twice; a card that returns untested; a card that never returns because a counter never
// goes back; a line of a log that a tenant wrote.
//
//	open ──a fault that closes──▶ closed ──nothing stands on it──▶ testing ──passed──▶ open
//	                                                                  │ failed, or too many faults in a day
//	                                                                  ▼
//	                                     testing ◀──well again, restarted, or asked── out
//
// An operator's return leads from anywhere to open.
package health
