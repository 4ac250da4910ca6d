// Package inventory says what machines there are: this one as it is, the demo topology, and what
// a zones file declares.
//
// Place: layer 3, beside the host engine. Promise: Local never fails because hardware or a driver
// is missing, it says what it found; Demo and LoadZones give the same objects, names and numbers
// every time. Enemies: a driver linked at build time, a topology that changes with map order.
package inventory
