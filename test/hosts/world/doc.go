// Package world makes many machines out of one, for tests.
//
// Place: test only; it needs root. A World has zones, and each zone has hosts (six in two zones unless told otherwise).
// A host is a set of namespaces: network, mounts, processes, name, IPC and control groups. It has its own address, /etc, /var,
// /proc, /sys, /run and /dev/shm, machine id and boot id; the rest of the file system, /tmp too, is the machine's. Hosts of one zone share a
// bridge. Packets between zones go through the forwarder of this package, which adds delay, jitter and loss; the kernel (tbf) or,
// where it can't, the forwarder bounds the rate.
//
//	machine ─ uplink ─┐              ┌─ uplink ─ machine
//	a1 ─┐             │              │              ┌─ b1
//	a2 ─┼─ bridge of zone a ─ TUN ─ forwarder ─ TUN ─ bridge of zone b ─┼─ b2
//	a3 ─┘                                           └─ b3
//
// A package that uses it calls Main from its TestMain, because the first process of each host is the test binary itself.
//
//	func TestMain(m *testing.M) { world.Main(m) }
//
//	w := world.New(t, world.Config{})                   // a1 a2 a3 b1 b2 b3, zones 12 ms apart
//	cmd := w.Host("b2").Command("fermi", "agent", …)    // like exec.Cmd; it runs on b2
//	w.Link("a", "b", world.Link{RTT: 40 * time.Millisecond, Loss: 0.01})
//	w.Host("b2").Freeze(); w.Host("b2").Thaw()
//	w.Host("b2").Cut(world.Out); w.Host("b2").Heal()    // b2 still hears the others, nobody hears b2
//	w.Host("b2").PowerOff(); w.Host("b2").Boot()        // another boot id, the same disk
//
// The test itself reaches every host at its address over the uplinks, without delay and whatever the forwarder does.
//
// Promise: what a method says has happened when it returns; a host that is powered off says nothing more, not even that its connections
// are closed; nothing is left when the test ends, and what a killed run left is removed by the next. Enemies: a process that
// leaves its host, a packet that takes another way than the forwarder, a leftover that fails the next run.
package world
