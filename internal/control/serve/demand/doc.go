// Package demand is what is asked of services, as gateways tell it, and how many replicas that needs.
//
// Place: layer 4, part of the controller of services; reports come from gateways each second, by HTTP or from the same
// process, and are never written down. Promise: judgement (Wanted, Judge) is a function of what was counted and of a time.
// Counters of a gateway that is gone stay counted; one that begins anew begins at zero.
//
// Enemies: a gateway that reports twice or late, a peak of a second, a quiet minute at noon, a leader that knows nothing yet.
package demand
