// Package serve deploys, asks, updates and kills inference services of the shipped binary, as an ordinary member does.
//
// Place: test only. Promise: real servers, gateways and processes; no request that may be asked twice is lost.
// Enemies: an update, a kill or a key of somebody else's that the other tests do not meet.
package serve
