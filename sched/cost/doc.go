// Package cost judges a place for a gang: what it costs an hour and over time, how far its replicas
// are from each other, how well it will run, what it burns, and what one rack would take with it.
//
// Place: layer 2, pure functions of zones and a time. It knows no planner: a place is a list of
// Parts, whoever chose it.
//
// Promise: money is exact. Unit prices are millionths, rates are billionths of the currency an hour,
// and a sum over time is an integral over the hours of the day, never rounded before it is shown:
// the cost of an interval is the cost of its pieces. What is only estimated says so.
//
// Enemies: floats that drift, currencies added to each other, a price that turns negative by
// overflow (sums saturate), a table with holes.
//
// The simple story: everything that changes by the hour is a Daily, a step function over the hours
// of a day on the zone's clock. Price and carbon are Dailies; cost and grams are their integrals;
// the best hours to start are where the integral over the task's length is least, and that can only
// be at a step or a task's length before one.
package cost
