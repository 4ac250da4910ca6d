// Package cgroup keeps the processes of one replica together: it finds them all, measures them,
// limits them and kills them, by whatever the kernel of this machine permits.
//
// Place: layer 3, beside the host engine; the engine makes a group for each replica, the launcher
// loads it from the replica's folder to measure and to kill.
// Promise: Detect says in words why limits are not enforced when they are not; a process started
// with Group.Start is a member when Start returns; nothing is removed or killed outside
// <base>/fermi/<name>; a limit that somebody set on this process also holds for its groups.
// Enemies: pids without a check that they are still members, rules that hold for one version only.
//
// Version 2 is one tree: a group is one folder. Version 1 is a tree for each controller: a group
// is a folder in each of them, and a process is a member when any of them says so. Groups stand
// outside the server's own cgroup where that is allowed, so that stopping the server's service
// stops no launcher. Where the server itself is limited they stand below that limit.
package cgroup
