// Package gate is `fermi gateway`: the gateway in a process of its own.
//
// Place: layer 6, assembly. Promise: it writes nothing, and ends only when the last request that it took is answered, or after a while.
// Enemies: a control plane that is away for long.
package gate
