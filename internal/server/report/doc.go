// Package report serves what happened and what it cost: events, usage, figures, and the meters of running tasks.
//
// Place: over objects and the port history.
//
// Promise: every second costs what the zone asked for then; what nobody measured is absent, never zero; the series
// of a scrape are bounded.
//
// Enemies: sums over more than fits into memory; zones that were deleted; clocks that differ.
package report
