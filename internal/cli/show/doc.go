// Package show shows text on a terminal: tables, sheets, amounts and times, for people.
//
// Place: layer 5, below all commands. Promise: every line fits the screen, names that are typed again are never cut,
// and nothing that users or tasks wrote acts on the terminal. Enemies: CJK text and emoji that are two cells wide,
// control sequences in logs, colour codes in files.
package show
