// Package hosts tries many machines: agents that join, tasks on them and over several, and what becomes of them when agents, servers and
// machines die.
//
// Place: test only; `make e2e-hosts`. Machines are those of package world; it needs root. Promise: the shipped binary, real networks, real
// processes. Enemies: a folder that two machines share by chance.
package hosts
